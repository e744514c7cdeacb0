"""Every registered model: its count, its gradients, its determinism, channels-last, its options."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gaf.lab.tasks import models

# Counts as published, with 100 classes for CIFAR, 1,000 for ImageNet and 10 for digits.
COUNTS = {
    "resnet8-cifar": 81_140,  # 75,290 with 10 classes
    "resnet18-cifar": 11_220_132,
    "resnet20-cifar": 275_572,  # 269,722 with 10 classes
    "resnet34-cifar": 21_328_292,
    "resnet50-cifar": 23_705_252,
    "preact-resnet34-cifar": 21_325_476,
    "preact-resnet50-cifar": 23_693_476,
    "densenet121-cifar": 1_035_268,
    "densenet169-cifar": 12_643_172,
    "dpn26-cifar": 11_793_812,
    "googlenet-cifar": 6_258_500,
    "regnetx-200mf-cifar": 2_355_156,
    "resnet18-imagenet": 11_689_512,
    "resnet34-imagenet": 21_797_672,
    "resnet50-imagenet": 25_557_032,
    "se-resnet18-imagenet": 11_778_592,
    "se-resnet34-imagenet": 21_958_868,
    "se-resnet50-imagenet": 28_088_024,
    "digits-cnn": 23_946,
    "fashion-cnn": 24_202,
    "mlp": 13_130,
}
CONVOLUTIONAL = [name for name in models.names() if name != "mlp"]
SLIM = [name for name in models.names() if "depths" in models.options(name)]
# Before the global mean a 32 x 32 image has become 4 x 4, in these models 8 x 8.
ENDS_AT_8 = {"googlenet-cifar", "regnetx-200mf-cifar", "resnet8-cifar", "resnet20-cifar"}


def classes_of(name: str) -> int:
    return 1000 if name.endswith("imagenet") else 100 if name.endswith("cifar") else 10


def channels_of(name: str) -> int:
    return 3 if name.endswith(("imagenet", "cifar")) else 1


def make(name: str, seed: int = 0, **options) -> nn.Module:
    torch.manual_seed(seed)
    return models.build(name, classes=classes_of(name), in_channels=channels_of(name), **options)


def slim(name: str, **options) -> nn.Module:
    """A model of the same family that a test can afford, at a quarter of the width."""
    if name in SLIM:
        options = {"width": 0.25, **options}
    return make(name, **options)


def short(name: str, **options) -> nn.Module:
    """The same with a block in each stage."""
    if name in SLIM:
        options = {"depths": [1] * (3 if name == "googlenet-cifar" else 4), **options}
    return slim(name, **options)


def images(name: str, count: int = 2, size: int = 32) -> torch.Tensor:
    size = size if channels_of(name) == 3 else 28 if name == "fashion-cnn" else 8
    return torch.randn(
        count, channels_of(name), size, size, generator=torch.Generator().manual_seed(1)
    )


def test_every_model_has_a_count_to_meet():
    assert set(COUNTS) == set(models.names())


@pytest.mark.parametrize("name", models.names())
def test_count(name):
    with torch.device("meta"):
        model = make(name)
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name]


@pytest.mark.parametrize(
    ("name", "count"), [("resnet8-cifar", 75_290), ("resnet20-cifar", 269_722)]
)
def test_count_with_ten_classes(name, count):
    with torch.device("meta"):
        model = models.build(name, classes=10)
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_published_resolution(name):
    own = 28 if name == "fashion-cnn" else 8
    size = {"imagenet": 224, "cifar": 32}.get(name.rpartition("-")[2], own)
    with torch.device("meta"):
        model = short(name)
        x = torch.empty(2, channels_of(name), size, size)
    last = model.stages(model.stem(x))
    expected = 7 if size == 224 else 8 if name in ENDS_AT_8 else 4
    assert last.shape[2:] == (expected, expected)
    assert model(x).shape == (2, classes_of(name))


@pytest.mark.parametrize("name", models.names())
def test_forward_and_backward(name):
    model = slim(name)
    out = model(images(name, 8))
    assert out.shape == (8, classes_of(name))
    nn.functional.cross_entropy(out, torch.arange(8)).backward()
    for key, p in model.named_parameters():
        assert p.grad is not None, key
        assert p.grad.isfinite().all(), key
        assert p.grad.abs().max() > 0 or key.endswith("conv.bias"), key  # idle before a batch norm


@pytest.mark.parametrize("name", models.names())
def test_same_seed_same_model(name):
    one, two, other = short(name), short(name), short(name, seed=1)
    same = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(value, same[key]), key
    assert not torch.equal(one.head.weight, other.head.weight)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_channels_last_agrees(name):
    # In double precision, so that a wrong layout cannot hide behind rounding.
    plain, last = short(name).double(), short(name).double()
    last = last.to(memory_format=torch.channels_last)
    x = images(name, 3).double()
    y = plain(x)
    z = last(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(z, y, rtol=1e-9, atol=1e-9)
    y.square().sum().backward()
    z.square().sum().backward()
    for (key, p), q in zip(plain.named_parameters(), last.parameters(), strict=True):
        scale = max(p.grad.abs().max().item(), 1e-6)
        torch.testing.assert_close(
            q.grad / scale,
            p.grad / scale,
            rtol=1e-6,
            atol=1e-6,
            msg=lambda m, key=key: f"{key}: {m}",
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", models.names())
def test_compiles_in_one_piece(name):
    """torch.compile sees the whole model: no line of it falls back to Python."""
    model = short(name).eval()
    x = images(name)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    torch._dynamo.reset()


@pytest.mark.parametrize("name", models.names())
def test_state_loads_and_reads_well(name):
    one, other = short(name), short(name, seed=1)
    other.load_state_dict(one.state_dict())
    x = images(name)
    assert torch.equal(one.eval()(x), other.eval()(x))
    assert {key.split(".")[0] for key in one.state_dict()} <= {"stem", "stages", "hidden", "head"}


def test_keys_are_stable():
    keys = set(make("resnet18-cifar", width=0.125).state_dict())
    assert {
        "stem.conv.weight",
        "stem.norm.running_mean",
        "stages.stage1.0.conv1.conv.weight",
        "stages.stage4.1.conv2.norm.bias",
        "stages.stage2.0.shortcut.conv.weight",
        "head.weight",
        "head.bias",
    } <= keys
    assert "stages.stage1.0.shortcut.conv.weight" not in keys
    assert "stages.stage1.0.gate.squeeze.weight" in set(
        make("se-resnet18-imagenet", width=0.25).state_dict()
    )


@pytest.mark.parametrize("name", SLIM)
def test_depths_shorten(name):
    stages = len(
        [key for key, _ in make(name, width=0.25).stages.named_children() if "stage" in key]
    )
    model = make(name, width=0.25, depths=[1] * stages)
    for key, stage in model.stages.named_children():
        assert not key.startswith("stage") or len(stage) == 1
    assert model(images(name)).shape == (2, classes_of(name))
    with pytest.raises(ValueError, match=f"depths must be {stages} whole numbers above 0"):
        make(name, depths=[1])
    with pytest.raises(ValueError, match="depths must be"):
        make(name, depths=[0] * stages)


def test_googlenet_has_no_more_blocks_than_published():
    with pytest.raises(ValueError, match=r"at most \[2, 5, 2\]"):
        make("googlenet-cifar", depths=[3, 1, 1])


def test_projection_of_a_preact_block_sees_the_activated_input():
    block = slim("preact-resnet34-cifar").stages.stage2[0].eval()
    seen = []
    block.shortcut.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    block(torch.full((1, 16, 4, 4), -1.0))
    assert seen[0].min() >= 0


def test_dual_path_keeps_the_dense_path():
    block = slim("dpn26-cifar").stages.stage1[1].eval()
    d = block.residual
    x = torch.rand(1, d + 8, 4, 4)
    y = block(x)
    assert y.shape[1] == d + 12
    assert torch.equal(y[:, d : d + 8], x[:, d:])  # appended to, never changed


def test_thin_shortcut_pads_with_zeros():
    block = make("resnet8-cifar").stages.stage2[0].eval()
    nn.init.zeros_(block.conv2.norm.weight)
    x = torch.rand(1, 16, 4, 4)
    y = block(x)
    assert torch.equal(y[:, :16], x[:, :, ::2, ::2])
    assert not y[:, 16:].any()


def test_gradient_vanishes_in_a_deep_sigmoid_mlp_and_not_in_a_shallow_one():
    def first_to_last(depth: int) -> float:
        model = make("mlp", depth=depth, activation="sigmoid")
        nn.functional.cross_entropy(model(images("mlp", 8)), torch.arange(8)).backward()
        return (model.hidden[0].weight.grad.norm() / model.head.weight.grad.norm()).item()

    assert first_to_last(8) < 1e-6 < 1e-3 < first_to_last(1)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("resnet18-cifra", {}, "unknown model 'resnet18-cifra'; did you mean 'resnet18-cifar'"),
        ("resnet18-cifar", {"widht": 2}, "unknown option 'widht' .* did you mean 'width'"),
        ("transformer", {}, "the model transformer needs the option 'size'"),
        (
            "resnet8-cifar",
            {"width": 2},
            "unknown option 'width' of the model resnet8-cifar; it has none",
        ),
        ("resnet18-cifar", {"width": 0}, "width must be a number above 0, got 0"),
        ("resnet18-cifar", {"width": "thin"}, "width must be a number above 0, got 'thin'"),
        ("dpn26-cifar", {"width": float("inf")}, "width must be a number above 0"),
        ("regnetx-200mf-cifar", {"width": float("nan")}, "width must be a number above 0"),
        ("resnet18-cifar", {"depths": 3}, "depths must be 4 whole numbers above 0, got 3"),
        ("densenet121-cifar", {"depths": "1111"}, "depths must be 4 whole numbers"),
        ("dpn26-cifar", {"depths": [1, 1, 1, 1.5]}, "depths must be 4 whole numbers"),
        ("mlp", {"activation": 3}, "unknown activation 3"),
        ("mlp", {"width": 2.5}, "width of an mlp must be a whole number above 0, got 2.5"),
        ("mlp", {"activation": "sigmod"}, "did you mean 'sigmoid'"),
        ("mlp", {"depth": 0}, "depth of an mlp must be a whole number above 0"),
    ],
)
def test_refusals(name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        models.build(name, classes=10, **options)
