"""The HTML report of a training run: one file that works offline."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from jinja2 import Environment

from arena.evaluation.output.formatting import options_in_words, par_text
from replays.html_report.document import environment, write_document
from replays.html_report.training.sections import sections_of
from replays.html_report.training.transcripts import transcript_pairs
from trainers.config.config import TrainConfig
from trainers.runs import sentences
from trainers.runs.figures import finite, played, sampling_rate, training_rate
from trainers.runs.settings_table import SettingRow, settings_of
from trainers.runs.training_run import TrainingRun

MAX_ROWS = 400
"""Rows of the table of steps. A longer run shows every n-th step."""


def write_training_report(run: TrainingRun, path: Path) -> None:
    """Write the report of a run to `path`.

    Games of the starting and of the trained policy are read from `replays/before` and
    `replays/after` in the run's folder. The same files give the same bytes. The file is replaced
    atomically.

    Raises:
        ArenaError: The file cannot be written.
    """
    write_document(render(run), path)


def render(run: TrainingRun) -> str:
    """Return the report as HTML."""
    # A repeated step has two records; the later one counts.
    records = sorted({row.step: row for row in run.records}.values(), key=lambda row: row.step)
    run = replace(run, records=records)
    config, steps = run.config or TrainConfig(), played(records)
    # ceil(steps / MAX_ROWS).
    every = -(-len(steps) // MAX_ROWS) or 1
    settings = settings_of(config)
    panels: dict[str, list[SettingRow]] = {}
    for setting in settings:
        panels.setdefault(setting.panel, []).append(setting)
    return (
        _environment()
        .get_template("training.html.jinja")
        .render(
            title=sentences.title(config),
            facts=[*options_in_words(config.options), *sentences.facts(run)],
            headline=sentences.headline(run),
            par=par_text(run.par),
            notes=sentences.notes(run),
            sections=sections_of(run),
            evaluations=[
                *(one for one in run.learning_curve() if one.step),
                *run.final_evaluations(),
            ],
            pairs=transcript_pairs(run.files.folder),
            changed=[setting for setting in settings if setting.changed],
            panels=panels,
            config_hash=config.config_hash,
            records=steps[::every],
            every=every,
            warnings=sentences.warnings(run),
        )
    )


@cache
def _environment() -> Environment:
    page = environment()
    page.globals |= {
        "checkpoint_name": sentences.checkpoint_name,
        "finite": finite,
        "share": sentences.share,
        "sampling_rate": sampling_rate,
        "training_rate": training_rate,
    }
    return page
