"""The report of a training run: one HTML file that opens anywhere and asks nobody."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from arena.core.json import Json
from replays.html_report.document import environment, write_document
from replays.html_report.training.figures import figures_of
from replays.html_report.training.sentences import (
    config_panels,
    differences,
    evaluations,
    facts,
    headline,
    notes,
    numbers,
    title,
    warnings_of,
)
from replays.html_report.training.transcripts import pairs_of
from trainers.config.config import TrainConfig
from trainers.runs.figures import clean
from trainers.runs.records import RunState, StepRecord


def write_training_report(
    config: TrainConfig, records: list[StepRecord], state: RunState, path: Path
) -> None:
    """Write what was trained, what came of it, and how, to `path` in the run's folder.

    Games of the starting and of the trained policy are read from `replays/before` and
    `replays/after` beside it. The same files make the same bytes, and a reader sees the old file
    or the new one, whole. Raises ArenaError if the file cannot be written.
    """
    write_document(render(config, records, state, path.parent), path)


def render(config: TrainConfig, records: list[StepRecord], state: RunState, run: Path) -> str:
    """The whole file."""
    rows = sorted({row.step: row for row in records}.values(), key=lambda row: row.step)
    return (
        _environment()
        .get_template("training.html.jinja")
        .render(
            title=title(config),
            facts=facts(config, rows, state),
            headline=headline(config, rows, state),
            notes=notes(rows, state),
            sections=figures_of(rows, max(config.total_steps, rows[-1].step if rows else 0)),
            evaluations=evaluations(rows, state),
            pairs=pairs_of(run),
            differences=differences(config),
            panels=config_panels(config),
            config_hash=config.config_hash,
            numbers=numbers(rows),
            warnings=warnings_of(rows),
        )
    )


@cache
def _environment() -> Environment:
    # Whatever stands on the page passes there, so that no text can be forgotten.
    return environment(finalize=_shown)


def _shown(value: Json) -> Json:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
