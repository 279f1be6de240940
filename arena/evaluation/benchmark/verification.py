"""Verification of a submission: everything that is stored follows from suite and decisions."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.core.text import shorten
from arena.episodes.executors import Executor
from arena.episodes.job import run_jobs
from arena.evaluation.benchmark.card import CARD_FILE, SubmissionCard
from arena.evaluation.benchmark.game_check import TOLERANCE, CheckSetup, check_game
from arena.evaluation.benchmark.submission import (
    PlayedTask,
    Submission,
    chat_options,
    make_card,
)
from arena.evaluation.benchmark.suite import Suite
from arena.evaluation.records import GameResult

GAMES_AHEAD = 8
"""Games per worker that are started before an earlier one is checked."""


@dataclass(frozen=True, slots=True)
class CheckedGame:
    """A game that was checked, with its first fault in words."""

    task: str
    number: int
    fault: str | None


async def check_games(
    submission: Submission, executor: Executor
) -> AsyncGenerator[CheckedGame, None]:
    """Check every game that counts on an executor."""

    async def check(item: tuple[CheckSetup, GameResult]) -> CheckedGame:
        setup, result = item
        work = partial(check_game, setup, result)
        fault = await executor.run(work, name=f"{setup.task.id}, game {result.slot.number}")
        return CheckedGame(setup.task.id, result.slot.number, fault)

    async for checked in run_jobs(_stored(submission), check, GAMES_AHEAD * executor.workers):
        yield checked


def _stored(submission: Submission) -> Iterator[tuple[CheckSetup, GameResult]]:
    card = submission.card
    for played in submission.tasks:
        chat = played.experiment.settings.get("models")
        options = chat if isinstance(chat, dict) else None
        setup = CheckSetup(played.folder, played.task, card.text_level, options)
        for result in played.results:
            yield setup, result


def check_records(submission: Submission) -> None:
    """Check settings and card against suite and results. Raises ArenaError for the first fault."""
    for played in submission.tasks:
        fault = next(_setting_faults(submission.suite, submission.card, played), None)
        if fault:
            raise ArenaError(f"{played.folder}: {fault}")
    card = submission.card
    right = make_card(submission.suite, submission.tasks, card.player, card.name, card.text_level)
    ignored = {"created", "arena"}
    found, expected = (each.model_dump(mode="json", exclude=ignored) for each in (card, right))
    if place := _difference(found, expected):
        raise ArenaError(
            f"{submission.folder / CARD_FILE}: {place} differs from the results; arena bench run "
            "--resume writes the card again"
        )


def _setting_faults(suite: Suite, card: SubmissionCard, played: PlayedTask) -> Iterator[str]:
    task, game, experiment = played.task, played.game, played.experiment
    settings = experiment.settings
    expected: dict[str, JsonValue] = {
        "seed": suite.seed(task),
        "deals": "hashed",
        "player": task.player_of(card.player),
        "baseline": task.baseline_of(card.player),
        "against": list(task.against),
        "text_level": card.text_level,
        "max_turns": task.max_turns,
        **suite.settings(task),
    }
    if (experiment.kind, experiment.game) != ("eval", task.game):
        yield f"it is a {experiment.kind} of {shorten(experiment.game, 60)}, not of {task.game}"
    options = game.options.model_dump(mode="json")
    if game.completed(experiment.options) != options:
        yield f"its options are not {json.dumps(task.options)}"
    if chat_options(settings.get("models")) != card.chat:
        yield "its models were asked in another way than the card says"
    if card.chat is not None and card.chat.get("max_attempts") != suite.max_attempts:
        yield f"its models had another number of attempts than the suite's {suite.max_attempts}"
    for name, value in expected.items():
        if settings.get(name) != value:
            found = shorten(json.dumps(settings.get(name)), 80)
            yield f"{name} is {found}, not {shorten(json.dumps(value), 80)}"


def _difference(found: JsonValue, expected: JsonValue, place: str = "") -> str | None:
    """Return the place of the first difference between two JSON values; "" is the whole."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        pairs = ((f"{place}.{key}".lstrip("."), found[key], expected[key]) for key in found)
        return next((f for name, a, b in pairs if (f := _difference(a, b, name))), None)
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        both = zip(found, expected, strict=True)
        items = ((f"{place}.{number}", a, b) for number, (a, b) in enumerate(both))
        return next((f for name, a, b in items if (f := _difference(a, b, name))), None)
    if isinstance(found, float) and isinstance(expected, int | float):
        return None if math.isclose(found, expected, rel_tol=1e-4, abs_tol=TOLERANCE) else place
    return None if found == expected else place or "the whole"
