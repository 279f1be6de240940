"""The charts of a training run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isclose

from arena.core.outcome import WIN_RATE
from arena.core.text import duration_in_words, percentage, pluralize, printable, short_count
from arena.evaluation.document import (
    ChartAxis,
    LineChart,
    Section,
    Series,
    percent_tick,
    plain_tick,
    points_of,
    points_tick,
)
from arena.evaluation.records import Interval
from trainers.runs.records import StepRecord
from trainers.runs.training_run import TrainingRun, finite

PHASES = ("rollouts", "rewards", "update", "saving", "evaluation", "other")
"""Parts of a step's duration, in drawing order."""
UPDATE_ORDER = ("loss", "entropy", "kl", "grad_norm")
"""Update metrics that come first. A host may report others."""
UPDATE_TITLES = {"kl": "KL", "grad_norm": "Gradient norm"}
UPDATE_UNITS = {
    "entropy": "nats per sampled token",
    "kl": "from the sampling policy, nats per token",
    "grad_norm": "before clipping",
    "clipped": "share of tokens outside of the clip range",
}
MAX_CHARTS = 12
"""Charts of one section. Further metrics of a host are in metrics.jsonl."""
Points = Mapping[int, Interval]
"""A quantity by step. An unknown value is an Interval without a value."""


def sections(run: TrainingRun) -> Iterator[Section]:
    """Yield all charts of a run with a known value, the most important first.

    All charts span the whole run, so that their steps are in line.
    """
    records = run.records
    last = max([1, run.total_steps or 0, *(record.step for record in records)])
    axis = ChartAxis("step", -0.02 * last, 1.02 * last, whole=True)
    metrics = dict(_updates(records, axis))
    entropy = metrics.pop("entropy", None)
    reward, *terms = _rewards(records, axis)
    legal_rates = _values(records, lambda record: record.legal_rate)
    legal = _line("Legal replies", "share of all replies", legal_rates, axis, 4, percent_tick)
    lengths = _values(records, lambda record: record.reply_tokens)
    length = _line("Length of a reply", "mean, in tokens", lengths, axis, 4)
    dropped = _values(records, lambda record: record.groups.dropped)
    groups = _line("Dropped groups", "of a step; they teach nothing", dropped, axis, 1)
    seconds = _values(records, lambda record: finite(record.seconds))
    times = _line("Time of a step", "seconds", seconds, axis, 0)
    learning = (_delta(records, axis), _win_rate(records, axis), reward, entropy, legal)
    work = (groups, *_throughput(records, axis))
    for title, about, charts, is_folded in (
        ("How it learned", "", learning, False),
        ("What it cost", cost(run), (times,), False),
        ("Terms of the reward", "Means, without their weights.", terms[:MAX_CHARTS], True),
        ("Updates and replies", "", (*[*metrics.values()][:MAX_CHARTS], length), True),
        ("Tokens and groups", "", work, True),
    ):
        known = [chart for chart in charts if chart is not None]
        flat = [chart.title for chart in known if is_flat(chart)]
        unchanged = f"Unchanged in all steps: {', '.join(flat)}." if flat else ""
        if shown := [chart for chart in known if not is_flat(chart)]:
            yield Section(title, (), shown, (), f"{about} {unchanged}".strip(), is_folded)


def cost(run: TrainingRun) -> str:
    """Return the time by its parts, the games, the tokens and the price of a run in a sentence."""
    rows = played(run.records)
    splits = [time_split(record) for record in rows]
    spent = {name: sum(split.get(name, 0.0) for split in splits) for name in PHASES}
    total = sum(spent.values()) or 1.0
    shares = [
        f"{name} {percentage(part / total)}" for name, part in spent.items() if part > total / 100
    ]
    facts = [
        f"{duration_in_words(run.seconds)} ({', '.join(shares)})",
        pluralize(run.games, "game"),
        f"{short_count(sum(row.tokens.sampled for row in rows))} tokens sampled",
        f"{short_count(sum(row.tokens.trained for row in rows))} trained",
    ]
    if price := sum(record.cost or 0.0 for record in run.records):
        facts.append(f"${price:.2f} for hosted models")
    return f"{', '.join(facts)}."


def is_flat(chart: LineChart) -> bool:
    """Return whether a chart of several steps shows one value only."""
    points = [point for line in chart.lines for point in line.points]
    values = [end for p in points for end in (p.y, p.low, p.high) if end is not None]
    return len(points) > 1 and isclose(min(values), max(values), rel_tol=1e-9)


def _line(
    title: str,
    about: str,
    points: Points,
    axis: ChartAxis,
    color: int,
    form: Callable[[float], str] = plain_tick,
    effect: bool = False,
) -> LineChart | None:
    """Return the chart of one quantity, or None if no value is known.

    An `effect` has a dashed line at 0. It is measured rarely: each point has a marker and a bar.
    """
    known = points_of({step: _finite_ends(point) for step, point in points.items()})
    if not known:
        return None
    series = Series(known, color, marker=0 if effect else None, bars=effect)
    # A share is never below 0 or above 1, and neither is the axis.
    bounds = (0.0, 1.0) if form is percent_tick else None
    y = ChartAxis(format=form, ticks=4, bounds=bounds)
    return LineChart(title, about, [series], axis, y, reference=0.0 if effect else None)


def _win_rate(records: Sequence[StepRecord], axis: ChartAxis) -> LineChart | None:
    """Return the win rate of the training games."""
    points = {record.step: record.win_rate for record in played(records)}
    about = "of a step's games; band: 95 % interval"
    return _line("Win rate in training", about, points, axis, 0, percent_tick)


def _delta(records: Sequence[StepRecord], axis: ChartAxis) -> LineChart | None:
    """Return the difference to the starting policy on held-out deals, of returns or win rates."""
    evaluations = [(row.step, row.evaluation) for row in records if row.evaluation]
    points = {step: evaluation.delta for step, evaluation in evaluations}
    scale = evaluations[-1][1].scale if evaluations else WIN_RATE
    unit = "points " if scale.is_win_rate else f"{scale.unit} " if scale.unit else ""
    about = f"{unit}over the starting policy on held-out deals; bars: 95 % interval"
    title = "Win-rate delta" if scale.is_win_rate else f"Delta of the mean {scale.name}"
    form = points_tick if scale.is_win_rate else plain_tick
    return _line(title, about, points, axis, 2, form, effect=True)


def _rewards(records: Sequence[StepRecord], axis: ChartAxis) -> Iterator[LineChart | None]:
    """Yield the weighted reward, then the mean of each term without its weight."""
    steps = played(records)
    points = {record.step: record.reward for record in steps}
    yield _line("Reward", "with weights; band: 95 % interval", points, axis, 0)
    for name in key_order([record.terms for record in steps]):
        terms = {record.step: record.terms[name] for record in steps if name in record.terms}
        # The weight of the last step: a resumed run cannot change it.
        weight = [term.weight for term in terms.values()][-1]
        means = {step: term.interval for step, term in terms.items()}
        yield _line(printable(name), f"weight {weight:g}", means, axis, 3)


def _updates(
    records: Sequence[StepRecord], axis: ChartAxis
) -> Iterator[tuple[str, LineChart | None]]:
    """Yield the metrics of the host's updates by name."""
    steps = [record for record in records if record.games or record.update]
    for name in key_order([record.update for record in steps], UPDATE_ORDER):
        words = printable(name).replace("_", " ")
        title = UPDATE_TITLES.get(name, words[:1].upper() + words[1:])
        points = {record.step: Interval(value=record.update.get(name)) for record in steps}
        yield name, _line(title, UPDATE_UNITS.get(name, ""), points, axis, 1)


def _throughput(records: Sequence[StepRecord], axis: ChartAxis) -> Iterator[LineChart | None]:
    """Yield tokens per second of sampling and of training."""
    both = "tokens per second, forward and backward"
    yield _line("Sampling", "tokens per second", _values(records, sampling_rate), axis, 0)
    yield _line("Training", both, _values(records, training_rate), axis, 2)


def _values(records: Sequence[StepRecord], value: Callable[[StepRecord], float | None]) -> Points:
    return {record.step: Interval(value=value(record)) for record in played(records)}


def _finite_ends(interval: Interval) -> Interval:
    """Return the interval; without both ends if one of them is unknown."""
    if interval.low is None or interval.high is None:
        return Interval(value=interval.value, n=interval.n)
    return interval


def played(records: Sequence[StepRecord]) -> list[StepRecord]:
    """Return the records of steps with training games; the starting policy has none."""
    return [record for record in records if record.games]


def time_split(record: StepRecord) -> dict[str, float]:
    """Return the seconds of a step by phase; the unmeasured part is `other`."""
    # Games are scored while others are played; the record already counts that time as rewards only.
    measured = {name: max(0.0, finite(seconds) or 0.0) for name, seconds in record.time.items()}
    split = {name: measured.get(name, 0.0) for name in PHASES}
    total = max(0.0, finite(record.seconds) or 0.0, sum(measured.values()))
    # Rounding may make the sum of the phases exceed the total.
    split["other"] = max(0.0, total - sum(split.values()))
    return split


def sampling_rate(record: StepRecord) -> float | None:
    """Return sampled tokens per second of the rollouts; None if nothing was sampled."""
    # With --async-steps the time of the rollouts is only the time that the update waited for them.
    seconds = record.update.get("seconds_playing", record.time.get("rollouts"))
    return _per_second(record.tokens.sampled, seconds)


def training_rate(record: StepRecord) -> float | None:
    """Return tokens computed per second of the update; None if there was no update."""
    # A remote host reports the trained tokens only, not those it computed.
    tokens = record.tokens.computed or record.tokens.trained
    return _per_second(tokens, record.time.get("update"))


def _per_second(count: int, seconds: float | None) -> float | None:
    # No rate for an unknown, broken or zero duration, and none for a count of 0.
    seconds = finite(seconds)
    return count / seconds if seconds and count else None


def key_order(mappings: Sequence[Mapping[str, object]], first: Sequence[str] = ()) -> list[str]:
    """Return all keys by first appearance, after those in `first`."""
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return [key for key in first if key in keys] + [key for key in keys if key not in first]
