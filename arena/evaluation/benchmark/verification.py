"""Check of a submission: actions are applied again, and scores are computed again."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from arena.agents.chat import attempts_in, opening
from arena.agents.scaffold import INSTRUCTION
from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.text import first_fault, shorten, unique_json
from arena.episodes.branch import models_of
from arena.episodes.executors import Executor
from arena.episodes.job import cached_game, run_jobs
from arena.episodes.record import Episode
from arena.episodes.replay import Replay, read_replay, verify
from arena.evaluation.analysis import episode_of
from arena.evaluation.benchmark import SuiteTask
from arena.evaluation.benchmark.submission import (
    Submission,
    SubmissionCard,
    amount_fault,
    is_close,
)
from arena.evaluation.records import GameResult, SeatResult
from arena.evaluation.scoring import PER_GAME, measure_game

GAMES_AHEAD = 8
"""Games per worker whose check starts before an earlier one has ended."""


async def check_games(
    submission: Submission, executor: Executor
) -> AsyncGenerator[str | None, None]:
    """Check every game that counts on an executor; yield its first fault in words, or None."""
    stored = ((played.task, result) for played in submission.tasks for result in played.results)

    async def check(item: tuple[SuiteTask, GameResult]) -> str | None:
        work = partial(check_game, submission.folder, submission.card, *item)
        return await executor.compute(work, f"{item[0].id}, game {item[1].slot.number}")

    async for fault in run_jobs(stored, check, GAMES_AHEAD * executor.workers):
        yield fault


def check_game(
    folder: Path, card: SubmissionCard, task: SuiteTask, result: GameResult
) -> str | None:
    """Apply the actions of a stored game again and compute its scores again.

    Return the first fault in words, or None.
    """
    try:
        fault = _fault(folder, card, task, result)
    except ArenaError as error:
        fault = str(error)
    except ValidationError as error:
        fault = f"its replay has a reply that is none: {shorten(first_fault(error))}"
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A damaged file may cause errors that no check foresees.
        fault = f"its replay cannot be played: {error}"
    return f"{task.id}, game {result.slot.number}: {fault}" if fault else None


def _fault(folder: Path, card: SubmissionCard, task: SuiteTask, result: GameResult) -> str | None:
    # The stored path is never followed: that of a stranger may lead anywhere.
    name = f"game{result.slot.number:06}.jsonl"
    replay = read_replay(folder / task.id / "replays" / name)
    for line in replay.path.read_bytes().splitlines():
        unique_json(line)
    game, header = cached_game(task.make_game()), replay.header
    expected: list[tuple[str, object, object]] = [
        ("game", header.game, game.name),
        ("options", header.options, game.options.model_dump(mode="json")),
        ("seed", header.seed, result.slot.seed),
        ("players", header.players, result.slot.specs),
        ("version of arena", header.arena, card.arena),
        ("text level", header.text_level, card.text_level),
        ("chat options", header.models, card.models(task.id)),
        ("turn limit", header.max_turns, game.turn_limit(task.max_turns)),
        ("branches", header.branches, ()),
    ]
    for what, found, right in expected:
        if found != right:
            return (
                f"its replay has {what} {shorten(repr(found), 80)} instead of "
                f"{shorten(repr(right), 80)}"
            )
    if replay.outcome is None:
        return "its replay is unfinished"
    if fault := verify(replay):
        return f"its replay breaks the rules: {fault}"
    episode = episode_of(replay)
    measured = measure_game(result.slot, game, episode, result.scored, result.seconds)
    found = chain(_reply_faults(replay, game, episode), result_faults(result, measured))
    return next(found, None)


def _reply_faults(replay: Replay, game: Game, episode: Episode) -> Iterator[str]:
    """Yield tokens and costs that no reply can have, and system messages that are not declared."""
    header, options, asked = replay.header, models_of(replay), set[int]()
    declared = list[str]()
    if options:
        limit = game.turn_limit(header.max_turns)
        system = opening(game, options, limit).content
        declared = [system, f"{system}\n{INSTRUCTION}"]
    for ply in episode.plies:
        for attempt in attempts_in(ply.decision):
            for name in PER_GAME:
                if fault := amount_fault(name, getattr(attempt, name) or 0):
                    yield f"ply {ply.number + 1}: {name}: {fault}"
            # The first request has all messages, later ones only what was added.
            first = None if attempt.kept else attempt.messages[0].content
            if first not in declared and not (attempt.kept and ply.player in asked):
                yield f"ply {ply.number + 1}: another system message than that of the card"
            asked.add(ply.player)


def result_faults(stored: GameResult, measured: GameResult) -> Iterator[str]:
    """Yield each stored number that the replay contradicts."""
    yield from _differences(stored, measured, ("status", "reason", "turns", "decisions", "scored"))
    for seat, pair in enumerate(zip(stored.seats, measured.seats, strict=True)):
        yield from (f"seat {seat}: {fault}" for fault in _seat_faults(*pair))


def _seat_faults(stored: SeatResult, measured: SeatResult) -> Iterator[str]:
    yield from _differences(stored, measured, ("returns", "won", "fallbacks"))
    none = WeightedSum(math.nan, math.nan)
    for name in sorted({*stored.measurements, *measured.measurements}):
        one, other = (each.measurements.get(name, none) for each in (stored, measured))
        if not is_close([one.total, one.weight], [other.total, other.weight]):
            yield f"stored measure '{shorten(name, 40)}' {one}, by its replay {other}"


def _differences(stored: object, measured: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        found, right = getattr(stored, name), getattr(measured, name)
        if found != right:
            yield f"stored {name} {shorten(repr(found), 60)}, by its replay {right!r}"
