"""A training run as a document: sentences, charts, tables, and games that training changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isclose
from pathlib import Path

from pydantic import JsonValue

from arena.agents.display import ending
from arena.agents.names import PlayerNames
from arena.core.action import CHANCE
from arena.core.errors import ArenaError
from arena.core.event import WIN_RATE
from arena.core.game import Game
from arena.core.text import (
    UNKNOWN,
    duration_in_words,
    percentage,
    pluralize,
    printable,
    short_count,
)
from arena.episodes.replay import Replay, Walked, read_replay
from arena.evaluation.document import (
    ChartAxis,
    Document,
    Grid,
    LineChart,
    Section,
    Sentence,
    Series,
    amount,
    options_in_words,
    par_text,
    percent_tick,
    plain_tick,
    points_of,
    points_tick,
    value_in_words,
)
from arena.evaluation.records import Interval
from arena.plugins.catalog import game_title, make_game
from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, StepRecord
from trainers.runs.sentences import checkpoint_name, facts, headline, mean_name, notes
from trainers.runs.training_run import CheckpointEvaluation, TrainingRun, finite

PHASES = ("rollouts", "update", "evaluation", "other")
"""Parts of a step's duration, in drawing order."""
BEFORE, AFTER = "before", "after"
"""Folders of replays: of the starting policy, and of the newest checkpoint on the same deals."""
SHOWN = 2
"""Games that are shown: the first ones that part, so that nobody chooses them."""
_SEATS = PlayerNames(())
"""Names of seats for people, who count them from 1."""
Points = Mapping[int, Interval]
"""A quantity by step. An unknown value is an Interval without a value."""
MAX_FACTS = 3
"""Options of the game below the title; all are among the settings."""


def document(run: TrainingRun) -> Document:
    """Return what every writer shows of a run. Of a repeated step the later record counts."""
    records = sorted({row.step: row for row in run.records}.values(), key=lambda row: row.step)
    run = replace(run, records=records)
    config, drawn = run.config or TrainConfig(), [*charts(run)]
    return Document(
        # The folder may have been renamed or moved since the run was started.
        title=f"Training · {game_title(config.game)} · {run.name}",
        facts=[*options_in_words(config.options)[:MAX_FACTS], *facts(run)],
        headline=[Sentence.plain(text) for text in headline(run)],
        notes=notes(run),
        sections=[
            *drawn[:1],
            *_differences(run),
            *drawn[1:],
            *_evaluations(run),
            *_settings(config),
        ],
        remarks=[f"Hash of all settings that decide what is learned: {config.config_hash}"],
    )


def _differences(run: TrainingRun) -> list[Section]:
    grids = list(partings(run.files))
    about = "The first games of the last evaluation that part: one deal, played before and after."
    return [Section("What it does differently", grids, about=about)] if grids else []


def _evaluations(run: TrainingRun) -> list[Section]:
    results = [*(one for one in run.learning_curve() if one.step), *run.final_evaluations()]
    grids = [evaluations(results, run.par)]
    return [Section("Evaluations", grids, is_folded=True)] if results else []


def _settings(config: TrainConfig) -> list[Section]:
    values = flat_settings(config)
    # A default is that of TrainConfig and of the game, not that of a preset.
    defaults = flat_settings(TrainConfig(game=config.game, options=_default_options(config.game)))
    rows = [
        (name, _text(value), "" if value == defaults.get(name) else _text(defaults.get(name)))
        for name, value in values.items()
    ]
    rows.sort(key=lambda row: not row[2])  # Those that are not the default come first.
    fields = TrainConfig.model_fields
    abouts = {name: (fields[name].description or "") for name in values.keys() & fields.keys()}
    grid = Grid("Settings", ("setting", "value", "default"), rows, abouts)
    return [Section("Settings", [grid], is_folded=True)]


def evaluations(results: Sequence[CheckpointEvaluation], par: float | None) -> Grid:
    """Return the results on held-out deals."""
    scale = results[-1].scale if results else WIN_RATE
    measured = f"won{par_text(par)}" if scale.is_win_rate else mean_name(scale)
    headings = ("checkpoint", "deals", measured, "start", "delta")
    cells = [
        (
            checkpoint_name(one),
            str(one.games),
            amount(one.result, one.scale),
            amount(one.start_result, one.scale),
            amount(one.delta, one.scale, signed=True),
        )
        for one in results
    ]
    title = "Held-out deals, paired with the starting policy"
    # Each checkpoint is one more comparison; the final deals were kept for one of them.
    if sum(not one.final for one in results) > 1:
        title += "; all but the final ones are exploratory, not adjusted"
    return Grid(title, headings, cells)


def _text(value: JsonValue) -> str:
    return value_in_words(value) or UNKNOWN


def flat_settings(config: TrainConfig) -> dict[str, JsonValue]:
    """Return the settings by name, with the game's options as `options.NAME`."""
    values = config.model_dump(mode="json")
    options = {f"options.{name}": value for name, value in values["options"].items()}
    return {"game": config.game, **options, **{n: values[n] for n in TrainConfig.settings()}}


def _default_options(game: str) -> dict[str, JsonValue]:
    """Return the default options; none for a game whose plugin is not installed."""
    try:
        return make_game(game).options.model_dump(mode="json")
    except ArenaError:
        return {}


# Charts


def charts(run: TrainingRun) -> Iterator[Section]:
    """Yield all charts of a run with a known value, the most important first.

    All charts span the whole run, so that their steps are in line.
    """
    records = run.records
    last = max([1, run.total_steps or 0, *(record.step for record in records)])
    axis = ChartAxis("step", -0.02 * last, 1.02 * last, whole=True)
    reward, *terms = _rewards(records, axis)
    entropies = _values(records, lambda record: record.update.get("entropy"))
    entropy = _line("Entropy", "nats per sampled token", entropies, axis, 1)
    legal_rates = _values(records, lambda record: record.legal_rate)
    legal = _line("Legal replies", "share of all replies", legal_rates, axis, 4, percent_tick)
    seconds = _values(records, lambda record: finite(record.seconds))
    times = _line("Time of a step", "seconds", seconds, axis, 0)
    win_rate = _win_rate(records, axis)
    if reward and win_rate and curve(reward) == curve(win_rate):
        # A reward for wins alone has the curve of the win rate, and so has its only term.
        reward = None
        terms = terms if len(terms) > 1 else []
    learning = (_delta(records, axis), win_rate, reward, entropy, legal)
    for title, about, lines, is_folded in (
        ("How it learned", "", learning, False),
        ("What it cost", cost(run), (times,), False),
        ("Terms of the reward", "Means, without their weights.", terms, True),
    ):
        known = [chart for chart in lines if chart is not None]
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


def curve(chart: LineChart) -> list[tuple[float, float]]:
    """Return the points of all lines of a chart, rounded."""
    return [(point.x, round(point.y, 9)) for line in chart.lines for point in line.points]


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
    for name in dict.fromkeys(name for record in steps for name in record.terms):
        terms = {record.step: record.terms[name] for record in steps if name in record.terms}
        # The weight of the last step: a resumed run cannot change it.
        weight = [term.weight for term in terms.values()][-1]
        means = {step: term.interval for step, term in terms.items()}
        yield _line(printable(name), f"weight {weight:g}", means, axis, 3)


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
    measured = {name: max(0.0, finite(seconds) or 0.0) for name, seconds in record.time.items()}
    split = {name: measured.get(name, 0.0) for name in PHASES}
    total = max(0.0, finite(record.seconds) or 0.0, sum(measured.values()))
    # Rounding may make the sum of the phases exceed the total.
    split["other"] = max(0.0, total - sum(split.values()))
    return split


# Games that part


def partings(files: RunFiles) -> Iterator[Grid]:
    """Yield a table for each of the first games in which the trained model decides otherwise."""
    paths = sorted((files.replays / BEFORE).glob("*.jsonl"))
    grids = (_parting(path, files.replays / AFTER / path.name) for path in paths)
    yield from islice(filter(None, grids), SHOWN)


def _parting(before: Path, after: Path) -> Grid | None:
    """Return both decisions where two games of one deal part; None if they do not."""
    try:
        replays = read_replay(before), read_replay(after)
        game, pairs = replays[0].make_game(), zip(*(each.walk() for each in replays), strict=False)
        for first, second in pairs:
            if str(first.ply.decision.action) != str(second.ply.decision.action):
                break
        else:
            return None
        if CHANCE in (first.ply.player, second.ply.player):
            return None
        courses = [_course(game, *each) for each in zip(replays, (first, second), strict=True)]
    except (ArenaError, OSError):
        return None  # A replay was deleted, or its game is no longer installed.
    seat = _SEATS.of(first.ply.player)
    title = f"Deal {replays[0].header.seed}, {seat} in turn {first.turn_before}"
    names = ("decision", "judged exactly", "end of the game", "replay")
    rows = [(name, *texts) for name, *texts in zip(names, *courses, strict=True) if any(texts)]
    return Grid(title, ["", "before training", "after training"], rows)


def _course(game: Game, replay: Replay, parted: Walked) -> Sequence[str]:
    """Return a decision, its judgement by exact knowledge, how the game ended, and its replay."""
    ply, outcome = parted.ply, replay.outcome
    texts = (
        str(ply.decision.action),
        _judgement(game, replay, ply.number, ply.player),
        ending(game, outcome.outcome) if outcome else "",
    )
    return (
        *map(_SEATS.text, texts),
        f"{replay.path.parent.name}/{replay.path.name}, position {ply.number}",
    )


def _judgement(game: Game, replay: Replay, number: int, player: int) -> str:
    """Return what the game's exact knowledge says of one decision; empty if it says nothing."""
    assessor = game.analysis.assessor((player,))
    if assessor is None:
        return ""
    for walked in replay.walk():
        assessments = [each for each in assessor.ply(walked.ply) if each.ply == number]
        comments = filter(None, map(game.analysis.comment, assessments))
        # The judgement of a turn may come some plies later.
        if texts := [comment.text for comment in comments]:
            return " ".join(texts)
    return ""
