"""A training run as a document: its result in sentences, its charts and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.core.outcome import WIN_RATE
from arena.core.text import decimal, percentage, shorten
from arena.evaluation.document import (
    Document,
    Grid,
    Section,
    Sentence,
    amount,
    json_text,
    options_in_words,
    par_text,
    percent,
)
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.runs import charts, sentences
from trainers.runs.records import StepRecord
from trainers.runs.sentences import checkpoint_name, mean_name
from trainers.runs.training_run import CheckpointEvaluation, TrainingRun, finite

MAX_ROWS = 400
"""Rows of the table of steps. A longer run shows every n-th step."""
MAX_WARNINGS = 100


def document(run: TrainingRun) -> Document:
    """Return what every writer shows of a run. Of a repeated step the later record counts."""
    records = sorted({row.step: row for row in run.records}.values(), key=lambda row: row.step)
    run = replace(run, records=records)
    config = run.config or TrainConfig()
    return Document(
        # The folder may have been renamed or moved since the run was started.
        title=f"Training · {config.game} · {run.name}",
        facts=[*options_in_words(config.options), *sentences.facts(run)],
        headline=[Sentence.plain(text) for text in sentences.headline(run)],
        notes=sentences.notes(run),
        sections=[
            *charts.sections(run),
            *_evaluations(run),
            *_settings(config),
            *_warnings(run),
            *_steps(run),
        ],
        remarks=[f"Hash of all settings that decide what is learned: {config.config_hash}"],
    )


def _evaluations(run: TrainingRun) -> list[Section]:
    results = [*(one for one in run.learning_curve() if one.step), *run.final_evaluations()]
    return [Section("Evaluations", [evaluations(results, run.par)])] if results else []


def _settings(config: TrainConfig) -> list[Section]:
    values = flat_settings(config)
    # A default is that of TrainConfig and of the game, not that of a preset.
    defaults = flat_settings(TrainConfig(game=config.game, options=_default_options(config.game)))
    changed = [
        (name, _text(value), _text(defaults.get(name)))
        for name, value in values.items()
        if value != defaults.get(name) and name != "experiment_name"
    ]
    grids = [Grid("Settings that are not the default", ("setting", "value", "default"), changed)]
    fields = TrainConfig.model_fields
    abouts = {name: (fields[name].description or "") for name in values.keys() & fields.keys()}
    every = [(name, _text(value), abouts.get(name, "")) for name, value in values.items()]
    details = [Grid("All settings", ("setting", "value", "description"), every)]
    return [Section("Settings", grids if changed else [], (), details)]


def _warnings(run: TrainingRun) -> list[Section]:
    rows = []
    for text, numbers in [*sentences.warnings(run).items()][:MAX_WARNINGS]:
        steps = ", ".join(map(str, numbers[:8]))
        more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
        rows.append((shorten(text, 400), steps + more))
    return [Section("Warnings", [Grid("Warnings", ("warning", "steps"), rows)])] if rows else []


def _steps(run: TrainingRun) -> list[Section]:
    rows = charts.played(run.records)
    every = -(-len(rows) // MAX_ROWS) or 1  # ceil(rows / MAX_ROWS).
    title = "Steps" if every == 1 else f"Steps: one in {every}; metrics.jsonl has all"
    grid = replace(steps(rows[::every], run.par), title=title)
    return [Section("Steps", (), (), [grid])] if rows else []


def steps(records: Sequence[StepRecord], par: float | None) -> Grid:
    """Return the main figures of each step."""
    headings = (
        *("step", "reward", f"won{par_text(par)}", "groups", "dropped", "legal", "tokens/reply"),
        *("entropy", "kl", "sampling, tokens/s", "training, tokens/s", "s"),
    )
    cells = [
        (
            str(row.step),
            decimal(row.reward.value, 2, signed=True),
            percent(row.win_rate),
            str(row.groups.trained),
            str(row.groups.dropped),
            percentage(finite(row.legal_rate)),
            decimal(finite(row.reply_tokens), 1),
            _metric(row.update, "entropy"),
            _metric(row.update, "kl"),
            decimal(charts.sampling_rate(row), 0),
            decimal(charts.training_rate(row), 0),
            decimal(finite(row.seconds), 1),
        )
        for row in records
    ]
    return Grid("Steps", headings, cells)


def _metric(update: Mapping[str, float], name: str) -> str:
    return f"{update[name]:.2g}" if name in update else "–"


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
    return "–" if value is None or value == "" else json_text(value)


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
