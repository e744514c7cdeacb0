"""All of it in order: probe, baseline, curve, recommendation, race; and what is kept of it, as JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gaf.common.errors import GafError
from gaf.common.files import read_json
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import LATER_KEYS, OptimizerConfig, RunConfig
from gaf.lab.engine.folder import Result
from gaf.lab.study import results, settings
from gaf.lab.study.compare import Plan, describe
from gaf.lab.study.grid import Executor, Watch, check_place, machine
from gaf.lab.study.landscape import Curve, curve, reached, training_loss
from gaf.lab.study.results import (
    FinalScores,
    NamedCandidate,
    RacedCandidate,
    Reference,
    Tuned,
    TuningCost,
)
from gaf.lab.study.tune import budget as budgets
from gaf.lab.study.tune.budget import FINAL_SEEDS, FIRST_SEEDS, Budget
from gaf.lab.study.tune.probe import Probe, probe
from gaf.lab.study.tune.recommend import Candidate, recommend
from gaf.lab.study.tune.search import Search, SearchOutcome, bare
from gaf.optim.factory import OURS

CHECK = "check"  # the folder of the comparison that checks the winner, within the tuning's
OVERHEAD = 1.5  # times the steps' own seconds: what runs need beside steps


@dataclass(frozen=True)
class Spend:
    """What tuning may cost; unset, as much as the tenth allows.

    Example:
        >>> Spend.parse("600 epochs"), Spend.parse("3min")
        (Spend(epochs=600.0, minutes=None), Spend(epochs=None, minutes=3.0))
    """

    epochs: float | None = None
    minutes: float | None = None

    @classmethod
    def parse(cls, text: str) -> Spend:
        """From ``600 epochs`` or ``3 minutes``."""
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz ").strip()
        unit = text[len(number) :].strip()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf or not unit:
            raise GafError(f"a budget is like '600 epochs' or '3 minutes', not {text!r}")
        if "epochs".startswith(unit):
            return cls(epochs=value)
        if "minutes".startswith(unit):
            return cls(minutes=value)
        raise GafError(f"a budget is counted in epochs or minutes, not in {unit!r}")

    def steps(self, seen: Probe, slots: int) -> int | None:
        """Steps of the optimizer on this machine."""
        if self.epochs is not None:
            epochs = seen.config.epochs
            # without epochs in the config, the training counts as one
            return round(self.epochs * seen.of / (epochs or 1))
        if self.minutes is not None:
            return round(60 * self.minutes * slots / (OVERHEAD * seen.seconds_per_step))
        return None


def tune(
    config: RunConfig,
    folder: Path,
    executor: Executor,
    *,
    spend: Spend | None = None,
    slots: int = 1,
    watch: Callable[[str], Watch] = lambda title: Watch(),
    say: Callable[[str], None] = lambda text: None,
    command: Sequence[str] = (),
) -> Tuned:
    """Find α and β for a training, and write ``tune.json`` into the folder.

    Args:
        config: the training; a function that it has is left out.
        folder: of this tuning; stopped, the same call goes on there.
        executor: trains runs.
        spend: what it may cost.
        slots: how many runs the executor trains at once.
        watch: makes what shows a grid of runs on its way.
        say: is given each finding as a sentence.
        command: that asked for it.

    Raises:
        GafError: the loss is no number, the budget is too small, the folder holds something else.
        Stopped: a signal came.
    """
    began = time.monotonic()
    if not config.optimizer.ours:
        raise GafError(
            f"placements and controls of {config.optimizer.name} are not known: set optimizer.name to one of "
            f"{', '.join(OURS)} to tune a function"
        )
    check_folder(folder)
    say(f"probe: the first steps of {config.name} without a function")
    seen = probe(config)
    say(_probed(seen))
    budget = budgets.plan(seen.of, seen.steps, (spend or Spend()).steps(seen, slots))
    say(_planned(budget))
    with folders.locked(folder):
        search = Search(seen.config, budget, folder, executor, watch)
        baselines = search.baselines()
        near = curve_near(baselines, seen.config, start=seen.losses[0])
        say(_curved(near))
        advice = recommend(seen, near.shape)
        for subject, sentence in advice.reasons:
            say(f"{subject}: {sentence}")
        outcome = search.race(advice)
        tuned = Tuned(
            title=seen.config.name,
            task=describe(seen.config),
            verdict=conclude(outcome, seen.config),
            helps=outcome.helps,
            line=line(seen.config.optimizer, outcome.winner),
            winner=NamedCandidate(**outcome.winner.record()),
            recommended=NamedCandidate(**advice.first.record()),
            reasons=advice.reasons,
            cost=TuningCost(
                steps=outcome.steps,
                in_full=budget.in_full,
                share=outcome.steps / budget.in_full,
                **asdict(budget),
            ),
            seconds=round(time.monotonic() - began, 1),
            score=FinalScores(
                name=outcome.score_name,
                higher_is_better=outcome.higher_is_better,
                seeds=FINAL_SEEDS,
                winner=outcome.scores,
            ),
            against=(outcome.baseline, outcome.control),
            raced=tuple(
                RacedCandidate(**raced.candidate.record(), first=raced.first, second=raced.second)
                for raced in outcome.raced
            ),
            probe=seen.record(),
            curve=near.record(),
            command=tuple(command),
            created=results.now(),
            environment=machine(baselines[0].folder),
        )
        results.write(tuned, folder)
    return tuned


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    check_place(folder, Tuned.noun)
    if (folder / Tuned.file).is_file():
        read_json(folder / Tuned.file, "title")


def check_plan(config: RunConfig, settings: Sequence[str], seeds: int) -> Plan:
    """The winner and others once more: in full, on the seeds 0, 1, 2, ..., which no rung and no final uses.

    The final's interval is honest already; this is for whoever wants the evidence at length, and with Adam,
    other learning rates or other functions in the same table.

    Example:
        >>> from gaf.lab.study.recipes.laptop import hard_case
        >>> check_plan(hard_case(), ["adam(0.01)"], 3).seeds
        (0, 1, 2)
    """
    if seeds > FIRST_SEEDS[0]:
        raise GafError(f"tuning uses the seeds from {FIRST_SEEDS[0]} on, so check fewer")
    return Plan(bare(config), tuple(settings), tuple(range(seeds)))


def curve_near(baselines: Sequence[Result], config: RunConfig, start: float) -> Curve:
    """The curve at the end of the first baseline that did not diverge: one that did has no optimum."""
    ended = next((result for result in baselines if not result.diverged), None)
    if ended is None:
        return Curve((), (), (), None, "the baseline diverged: there is no optimum to look at")
    at = reached(ended.folder, config)
    return curve(at.model, training_loss(at.task), start=start)


def line(rule: OptimizerConfig, winner: Candidate) -> str:
    """What to copy into a training script; what the race did beside it stands in a comment.

    Example:
        >>> import gaf
        >>> line(
        ...     OptimizerConfig(lr=0.1),
        ...     Candidate(gaf.Arctan(0.02, 1e6), "gradient", ""),
        ... )
        'gaf.SGD(model.parameters(), lr=0.1, activation=gaf.Arctan(0.02, 1e6), placement="gradient")'
    """
    kind = OURS[rule.name].__name__
    given = [f"lr={_number(rule.lr)}"]
    keys = ("momentum", "dampening", "nesterov", "betas", "eps", "amsgrad", "weight_decay")
    for key in (*keys, *sorted(LATER_KEYS)):
        value = getattr(rule, key)
        if value != OptimizerConfig.model_fields[key].default:
            given.append(f"{key}={value}")
    if kind == "AdamW" and rule.weight_decay == 0:
        given.append("weight_decay=0.0")  # torch's own default is another
    f = winner.function
    values = ", ".join(map(_number, f.params))
    given.append(f"activation=gaf.{type(f).__name__}({values})")
    if rule.name == "sgd":
        given.append(f'placement="{winner.placement}"')
    made = f"gaf.{kind}(model.parameters(), {', '.join(given)})"
    return f"{made}  # {beside}" if (beside := _before_step(rule)) else made


def _before_step(rule: OptimizerConfig) -> str:
    """What else is done to gradients, in the order in which the engine does it."""
    done = []
    if rule.centralize:
        done.append("take from each output's weights the mean of their gradient")
    clippings = {"clip_grad_value_": rule.clip_value, "clip_grad_norm_": rule.clip_norm}
    for name, most in clippings.items():
        if most is not None:
            done.append(f"torch.nn.utils.{name}(model.parameters(), {_number(most)})")
    if rule.normalize is not None:
        done.append(f"bring the norm of all gradients together to {_number(rule.normalize)}")
    return f"before each step: {', then '.join(done)}" if done else ""


def _number(value: float) -> str:
    """As one types it, and exact."""
    text = f"{value:g}"
    if float(text) != value:
        text = repr(value)
    digits, e, power = text.partition("e")
    return f"{digits}e{int(power)}" if e else text


def conclude(outcome: SearchOutcome, config: RunConfig) -> str:
    """The verdict on a training in a sentence or two."""
    base, control = outcome.baseline, outcome.control
    mean = f"a mean {outcome.score_name} of {_mean(outcome.scores):.4g} over {len(outcome.scores)} seeds"
    winner = f"{outcome.winner.name} has {mean}"
    against = f"{_difference(base)} against the baseline, {_difference(control)} against its matched control"
    if outcome.helps:
        return f"{winner}: {against}."
    if base.verdict == "better":
        return (
            f"{winner}: {against}. It beats the baseline, but not its matched control: "
            f"{_control(outcome.winner, config)} does the same."
        )
    return (
        f"No candidate beats the baseline. The best, {outcome.winner.name}, has {mean}: {against}."
    )


def _control(winner: Candidate, config: RunConfig) -> str:
    """What the matched control changes, in words."""
    matched = settings.control(settings.make(config, winner.name)).config.optimizer
    slope = f"{winner.function.slope:.3g}"
    sgd = config.optimizer.name == "sgd"
    divided = [] if sgd else ["an eps"]
    if matched.weight_decay != config.optimizer.weight_decay:
        divided.append("a weight decay")
    parts = [f"a learning rate times {slope}"] if sgd else []
    parts += [f"{' and '.join(divided)} divided by {slope}"] if divided else []
    return " and ".join(parts)


def _difference(against: Reference) -> str:
    return f"{against.mean:+.4g} [{against.low:+.4g}, {against.high:+.4g}] ({against.verdict})"


def _mean(scores: Sequence[float | None]) -> float:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else math.nan


def _probed(seen: Probe) -> str:
    return (
        f"probe: {seen.steps} of {seen.of} steps, largest |g| {seen.largest():.3g} at step {seen.when}, "
        f"typical |g| of layers {seen.spread:.3g} times apart"
    )


def _planned(budget: Budget) -> str:
    return (
        f"race: {budget.candidates} candidates at {budget.first} steps, {budget.kept} at {budget.second}, "
        f"the final at {budget.final} of {budget.total}: {budget.cost} steps, "
        f"{budget.cost / budget.in_full:.1%} of running all in full"
    )


def _curved(near: Curve) -> str:
    shape = near.shape
    if shape is None:
        return f"curve: {near.why}"
    return (
        f"curve: |w|^{shape.power:.2f} ± {shape.error:.2f} near the optimum of the baseline: {shape.type}, "
        f"confidence {shape.confidence:.2f}"
    )
