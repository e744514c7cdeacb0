"""A user's own training script as one run of ``gaf compare train.py``.

The variable ``GAF_TRIAL`` names a folder; its ``trial.json`` says what is asked of this run. What the script
reports goes into ``report.json`` beside it. Without the variable the script trains with its own values.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from gaf.common.errors import GafError
from gaf.common.files import write_json
from gaf.optim.switched import evaluation_weights, is_switched
from gaf.trials.optimizers import (
    copies,
    described,
    entries_of,
    own_rate,
    requested_optimizer,
    script_optimizer,
)
from gaf.trials.request import Request, read_request

VARIABLE = "GAF_TRIAL"
REPORT = "report.json"
OUTPUTS = "outputs"  # in the folder of a trial: what the script writes
ALONE = Path("runs", "trial")  # where a script that runs by itself writes


def trial(
    score: str = "accuracy",
    higher_is_better: bool = True,
    *,
    worst: float | None = None,
    chance: float | None = None,
) -> Trial:
    """This run of a training script, as ``gaf compare train.py`` asks for it.

    Args:
        score: the name of the score that is reported.
        higher_is_better: whether a larger score is the better one.
        worst: the score of a run that diverged; unset, 0 where higher is better, else infinity.
        chance: the score up to which nothing has been learned, if the script knows.

    Example:
        Run by itself it is the script's own optimizer, seed and rate:

        >>> import gaf, torch
        >>> trial = gaf.trial(score="accuracy")
        >>> w = torch.zeros(3, requires_grad=True)
        >>> opt = trial.optimizer("sgd", [w], lr=0.1, momentum=0.9)
        >>> type(opt), trial.seed, trial.rate(0.1)
        (<class 'gaf.optim.sgd.SGD'>, 0, 0.1)
        >>> trial.report(validation=0.97, test=0.96)
        accuracy: validation 0.97, test 0.96
    """
    if worst is None:
        worst = 0.0 if higher_is_better else math.inf
    folder = os.environ.get(VARIABLE)
    request = Request() if folder is None else read_request(Path(folder))
    return Trial(
        request,
        Path(folder) if folder else None,
        {"score": score, "higher_is_better": higher_is_better, "worst": worst, "chance": chance},
    )


class Trial:
    """One run of a training script; made by :func:`gaf.trial`."""

    def __init__(self, request: Request, place: Path | None, judged: dict[str, Any]) -> None:
        self._request, self._place, self._judged = request, place, judged
        self._began = time.perf_counter()
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._factors: dict[str, float] = {}
        self._rates: dict[Any, float] = {}  # of the first optimizer of each of the script's rules
        self._steps, self._seed_read = 0, False

    @property
    def seed(self) -> int:
        """What the script's random numbers begin with: pass it to ``torch.manual_seed`` and the like."""
        self._seed_read = True
        return self._request.seed

    @property
    def folder(self) -> Path:
        """For what the script writes; by itself ``runs/trial`` in the current folder. It exists."""
        folder = ALONE if self._place is None else self._place / OUTPUTS
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def rate(self, lr: float, name: str = "") -> float:
        """A learning rate of the script as this run is to use it, for schedulers with rates of their own.

        Args:
            lr: as the script would have it by itself.
            name: of the optimizer, as in :meth:`optimizer`.
        """
        request = self._request
        if name not in self._factors and request.lr is not None:
            raise GafError(
                "trial.rate is known once the optimizer is: call trial.optimizer before it"
            )
        return lr * self._factors.get(name, request.factor)

    def optimizer(
        self,
        rule: str | Callable[..., torch.optim.Optimizer],
        params: ParamsT,
        *,
        name: str = "",
        **arguments: Any,
    ) -> torch.optim.Optimizer:
        """The script's optimizer, or what this run is asked to put in its place.

        Arguments of the script that another rule does not know are dropped and recorded. Rates of groups
        keep their ratios to one another.

        Args:
            rule: a name that :func:`gaf.create_optimizer` takes, ``"module:Class"``, or a class.
            params: parameters, or groups of them.
            name: of a second optimizer.
            **arguments: the script's own, such as ``lr``.
        """
        if name in self._optimizers:
            raise GafError(
                "a second optimizer needs a name of its own: trial.optimizer(..., name='critic')"
            )
        entries = entries_of(params)
        own = script_optimizer(rule, copies(entries), arguments)
        made, dropped = own, []
        if self._place is not None:
            unit = self._rates.setdefault(rule, own_rate(own))
            made, dropped = requested_optimizer(self._request, rule, entries, arguments, own, unit)
            self._factors[name] = own_rate(made) / own_rate(own)
        made.register_step_post_hook(self._count)
        if is_switched(made):
            made.train()  # type: ignore[attr-defined]
        self._optimizers[name] = made
        self._records[name] = described(made, own, dropped)
        return made

    def _count(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._steps += optimizer is next(iter(self._optimizers.values()))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Have optimizers that are switched, as schedule-free ones are, in ``eval()`` for a while.

        Around an evaluation, beside ``model.eval()``. For any other optimizer it does nothing.
        """
        with ExitStack() as stack:
            for optimizer in self._optimizers.values():
                stack.enter_context(evaluation_weights(optimizer))
            yield

    def report(
        self,
        *,
        validation: float | None = None,
        test: float | Callable[[], float] | None = None,
        step: int | None = None,
    ) -> None:
        """Say how good the model is; the last report of a run counts.

        While rates are tuned the test score is neither computed nor written. Where it takes time pass a
        function, which is then not called. Under ``torchrun`` every process may call this; the first writes.

        Args:
            validation: the score on data that was kept out of the training.
            test: the score on the test data, or a function that computes it.
            step: the number of steps done; unset, those of the first optimizer.
        """
        if validation is None and test is None:
            raise GafError("trial.report needs a score: trial.report(validation=...)")
        tuning = self._request.score_on == "validation"
        if tuning:
            test = None
        tested = test() if callable(test) else test
        scores = {
            "validation": None if validation is None else float(validation),
            "test": None if tested is None else float(tested),
        }
        self._check_worst(scores.values())
        if _rank() != 0:
            return
        if self._place is None:
            reported = [f"{key} {score:.4g}" for key, score in scores.items() if score is not None]
            print(f"{self._judged['score']}: {', '.join(reported)}", flush=True)
            return
        content = {
            **self._judged,
            **scores,
            "step": self._steps if step is None else int(step),
            "seconds": time.perf_counter() - self._began,
            "seed_read": self._seed_read,
            "optimizers": self._records,
        }
        write_json(self._place / REPORT, content)

    def _check_worst(self, scores: Iterable[float | None]) -> None:
        """A run that diverged counts with the worst score, so no other may be worse than that."""
        worst, higher = self._judged["worst"], self._judged["higher_is_better"]
        for score in scores:
            if (
                score is not None
                and math.isfinite(score)
                and (score < worst) == higher
                and score != worst
            ):
                raise GafError(
                    f"a score of {score:g} is worse than {worst:g}, which a run that diverges would have: "
                    f"pass gaf.trial(worst={'-' if higher else ''}math.inf), or the worst score there is"
                )


def _rank() -> int:
    """The number of this process among those that train together."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))
