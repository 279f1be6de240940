"""Which plots the report of a training run has, and what is drawn in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from replays.html_report.report import Estimate
from replays.html_report.training.plots import SMALL, TALL, Curve, Layer, Unit, curve, layers
from trainers.runs.figures import PHASES, clean, finite, known, names_of, rates, time_split
from trainers.runs.records import Interval, StepRecord

Rows = Sequence[StepRecord]
UPDATE = ("entropy", "kl", "grad_norm", "loss")
MOST = 12
"""Plots of one section; what a host says beyond that stands in metrics.jsonl."""
ABOUT = {
    "entropy": "nats per sampled token",
    "kl": "from the sampling policy, nats per token",
    "grad_norm": "before clipping",
    "clipped": "share of tokens outside of the clip range",
}


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    about: str
    plot: Markup
    legend: Sequence[Layer] = ()


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    about: str
    figures: Sequence[Figure]
    small: bool = False
    """Whether three stand in a row."""


def estimate(interval: Interval) -> Estimate:
    interval = known(interval)
    return Estimate(value=interval.value, low=interval.low, high=interval.high, n=interval.n)


def figures_of(rows: Rows, steps: int) -> list[Section]:
    """All plots; a section without any is left out."""
    played = [row for row in rows if row.games]
    sections = [
        Section("Learning", "", _learning(rows, played, steps)),
        Section("Reward", "Means by term, before their weights.", _terms(played, steps), True),
        Section("Updates and replies", "", _updates(rows, steps) + _replies(played, steps), True),
        Section("Where the work goes", "", _work(played, steps), True),
    ]
    return [section for section in sections if section.figures]


def _learning(rows: Rows, played: Rows, steps: int) -> list[Figure]:
    gains = {row.step: estimate(row.evaluation.gain) for row in rows if row.evaluation}
    wins = {row.step: estimate(row.win_rate) for row in played}
    gain = Curve(
        "gain", "Gain", gains, unit="points", reference=0.0, markers=True, color=2, height=TALL
    )
    win = Curve("win", "Win rate", wins, unit="percent")
    about = "points over the start on held-out deals; bars: 95 % interval"
    return [
        *_drawn(gain, "Gain", about, steps),
        *_drawn(win, "Win rate in training", "of a step’s games; band: 95 % interval", steps),
    ]


def _drawn(plot: Curve, title: str, about: str, steps: int) -> list[Figure]:
    """Nothing where no value is known."""
    if all(point.value is None for point in plot.points.values()):
        return []
    return [Figure(title, about, curve(plot, steps))]


def _small(
    name: str, title: str, about: str, rows: Rows, steps: int, of: Callable[[StepRecord], Estimate],
    unit: Unit = "", color: int = 0,
) -> list[Figure]:  # fmt: skip
    points = {row.step: of(row) for row in rows}
    plot = Curve(name, title, points, unit=unit, color=color, height=SMALL)
    return _drawn(plot, title, about, steps)


def _terms(played: Rows, steps: int) -> list[Figure]:
    about = "with weights; band: 95 % interval"
    figures = _small("reward", "Reward", about, played, steps, lambda row: estimate(row.reward))
    for place, name in enumerate(names_of([row.terms for row in played])[: MOST - 1]):

        def value(row: StepRecord, name: str = name) -> Estimate:
            return _value(row.terms[name].mean if name in row.terms else None)

        weights = [row.terms[name].weight for row in played if name in row.terms]
        weight = f"weight {weights[-1]:g}"
        figures += _small(f"term{place}", clean(name), weight, played, steps, value, color=3)
    return figures


def _value(value: float | None) -> Estimate:
    return Estimate(value=finite(value))


def _updates(rows: Rows, steps: int) -> list[Figure]:
    figures: list[Figure] = []
    for place, name in enumerate(names_of([row.update for row in rows], UPDATE)[:MOST]):

        def value(row: StepRecord, name: str = name) -> Estimate:
            return _value(row.update.get(name))

        words = clean(name).replace("_", " ")
        words = {"kl": "KL", "grad norm": "gradient norm"}.get(words, words)
        about = ABOUT.get(name, "")
        title = words[:1].upper() + words[1:]
        figures += _small(f"update{place}", title, about, rows, steps, value, color=1)
    return figures


def _replies(played: Rows, steps: int) -> list[Figure]:
    return [
        *_small("legal", "Legal replies", "share of all replies", played, steps,
                lambda row: _value(row.legality), unit="percent", color=4),
        *_small("reply", "Length of a reply", "mean, in tokens", played, steps,
                lambda row: _value(row.reply_tokens), color=4),
    ]  # fmt: skip


def _work(played: Rows, steps: int) -> list[Figure]:
    if not played:
        return []
    at = [row.step for row in played]
    groups = [
        Layer("trained", [float(row.groups.trained) for row in played], 0),
        Layer("dropped: no variance", [float(row.groups.no_variance) for row in played], 4),
        Layer("dropped: incomplete", [float(row.groups.incomplete) for row in played], 1),
    ]
    splits = [time_split(row) for row in played]
    split = [Layer(name, [each[name] for each in splits], n) for n, name in enumerate(PHASES)]
    return [
        Figure("Groups", "of a step", layers("groups", "Groups", groups, at, steps),
               _legend(groups)),
        Figure("Time of a step", "seconds", layers("time", "Time", split, at, steps),
               _legend(split)),
        *_small("sampling", "Sampling", "tokens a second", played, steps,
                lambda row: _value(rates(row).sampling)),
        *_small("training", "Training", "tokens a second, forward and backward", played, steps,
                lambda row: _value(rates(row).training), color=2),
        *_small("sampled", "Sampled", "tokens of a step", played, steps,
                lambda row: _value(row.tokens.sampled or None)),
        *_small("trained", "Trained", "tokens of a step that are in the loss", played, steps,
                lambda row: _value(row.tokens.trained or None), color=2),
    ]  # fmt: skip


def _legend(parts: Sequence[Layer]) -> list[Layer]:
    return [part for part in parts if any(part.values)]
