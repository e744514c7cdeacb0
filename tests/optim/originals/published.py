"""Trains a small network with every published optimizer and saves the weights after 1, 10 and 100 steps.

``python published.py OUTPUT [--sources FOLDER]``, run in the environment that ``packages.py`` makes. Each
case runs in float64 and float32, and in two ways: on fixed batches of data ("batches"), where the
gradient depends on the weights, and on fixed heavy-tailed gradients with exact zeros among them
("gradients"). FOLDER may hold files of the original repositories that are no packages (see ``LOOSE``);
those found are run as well.

OUTPUT is a ``torch.save`` of plain dictionaries, lists and tensors, readable with ``weights_only=True``:
``settings`` (JSON-able: versions, the arguments of every case, what is missing and why), ``weights`` by
case, type, way and number of steps, and ``functions`` (inputs and outputs of HeavyBall's functions).
"""

import argparse
import importlib
import importlib.metadata
import warnings
from pathlib import Path

import torch

MARKS = (1, 10, 100)
DTYPES = {"float64": torch.float64, "float32": torch.float32}
WAYS = ("batches", "gradients")
PACKAGES = ("torch", "adam-atan2-pytorch", "pytorch_optimizer", "heavyball", "lion-pytorch")

ADAM_ATAN2 = "adam_atan2_pytorch:AdamAtan2"
SIGN_SGD = "pytorch_optimizer:SignSGD"
HB_ADAMW, HB_SGD = "heavyball:AdamW", "heavyball:SGD"
# HeavyBall's lr passes through float32, also for float64 weights: a power of two loses nothing there.
HB_LR = 2**-8

# name: (module:class, arguments). Names of HeavyBall's functions stand for the functions.
CASES = {
    "adam_atan2": (ADAM_ATAN2, {"lr": 1e-2}),
    "adam_atan2_ab": (
        ADAM_ATAN2,
        {"lr": 1e-2, "betas": (0.9, 0.999), "weight_decay": 0.1, "a": 2.0, "b": 0.5},
    ),
    "signsgd": (SIGN_SGD, {"lr": 1e-2, "momentum": 0.0}),
    "signum": (SIGN_SGD, {"lr": 1e-2, "momentum": 0.9}),
    "signum_decoupled": (SIGN_SGD, {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1}),
    "signum_coupled": (
        SIGN_SGD,
        {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1, "weight_decouple": False},
    ),
    "lion": ("lion_pytorch:Lion", {"lr": 1e-3}),
    "lion_decay": (
        "lion_pytorch:Lion",
        {"lr": 1e-3, "betas": (0.95, 0.98), "weight_decay": 0.1},
    ),
    "lion_second": (
        "pytorch_optimizer:Lion",
        {"lr": 1e-3, "betas": (0.95, 0.98), "weight_decay": 0.1},
    ),
    "heavyball_adamw": (HB_ADAMW, {"lr": HB_LR, "weight_decay": 0.1}),
    "heavyball_adamw_mu_law": (HB_ADAMW, {"lr": HB_LR, "update_clipping": "mu_law_compress"}),
    "heavyball_adamw_softsign": (HB_ADAMW, {"lr": HB_LR, "update_clipping": "softsign_compress"}),
    "heavyball_adamw_trust_region": (
        HB_ADAMW,
        {"lr": HB_LR, "weight_decay": 0.1, "update_clipping": "trust_region_clip_"},
    ),
    "heavyball_adamw_gradient_softsign": (
        HB_ADAMW,
        {"lr": HB_LR, "gradient_clipping": "softsign_compress"},
    ),
    "heavyball_sgd_mu_law": (HB_SGD, {"lr": 2**-4, "update_clipping": "mu_law_compress"}),
    "heavyball_sgd_softsign": (
        HB_SGD,
        {"lr": 2**-4, "weight_decay": 0.1, "update_clipping": "softsign_compress"},
    ),
    "heavyball_sgd_trust_region": (HB_SGD, {"lr": 2**-4, "update_clipping": "trust_region_clip_"}),
    "heavyball_sgd_gradient_mu_law": (
        HB_SGD,
        {"lr": 2**-4, "gradient_clipping": "mu_law_compress"},
    ),
    "clip_value": ("torch.optim:SGD", {"lr": 0.1, "clip_value": 0.05}),
    "clip_value_nesterov": (
        "torch.optim:SGD",
        {
            "lr": 0.1,
            "momentum": 0.9,
            "weight_decay": 1e-3,
            "nesterov": True,
            "clip_value": 0.05,
        },
    ),
}
# The same for files of repositories that are no packages, under the names that they have here.
SGD_LIKE = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
LOOSE = {
    "softsignum": (
        "softsignum:SoftSignum",
        {"lr": 1e-2, "momentum": 0.9, "sign_iters": 40, "transition_iters": 60},
    ),
    "softsignum_nesterov": (
        "softsignum:SoftSignum",
        {
            "lr": 1e-2,
            "momentum": 0.9,
            "weight_decay": 0.1,
            "nesterov": True,
            "sign_iters": 5,
            "transition_iters": 95,
            "tmax": 1e9,
        },
    ),
    "alphagrad": ("alphagrad:AlphaGrad", {"lr": 1e-2, "alpha": 3.0}),
    "alphagrad_momentum": (
        "alphagrad:AlphaGrad",
        {"lr": 1e-2, "alpha": 3.0, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
    ),
    "biclip": (
        "biclip:BiClipSGD_Full",
        {"lr": 1e-2, "d": 1e-3, "u": 0.05, "l2_or_coord_clip": 1, "weight_decay": 0.1},
    ),
    "sgd_atan": ("GAF:SGD_atan", SGD_LIKE),
    "sgd_atan_nesterov": ("GAF:SGD_atan", {**SGD_LIKE, "nesterov": True}),
    "sgd_atan_mom": ("GAF:SGD_atanMom", SGD_LIKE),
    "sgd_atan_mom_dampened": ("GAF:SGD_atanMom", {**SGD_LIKE, "dampening": 0.5}),
    "sgd_atan_mom_none": ("GAF:SGD_atanMom", {**SGD_LIKE, "momentum": 0.0}),
    "sgd_tanh_mom": ("GAF:SGD_tanh_Mom", SGD_LIKE),
    "sgd_log_mom": ("GAF:SGD_log_Mom", SGD_LIKE),
    "sgd_atan_mom_ada": ("GAF:SGD_atanMom_Ada", {**SGD_LIKE, "shrink": 2.0, "gamma": 2.0}),
    "adam_atan": ("Adam:Adam_atan", {"lr": 1e-2, "weight_decay": 5e-4}),
    "adam_atan_off": ("Adam:Adam_atan", {"lr": 1e-2, "alpha": -1.0, "beta": -1.0}),
}


# --- the problem ------------------------------------------------------------------------------------


def network(dtype):
    """The small network, with the same weights at every call (rounded to the type)."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    net = net.to(torch.float64)
    with torch.no_grad():
        for param in net.parameters():
            param.copy_(torch.rand(param.shape, generator=generator, dtype=torch.float64) - 0.5)
    return net.to(dtype)


def batches(dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(max(MARKS), 16, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(max(MARKS), 16, 3, generator=generator, dtype=torch.float64)
    y = (x[..., :3] * 2 + noise).argmax(-1)
    return list(zip(x.to(dtype), y, strict=True))


def gradients(dtype):
    """Heavy-tailed gradients over several magnitudes, one in ten exactly zero."""
    generator = torch.Generator().manual_seed(2)
    shapes = [param.shape for param in network(dtype).parameters()]
    steps = []
    for _ in range(max(MARKS)):
        step = []
        for shape in shapes:
            a, b = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
            scale = 10 ** (-3 * torch.rand(shape, generator=generator, dtype=torch.float64))
            kept = torch.rand(shape, generator=generator, dtype=torch.float64) > 0.1
            step.append((a / (b.abs() + 0.01) * scale * kept).to(dtype))
        steps.append(step)
    return steps


def train(step, dtype, way):
    """Calls ``step(params)``, gradients in place, 100 times; returns the weights after each mark."""
    net = network(dtype)
    params = list(net.parameters())
    step = step(params)
    given = batches(dtype) if way == "batches" else gradients(dtype)
    saved = {}
    for count, item in enumerate(given, 1):
        if way == "batches":
            net.zero_grad()
            torch.nn.functional.cross_entropy(net(item[0]), item[1]).backward()
        else:
            for param, grad in zip(params, item, strict=True):
                param.grad = grad.clone()
        step()
        if count in MARKS:
            saved[count] = [param.detach().clone() for param in params]
    return saved


# --- the published classes --------------------------------------------------------------------------


def stepper(target, arguments, dtype):
    """A function for ``train``: makes the optimizer for the parameters and returns its step."""
    module, name = target.split(":")
    cls = getattr(importlib.import_module(module), name)
    arguments = dict(arguments)
    clip_value = arguments.pop("clip_value", None)
    if module == "heavyball":
        import heavyball.utils

        # Its state is float32 by default, also for float64 weights.
        arguments["storage_dtype"] = str(dtype).removeprefix("torch.")
        for key in ("update_clipping", "gradient_clipping"):
            if key in arguments:
                arguments[key] = getattr(heavyball.utils, arguments[key])

    def start(params):
        optimizer = cls(params, **arguments)
        if clip_value is None:
            return optimizer.step

        def step():
            torch.nn.utils.clip_grad_value_(params, clip_value)
            optimizer.step()

        return step

    return start


def heavyball_functions(dtype):
    import heavyball.utils

    x = torch.cat([torch.zeros(1), torch.logspace(-12, 6, 181, dtype=torch.float64)])
    x = torch.cat([-x.flip(0), x]).to(dtype)
    names = ("mu_law_compress", "a_law_compress", "softsign_compress", "trust_region_clip_")
    return {"x": x} | {name: getattr(heavyball.utils, name)([x.clone()])[0] for name in names}


def versions():
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def reason(error):
    return f"{type(error).__name__}: {error}"


def everything(sources=None):
    cases = dict(CASES)
    if sources:
        import sys

        sys.path.insert(0, str(Path(sources).resolve()))
        present = {path.stem for path in Path(sources).glob("*.py")}
        cases |= {k: v for k, v in LOOSE.items() if v[0].split(":")[0] in present}
    try:
        import heavyball.utils

        heavyball.utils.compile_mode = None  # plain execution: no compiler needed, and quick
    except ImportError:
        pass
    weights, missing, functions = {}, {}, {}
    for case, (target, arguments) in cases.items():
        try:
            weights[case] = {
                kind: {way: train(stepper(target, arguments, dtype), dtype, way) for way in WAYS}
                for kind, dtype in DTYPES.items()
            }
        except Exception as error:
            missing[case] = reason(error)
    for kind, dtype in DTYPES.items():
        try:
            functions[kind] = heavyball_functions(dtype)
        except Exception as error:
            missing[f"functions {kind}"] = reason(error)
    settings = {
        "versions": versions(),
        "cases": {k: {"class": t, "arguments": a} for k, (t, a) in cases.items()},
        "missing": missing,
        "marks": list(MARKS),
        "network": "Linear(5, 7), Tanh, Linear(7, 3), cross-entropy, 16 rows a batch",
    }
    return {"settings": settings, "weights": weights, "functions": functions}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--sources", help="a folder with files of the original repositories")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    result = everything(args.sources)
    torch.save(result, args.output)
    for case, why in result["settings"]["missing"].items():
        print(f"missing: {case}: {why}")
    print(f"{len(result['weights'])} cases in {args.output}")


if __name__ == "__main__":
    main()
