"""Compares ``rules.py`` with the weights that ``published.py`` saved, case by case.

``python -m tests.optim.originals.check OUTPUT``: prints the largest difference of any weight (relative
where the weight is above 1) after 1, 10 or 100 steps, for both ways of training, and fails above 1e-12
in float64 or 1e-6 in float32.
"""

import argparse

import torch

from tests.optim.originals import published, rules

FUNCTIONS = {
    "mu_law_compress": rules.mu_law,
    "a_law_compress": rules.a_law,
    "softsign_compress": rules.softsign,
    "trust_region_clip_": rules.trust_region,
}
CLASSES = {
    "adam_atan2_pytorch:AdamAtan2": rules.AdamAtan2,
    "pytorch_optimizer:SignSGD": rules.Signum,
    "pytorch_optimizer:Lion": rules.Lion,
    "lion_pytorch:Lion": rules.Lion,
    "heavyball:AdamW": rules.HeavyBallAdamW,
    "heavyball:SGD": rules.HeavyBallSGD,
    "torch.optim:SGD": rules.ClipValue,
    "softsignum:SoftSignum": rules.SoftSignum,
    "alphagrad:AlphaGrad": rules.AlphaGrad,
    "biclip:BiClipSGD_Full": rules.BiClip,
    "GAF:SGD_atan": rules.SGDAtan,
    "GAF:SGD_atanMom": rules.SGDAtanMom,
    "GAF:SGD_tanh_Mom": rules.SGDTanhMom,
    "GAF:SGD_log_Mom": rules.SGDLogMom,
    "GAF:SGD_atanMom_Ada": rules.SGDAtanMomAda,
    "Adam:Adam_atan": rules.AdamAtan,
}
# Arguments whose names differ here; None for one that has no counterpart.
NAMES = {"weight_decouple": "decoupled", "d": "lower", "u": "upper", "l2_or_coord_clip": None}
LIMITS = {"float64": 1e-12, "float32": 1e-6}


def rule(target, arguments):
    """The rule of this module for a case of ``published.py``."""
    renamed = {NAMES.get(key, key): FUNCTIONS.get(value, value) for key, value in arguments.items()}
    renamed.pop(None, None)
    return CLASSES[target](**renamed)


def weights(made, dtype, way):
    """The weights after each mark, trained with a rule."""

    def start(params):
        return lambda: made.step(params, [param.grad for param in params])

    return published.train(start, dtype, way)


def difference(one, other):
    """The largest difference of any weight, relative where the weight is above 1; infinite for NaN."""
    worst = 0.0
    for mark in published.MARKS:
        for a, b in zip(one[mark], other[mark], strict=True):
            gap = ((a - b).abs() / b.abs().clamp(min=1)).max().item()
            worst = max(worst, gap if gap == gap else float("inf"))
    return worst


def differences(result):
    """The largest difference by case and type, over both ways of training, and of the functions."""
    found = {}
    for case, kinds in result["weights"].items():
        setting = result["settings"]["cases"][case]
        found[case] = {}
        for kind, ways in kinds.items():
            gaps = []
            for way, expected in ways.items():
                made = rule(setting["class"], setting["arguments"])
                gaps.append(difference(weights(made, published.DTYPES[kind], way), expected))
            found[case][kind] = max(gaps)
    for kind, values in result["functions"].items():
        for name, function in FUNCTIONS.items():
            gap = (function(values["x"]) - values[name]).abs() / values[name].abs().clamp(min=1)
            found.setdefault(name, {})[kind] = gap.max().item()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", help="the file that published.py wrote")
    args = parser.parse_args()
    torch.set_num_threads(1)
    result = torch.load(args.output, weights_only=True)
    failed = []
    for case, gaps in differences(result).items():
        print(f"{case:36}" + "".join(f"{kind} {gap:<10.1e}" for kind, gap in gaps.items()))
        if any(gap > LIMITS[kind] for kind, gap in gaps.items()):
            failed.append(case)
    if failed:
        raise SystemExit(f"above the limit: {', '.join(failed)}")


if __name__ == "__main__":
    main()
