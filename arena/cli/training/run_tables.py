"""The tables of `arena runs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from arena.cli.training.stored_run import StoredRun, settings, settings_that_differ, usual_options
from arena.core.json import Json
from arena.evaluation.output.tables import Grid, number, percent
from trainers.config.config import TrainConfig
from trainers.runs.durations import clock
from trainers.runs.records import Interval, StepRecord

ROWS = 20
"""So many steps fit on a screen."""


def overview(runs: Sequence[StoredRun], home: Path) -> Grid:
    headings = ("run", "game", "steps", "status", "won, first to last", "best gain", "time")
    rows = [
        (
            run.name,
            run.config.game if run.config else "–",
            f"{run.state.step}/{run.config.total_steps if run.config else '–'}",
            run.status
            + (f": {run.fault or run.state.reason}" if run.fault or run.state.reason else ""),
            " → ".join(_rate(row.win_rate) for row in run.played[:1] + run.played[-1:]) or "–",
            _best_gain(run),
            clock(run.seconds),
        )
        for run in runs
    ]
    return Grid(f"Runs in {home}", headings, rows)


def _rate(rate: Interval) -> str:
    return percent(rate.model_dump()).partition(" [")[0]


def _gain(gain: Interval) -> str:
    return percent(gain.model_dump(), signed=True)


def _best_gain(run: StoredRun) -> str:
    return _gain(run.gain) + (", chosen on these deals" if run.gain_is_chosen else "")


def pages(run: StoredRun, every: int | None) -> Iterator[Grid]:
    """The tables of one run, most important first."""
    yield overview([run], run.files.folder.parent)
    if run.config:
        yield unusual_settings(run.config)
    some = thinned(run.rows, every)
    if some:
        yield steps(some)
        yield rewards(some)
        yield times(run.rows)
    if run.evaluated or run.state.final:
        yield evaluations(run)


def thinned(rows: Sequence[StepRecord], every: int | None) -> list[StepRecord]:
    """Every so many rows, and the last one."""
    stride = every or max(1, -(-len(rows) // ROWS))
    chosen = list(rows[::stride])
    return chosen if not rows or chosen[-1] is rows[-1] else [*chosen, rows[-1]]


def unusual_settings(config: TrainConfig) -> Grid:
    """What differs from the defaults, the game's and TrainConfig's."""
    usual = settings(TrainConfig(game=config.game, options=usual_options(config.game)))
    rows = [
        (name, _shown(value), _shown(usual.get(name)))
        for name, value in settings(config).items()
        if value != usual.get(name)
    ]
    return Grid("Settings that are not the default", ("setting", "here", "default"), rows)


def steps(rows: Sequence[StepRecord]) -> Grid:
    headings = ("step", "reward", "won", "groups", "dropped", "legal", "entropy", "kl", "s")
    cells = [
        (
            str(row.step),
            number({**row.reward.model_dump(), "low": None, "high": None}, 2, signed=True),
            percent(row.win_rate.model_dump()),
            str(row.groups.trained),
            str(row.groups.incomplete + row.groups.no_variance),
            "–" if row.legality is None else f"{100 * row.legality:.1f} %",
            _figure(row.update, "entropy"),
            _figure(row.update, "kl"),
            f"{row.seconds:.1f}",
        )
        for row in rows
    ]
    return Grid("Steps", headings, cells)


def _figure(update: Mapping[str, float], name: str) -> str:
    return f"{update[name]:.2g}" if name in update else "–"


def rewards(rows: Sequence[StepRecord]) -> Grid:
    names = list(dict.fromkeys(name for row in rows for name in row.terms))
    weights = {name: term.weight for row in rows for name, term in row.terms.items()}
    headings = ("step", *(f"{name} ×{weights[name]:g}" for name in names))
    cells = [
        (
            str(row.step),
            *(f"{row.terms[name].mean:+.3f}" if name in row.terms else "–" for name in names),
        )
        for row in rows
    ]
    return Grid("Reward terms, means without their weights", headings, cells)


def times(rows: Sequence[StepRecord]) -> Grid:
    """Where the time went; what a part of a part has taken is in both."""
    names = dict.fromkeys(name for row in rows for name in row.time)
    whole = sum(row.seconds for row in rows)
    spent = {name: sum(row.time.get(name, 0.0) for row in rows) for name in names}
    cells = [
        (name, clock(seconds), f"{100 * seconds / whole:.0f} %" if whole else "–")
        for name, seconds in spent.items()
    ]
    return Grid("Time (rewards are computed within rollouts)", ("part", "time", "share"), cells)


def evaluations(run: StoredRun) -> Grid:
    headings = ("checkpoint", "deals", "won", "start", "gain")
    found = [(f"step {row.step}", row.evaluation) for row in run.evaluated]
    found += [(f"final, {name}", evaluated) for name, evaluated in run.state.final.items()]
    cells = [
        (
            name,
            str(e.games),
            *map(percent, (e.win_rate.model_dump(), e.start.model_dump())),
            _gain(e.gain),
        )
        for name, e in found
        if e
    ]
    return Grid("Held-out deals, paired with the starting policy", headings, cells)


def comparison(runs: Sequence[StoredRun]) -> Iterator[Grid]:
    """Runs side by side."""
    names = [run.name for run in runs]
    differences = settings_that_differ(runs)
    cells = [(name, *map(_shown, values)) for name, values in differences.items()]
    yield Grid("Settings that differ", ("setting", *names), cells)
    yield learning_curves(runs)
    yield totals(runs)


def _shown(value: Json) -> str:
    return "–" if value is None or value == "" else str(value)


def learning_curves(runs: Sequence[StoredRun]) -> Grid:
    curves = [{each["step"]: each for each in run.evaluations()} for run in runs]
    cells = [
        (str(step), *(_point(curve[step]) if step in curve else "" for curve in curves))
        for step in sorted({step for curve in curves for step in curve})
    ]
    title = "Gain on held-out deals by step; trained tokens and time until then"
    return Grid(title, ("step", *(run.name for run in runs)), cells)


def _point(found: Mapping[str, Json]) -> str:
    gain = percent(found["gain"], signed=True)
    return f"{gain} ({_short(found['trained_tokens'])}, {clock(found['seconds'])})"


def _short(count: int) -> str:
    """`12.3 k`."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def totals(runs: Sequence[StoredRun]) -> Grid:
    headings = ("run", "steps", "games", "tokens written", "trained", "time", "best gain")
    cells = [
        (
            run.name,
            str(found["step"]),
            f"{found['games']:,}",
            _short(found["sampled_tokens"]),
            _short(found["trained_tokens"]),
            clock(found["seconds"]),
            _best_gain(run),
        )
        for run, found in ((run, run.summary()) for run in runs)
    ]
    return Grid("In all", headings, cells)
