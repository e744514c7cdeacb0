"""The paper's steps (a) to (d), then what they recommend under the protocol of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gaf.common.errors import GafError
from gaf.common.files import read_json
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import LATER_KEYS, OptimizerConfig, RunConfig
from gaf.lab.study import results
from gaf.lab.study.compare import COMPARISON, Trainer, compare, describe
from gaf.lab.study.grid import Executor, Outcome, Watch, check_place
from gaf.lab.study.judge import Entry
from gaf.lab.study.landscape import Curve, curve, reached, training_loss
from gaf.lab.study.plan import SEEDS, Plan, TuningPlan, table_seeds
from gaf.lab.study.results import Comparison, NamedCandidate, Tuned, Tuning
from gaf.lab.study.settings import without_function
from gaf.lab.study.tune.probe import Probe, probe
from gaf.lab.study.tune.recommend import Candidate, recommend
from gaf.lab.study.tuning import tune_rates
from gaf.lab.study.words import answer
from gaf.optim.factory import OURS

CANDIDATES = 6  # each is tuned over the learning rate, as the baseline is
TUNING_SEEDS = (
    4  # of each rate: the choice among candidates needs more than a verdict on given ones
)


def tune(
    config: RunConfig,
    folder: Path,
    executor: Executor,
    *,
    candidates: int = CANDIDATES,
    seeds: int = SEEDS,
    tuning: TuningPlan | None = None,
    watch: Watch | None = None,
    say: Callable[[str], None] = lambda text: None,
    command: Sequence[str] = (),
) -> Tuned:
    """Find a function with its α and β for a training, and write ``tune.json`` into the folder.

    Args:
        config: the training; a function that it has is left out.
        folder: of this tuning; after a stop the same call resumes there.
        executor: trains runs.
        candidates: how many functions are tried.
        seeds: how many of the final, on which the best of them stands against the tuned baseline.
        tuning: how learning rates are tuned, the baseline's and each candidate's.
        watch: shows runs on their way.
        say: is given each finding as a sentence.
        command: that asked for it.

    Raises:
        GafError: the loss is no number, the folder holds something else.
        Stopped: a signal came.
    """
    if config.task.is_script:
        raise GafError(
            "gaf tune looks at every step of a training, so it takes a recipe or a task: compare a script's "
            "functions with gaf compare --settings"
        )
    if not config.optimizer.ours:
        raise GafError(
            f"placements and controls of {config.optimizer.name} are not known: set optimizer.name to one of "
            f"{', '.join(OURS)} to tune a function"
        )
    check_folder(folder)
    tuning, watch = tuning or TuningPlan(seeds=TUNING_SEEDS), watch or Watch()
    base, _ = without_function(config)
    numbers = table_seeds(base, seeds)
    plan = Plan(base, (), numbers, tuning)
    assert plan.tuning is not None
    say(f"probe: the first steps of {base.name} without a function")
    # the validation data is no part of it either
    task = base.task.model_copy(update={"validation": plan.tuning.validation})
    seen = probe(base.model_copy(update={"task": task}))
    say(_probed(seen))
    with folders.locked(folder):
        trainer = Trainer(folder / COMPARISON, executor, watch)
        near = curve_near(_baselines(plan, trainer), seen)
        say(_curved(near))
        advice = recommend(seen, near.shape)
        for subject, sentence in advice.reasons:
            say(f"{subject}: {sentence}")
        tried = advice.candidates[:candidates]
        plan = Plan(base, tuple(candidate.name for candidate in tried), numbers, tuning)
        comparison = compare(
            plan, folder / COMPARISON, executor, watch, command, finalists=finalists
        )
        tuned = _conclude(seen, near, advice.reasons, tried, comparison, command)
        results.write(tuned, folder)
    return tuned


def _baselines(plan: Plan, trainer: Trainer) -> list[Outcome]:
    """The baseline's runs, those at its best rate first."""
    (baseline,) = plan.entries()
    tuning, tried = tune_rates(plan, [baseline], trainer.train)
    curve, n = tuning.curves[baseline.name], len(tuning.seeds)
    by_rate = {
        trial.rate: tried[baseline.name][i * n : (i + 1) * n]
        for i, trial in enumerate(curve.trials)
    }
    rates = sorted(by_rate, key=lambda rate: rate != curve.chosen)
    return [outcome for rate in rates for outcome in by_rate[rate]]


def finalists(entries: Sequence[Entry], tuning: Tuning, higher_is_better: bool) -> tuple[str, ...]:
    """The candidate with the best validation score at its best rate; of equal ones the first."""

    def score(name: str) -> float:
        curve = tuning.curves[name]
        means = {trial.rate: trial.mean for trial in curve.trials}
        mean = means.get(curve.chosen) if curve.chosen is not None else None
        if mean is None:
            return float("-inf")
        return mean if higher_is_better else -mean

    functions = [entry.name for entry in entries if entry.setting.config.optimizer.activation]
    return (max(functions, key=score),)


def _conclude(
    seen: Probe,
    near: Curve,
    reasons: tuple[tuple[str, str], ...],
    tried: Sequence[Candidate],
    comparison: Comparison,
    command: Sequence[str],
) -> Tuned:
    row = next(row for row in comparison.rows if row.activated)
    winner = next(candidate for candidate in tried if candidate.name in (row.setting, *row.also))
    rule = seen.config.optimizer.model_copy(update={"lr": row.rate or seen.config.optimizer.lr})
    matched = row.vs_control is None or row.vs_control.verdict == "better"
    return Tuned(
        title=seen.config.name,
        task=describe(seen.config),
        verdict=answer(comparison),
        helps=row.verdict == "better" and matched,
        line=line(rule, winner) if row.rate is not None else "",
        winner=NamedCandidate(**winner.record()),
        recommended=NamedCandidate(**tried[0].record()),
        candidates=tuple(NamedCandidate(**candidate.record()) for candidate in tried),
        reasons=reasons,
        probe=seen.record(),
        curve=near.record(),
        command=tuple(command),
        created=results.now(),
        environment=comparison.environment,
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    check_place(folder, Tuned.noun, Tuned.file, COMPARISON)
    if (folder / Tuned.file).is_file():
        read_json(folder / Tuned.file, "title")


def curve_near(baselines: Sequence[Outcome], seen: Probe) -> Curve:
    """The curve at the end of the first baseline that came to one: a run that diverged has no optimum."""
    ended = next((one.result for one in baselines if one.result and not one.result.diverged), None)
    if ended is None:
        return Curve((), (), (), None, "the baseline diverged: there is no optimum to look at")
    at = reached(ended.folder, seen.config)
    return curve(at.model, training_loss(at.task), start=seen.losses[0])


def line(rule: OptimizerConfig, winner: Candidate) -> str:
    """What to copy into a training script; what else the config does to gradients stands in a comment.

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


def _probed(seen: Probe) -> str:
    return (
        f"probe: {seen.steps} of {seen.of} steps, largest |g| {seen.largest():.3g} at step {seen.when}, "
        f"typical |g| of layers {seen.spread:.3g} times apart"
    )


def _curved(near: Curve) -> str:
    shape = near.shape
    if shape is None:
        return f"curve: {near.why}"
    return (
        f"curve: |w|^{shape.power:.2f} ± {shape.error:.2f} near the optimum of the baseline: {shape.type}, "
        f"confidence {shape.confidence:.2f}"
    )
