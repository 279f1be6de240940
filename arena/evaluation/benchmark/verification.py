"""Verification of a submission: everything that is stored follows from suite and decisions.

Each stored game is checked: its replay by the rules, its bots by their decisions, its numbers.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.agents.agent import Agent
from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.spec import Spec
from arena.core.text import shorten
from arena.episodes.executors import Executor
from arena.episodes.job import cached_game, run_jobs, sha256
from arena.episodes.match import Match, play
from arena.episodes.record import DecisionLine, Episode, Header
from arena.episodes.replay import Replay, read_replay, verify
from arena.evaluation.analysis import episode_of
from arena.evaluation.benchmark import CARD_FILE, SubmissionCard, Suite, SuiteTask
from arena.evaluation.benchmark.submission import (
    PlayedTask,
    Submission,
    chat_options,
    make_card,
)
from arena.evaluation.records import GameResult, SeatResult
from arena.evaluation.scoring import measure_game

if TYPE_CHECKING:
    from arena.llm.backend import ModelService


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
    if experiment.options != options:
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


TOLERANCE = 1e-6
"""Relative difference of measures that rounding on another machine may cause."""


@dataclass(frozen=True, slots=True)
class CheckSetup:
    """What all games of a task have in common."""

    folder: Path
    """Folder of the results file."""
    task: SuiteTask
    text_level: str
    chat: Mapping[str, JsonValue] | None


@dataclass(slots=True)
class RecordedAgent:
    """Agent that repeats the recorded decisions of a seat, one at each unforced move."""

    decisions: deque[Decision]

    async def act(self, observation: Observation) -> Decision:
        return self.decisions.popleft()


async def check_game(
    setup: CheckSetup, result: GameResult, _llm: ModelService | None = None
) -> str | None:
    """Return the first fault of a stored game in words, or None. A unit of work of executors."""
    place = f"{setup.task.id}, game {result.slot.number}"
    try:
        fault = await _fault(setup, result)
    except ArenaError as error:
        fault = str(error)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A forged file may cause errors that no check foresees.
        fault = f"its replay cannot be played: {error}"
    return f"{place}: {fault}" if fault else None


async def _fault(setup: CheckSetup, result: GameResult) -> str | None:
    if fault := _file_fault(setup, result):
        return fault
    replay = read_replay(setup.folder / replay_name(result))
    game = cached_game(setup.task.make_game())
    if fault := _header_fault(setup, result, replay.header, game):
        return f"its replay has {fault}"
    if replay.outcome is None:
        return "its replay is unfinished"
    if fault := verify(replay):
        return f"its replay breaks the rules: {fault}"
    if fault := await _bot_fault(replay, game):
        return fault
    measured = measure_game(result.slot, game, episode_of(replay), result.scored, result.seconds)
    return next(result_faults(result, measured), None)


def replay_name(result: GameResult) -> str:
    """Return the only path, from the folder of its task, that the replay of a game may have."""
    return f"replays/game{result.slot.number:06}.jsonl"


def _file_fault(setup: CheckSetup, result: GameResult) -> str | None:
    """Return what is wrong with the file of the replay, in words."""
    name = replay_name(result)
    # The stored name is compared, never followed: a path from a stranger may lead anywhere.
    if result.replay != name or result.sha256 is None:
        return "it has no replay; a submission keeps all of them"
    path = setup.folder / name
    if not path.is_file():
        return f"its replay {name} is missing"
    if sha256(path) != result.sha256:
        return f"its replay {name} was changed after the game"
    return None


def _header_fault(setup: CheckSetup, result: GameResult, header: Header, game: Game) -> str | None:
    """Return the part of the header that is not the suite's, in words."""
    limit = game.turn_limit(setup.task.max_turns)
    expected: list[tuple[str, object, object]] = [
        ("game", header.game, game.name),
        ("options", header.options, game.options.model_dump(mode="json")),
        ("seed", header.seed, result.slot.seed),
        ("players", header.players, result.slot.specs),
        ("text level", header.text_level, setup.text_level),
        ("turn limit", header.max_turns, limit),
        ("models", header.models, setup.chat),
        ("branches", header.branches, ()),
    ]
    for name, found, right in expected:
        if found != right:
            return f"{name} {shorten(repr(found), 80)} instead of {shorten(repr(right), 80)}"
    return None


async def _bot_fault(replay: Replay, game: Game) -> str | None:
    """Play the game again with its bots, and with the recorded decisions of all other players.

    Bots draw from streams of the deal's seed, so the same decisions must come out. A forger can
    thus choose nothing but the decisions of the player itself.
    """
    header = replay.header
    recorded = {
        seat: RecordedAgent(deque())
        for seat, spec in enumerate(header.players)
        if Spec.parse(spec).prefix != "bot"
    }
    moves = [move for move in replay.moves if isinstance(move, DecisionLine)]
    for walked in replay.walk():
        seen, player = walked.observation, walked.ply.player
        # A forced move is played without asking.
        if player in recorded and seen is not None and not seen.legal_actions.is_forced:
            recorded[player].decisions.append(walked.ply.decision)
    match = Match(game, header.players, header.seed, header.text_level, None, header.max_turns)
    agents: dict[int, Agent] = {**recorded}
    episode = await play(match, match.seat(given=agents))
    return _first_other_move(episode, moves)


def _first_other_move(episode: Episode, moves: list[DecisionLine]) -> str | None:
    played = [ply for ply in episode.plies if ply.player >= 0]
    for ply, move in zip_longest(played, moves):
        if ply is None or move is None:
            return "its replay and the game of its players have different lengths"
        action = str(ply.decision.action)
        if (move.player, move.action) != (ply.player, action):
            spec = episode.header.players[move.player]
            return (
                f"ply {move.ply + 1}: {spec} in seat {move.player} plays "
                f"'{shorten(action, 60)}' in this version of arena, not "
                f"'{shorten(move.action, 60)}'"
            )
        if (move.failure is None) != (ply.decision.failure is None):
            return f"ply {move.ply + 1}: it is not clear whether this move was a fallback"
    return None


def result_faults(stored: GameResult, measured: GameResult) -> Iterator[str]:
    """Yield each stored number that the replay contradicts."""
    for name in ("status", "reason", "turns", "decisions", "scored"):
        found, right = getattr(stored, name), getattr(measured, name)
        if found != right:
            yield f"stored {name} {shorten(repr(found), 60)}, by its replay {right!r}"
    for seat, (one, other) in enumerate(zip(stored.seats, measured.seats, strict=True)):
        for fault in _seat_faults(one, other):
            yield f"seat {seat}: {fault}"


def _seat_faults(stored: SeatResult, measured: SeatResult) -> Iterator[str]:
    for name in ("returns", "won", "fallbacks"):
        found, right = getattr(stored, name), getattr(measured, name)
        if found != right:
            yield f"stored {name} {found}, by its replay {right}"
    for name in sorted({*stored.measurements, *measured.measurements}):
        one, other = stored.measurements.get(name), measured.measurements.get(name)
        if not _is_close(one, other):
            yield f"stored measure '{shorten(name, 40)}' {one}, by its replay {other}"


def _is_close(one: WeightedSum | None, other: WeightedSum | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.total, other.total), (one.weight, other.weight))
    return all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in pairs)
