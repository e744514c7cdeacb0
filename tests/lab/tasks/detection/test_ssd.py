"""SSD300 as published: its count, its shapes, its slim form, and weights of VGG-16 from a file."""

from __future__ import annotations

import pytest
import torch

from gaf.lab.tasks import models
from gaf.lab.tasks.detection import ssd


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.fixture(scope="module")
def slim() -> ssd.SSD300:
    torch.manual_seed(0)
    return ssd.SSD300(20, width=0.125)


def test_count_of_the_published_design():
    with torch.device("meta"):
        model = ssd.SSD300(20)
    # VGG-16 with reduced fc6 and fc7, the norm's factors, the extra layers, the heads for 21 classes
    parts = [count(each) for each in (model.base, model.norm, model.extras)]
    assert parts == [20_483_904, 512, 2_459_520]
    assert count(model.class_heads) + count(model.box_heads) == 3_341_550
    assert count(model) == 26_285_486


def test_shapes_of_the_published_design():
    with torch.device("meta"):
        model = ssd.SSD300(20)
        maps = model.features(torch.empty(1, 3, 300, 300))
        logits, numbers = model(torch.empty(2, 3, 300, 300))
    published = [(512, 38), (1024, 19), (512, 10), (256, 5), (256, 3), (256, 1)]
    assert [tuple(each.shape[1:3]) for each in maps] == published
    assert logits.shape == (2, 8732, 21)
    assert numbers.shape == (2, 8732, 4)


def test_fc6_looks_at_every_sixth_pixel(slim):
    """Not at its neighbours: neither count nor shapes tell the published layer from a dense one."""
    spot = torch.zeros(1, slim.base["fc"].fc6.in_channels, 19, 19)
    spot[..., 9, 9] = 1.0
    layer = slim.base["fc"].fc6
    with torch.no_grad():
        moved = (layer(spot) - layer(torch.zeros_like(spot))).abs().amax(1)[0].nonzero()
    assert moved.tolist() == [[row, column] for row in (3, 9, 15) for column in (3, 9, 15)]


def test_outputs_are_in_the_order_of_the_default_boxes(slim):
    """A change in the middle of the image moves the fine boxes there, and none at the corner."""
    torch.manual_seed(1)
    images = torch.randn(1, 3, 300, 300)
    other = images.clone()
    other[..., 196:204, 100:108] += (
        3.0  # rows 196 to 204: cell 25 of 38; columns 100 to 108: cell 13
    )
    with torch.no_grad():
        moved = (slim(images)[0] - slim(other)[0]).abs().amax(-1)[0, :5776].view(38, 38, 4)
    peak = moved.amax(-1)
    row, column = divmod(int(peak.argmax()), 38)
    assert abs(row - 24.5) <= 3
    assert abs(column - 12.5) <= 3
    assert peak[0, 37] < peak.max() / 100


def test_norm_scales_each_pixel_to_its_weight():
    norm = ssd.L2Norm(16)
    length = norm(torch.randn(2, 16, 5, 5)).norm(dim=1)
    torch.testing.assert_close(length, torch.full_like(length, 20.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_norm_of_a_pixel_without_any_activity(dtype):
    x = torch.zeros(1, 16, 2, 2, dtype=dtype, requires_grad=True)
    found = ssd.L2Norm(16)(x)
    assert not found.any()
    found.sum().backward()
    assert x.grad is not None
    assert not x.grad.isnan().any()


def test_gradients_reach_all_parameters(slim):
    logits, numbers = slim(torch.randn(2, 3, 300, 300))
    (logits.square().mean() + numbers.square().mean()).backward()
    for name, p in slim.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.abs().max() > 0, name
    slim.zero_grad()


def test_by_name():
    with torch.device("meta"):
        model = models.build("ssd300", classes=20, width=0.25)
    assert count(model) < 26_285_486 / 10
    assert "ssd300" not in models.names()  # those classify
    with pytest.raises(
        ValueError, match="unknown option 'widht' of the model ssd300; did you mean"
    ):
        models.build("ssd300", classes=20, widht=0.5)
    with pytest.raises(ValueError, match="width must be a number above 0"):
        models.build("ssd300", classes=20, width=0)


PLACES = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # of VGG-16's convolutions in torchvision


@pytest.fixture(scope="module")
def whole_vgg() -> dict[str, torch.Tensor]:
    """The shapes of torchvision's file; noise that takes little memory, as one row is repeated."""
    found, fan_in = {}, 3
    for place, fan_out in zip(PLACES, [c for stage in ssd.VGG_STAGES for c in stage], strict=True):
        found[f"features.{place}.weight"] = torch.randn(fan_out, fan_in, 3, 3)
        found[f"features.{place}.bias"] = torch.randn(fan_out)
        fan_in = fan_out
    found["classifier.0.weight"] = torch.randn(1, 25088).expand(4096, -1)
    found["classifier.3.weight"] = torch.randn(1, 4096).expand(4096, -1)
    for name in ("classifier.0", "classifier.3"):
        found[f"{name}.bias"] = torch.arange(4096.0)
    return found


@pytest.fixture
def base() -> torch.nn.ModuleDict:
    return torch.nn.ModuleDict(ssd.vgg_stages(3, 1.0))


def test_weights_of_torchvision(whole_vgg, base, tmp_path):
    path = tmp_path / "vgg16.pth"
    torch.save(whole_vgg, path)
    ssd.load_vgg(base, str(path))
    state = base.state_dict()
    assert torch.equal(state["conv1.conv1.weight"], whole_vgg["features.0.weight"])
    assert torch.equal(state["conv5.conv3.bias"], whole_vgg["features.28.bias"])
    # units 0, 4, 8, ... and of the 7 x 7 pixels rows and columns 0, 3, 6
    whole = whole_vgg["classifier.0.weight"][0].view(512, 7, 7)
    assert torch.equal(state["fc.fc6.weight"][5], whole[:, [0, 3, 6]][:, :, [0, 3, 6]])
    assert state["fc.fc6.bias"][:3].tolist() == [0, 4, 8]
    assert torch.equal(state["fc.fc7.weight"][9, :, 0, 0], whole_vgg["classifier.3.weight"][0, ::4])


def test_weights_with_reduced_layers(whole_vgg, base, tmp_path):
    reduced = {key.removeprefix("features."): each for key, each in whole_vgg.items()}
    reduced = {key: each for key, each in reduced.items() if "classifier" not in key}
    reduced |= {"31.weight": torch.randn(1024, 512, 3, 3), "31.bias": torch.randn(1024)}
    reduced |= {"33.weight": torch.randn(1024, 1024, 1, 1), "33.bias": torch.randn(1024)}
    path = tmp_path / "vgg16_reducedfc.pth"
    torch.save(reduced, path)
    ssd.load_vgg(base, str(path))
    # they expect x - mean with x of 0 to 255; an image normalised by the deviation gives the same
    pixel = torch.rand(1, 3, 3, 3) * 255 - 120
    normalised = pixel / (torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1) * 255)
    first = base["conv1"][0]
    wanted = torch.nn.functional.conv2d(pixel, reduced["0.weight"], reduced["0.bias"])
    found = torch.nn.functional.conv2d(normalised, first.weight, first.bias)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    assert torch.equal(base.state_dict()["fc.fc7.weight"], reduced["33.weight"])


class Evil:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"no weights", "holds no weights that can be read safely"),
        ({"0.weight": Evil()}, "holds no weights that can be read safely"),
        ([1, 2], "does not hold the weights of a model by name"),
        ({"a": 1}, "does not hold the weights of a model by name"),
        (
            {"a": torch.zeros(1)},
            r"does not hold VGG-16: features.0 does not fit: 'features.0.weight'",
        ),
        ({"0.weight": torch.zeros(2), "0.bias": torch.zeros(2)}, "0 does not fit"),
    ],
)
def test_bad_files(content, reason, tmp_path, capsys):
    path = tmp_path / "vgg16.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(ValueError, match=reason) as caught:
        ssd.load_vgg(torch.nn.ModuleDict(ssd.vgg_stages(3, 1.0)), str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not capsys.readouterr().out


def test_weights_need_the_published_width():
    with pytest.raises(ValueError, match="published width"):
        ssd.SSD300(20, width=0.5, weights="vgg16.pth")
