"""Verification of a submission: everything that is stored follows from suite and replies.

Each stored game is checked: its replay by the rules, its bots by their decisions, the prompts and
the reading of each reply by the chat's options, its numbers by the replay.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.spec import Spec
from arena.core.text import shorten
from arena.episodes.executors import Executor
from arena.episodes.job import cached_game, run_jobs, sha256
from arena.episodes.record import Header
from arena.episodes.replay import read_replay, verify
from arena.evaluation.analysis import episode_of
from arena.evaluation.benchmark import (
    CARD_FILE,
    CARD_TEXT,
    SUITE_FILE,
    SubmissionCard,
    Suite,
    SuiteTask,
    card_markdown,
)
from arena.evaluation.benchmark.submission import PlayedTask, Submission, chat_options, make_card
from arena.evaluation.records import RESULTS, GameResult, SeatResult
from arena.evaluation.scoring import measure_game
from arena.evaluation.store.schema import Experiment
from arena.llm.backend import ModelService
from arena.llm.batches import BATCHES
from arena.llm.tokens import common_prefix_length

GAMES_AHEAD = 8
"""Games per worker that are started before an earlier one is checked."""


def fingerprint(submission: Submission) -> str:
    """Return the hash of all that a verification depends on: folder, suite, and code.

    A submission that was verified with this fingerprint need not be verified again.
    """
    digest = hashlib.sha256(submission.suite.sha256.encode())
    games = {type(played.game).__module__.partition(".")[0] for played in submission.tasks}
    code = [Path(sys.modules[name].__path__[0]) for name in sorted({"arena", *games})]
    for root, pattern in ((submission.folder, "*"), *((root, "*.py") for root in code)):
        for path in sorted(each for each in root.rglob(pattern) if each.is_file()):
            digest.update(f"{path.relative_to(root).as_posix()} {sha256(path)}\n".encode())
    return digest.hexdigest()


async def check_games(
    submission: Submission, executor: Executor
) -> AsyncGenerator[str | None, None]:
    """Check every game that counts on an executor; yield its first fault in words, or None."""

    async def check(item: tuple[CheckSetup, GameResult]) -> str | None:
        setup, result = item
        work = partial(check_game, setup, result)
        return await executor.run(work, name=f"{setup.task.id}, game {result.slot.number}")

    async for fault in run_jobs(_stored(submission), check, GAMES_AHEAD * executor.workers):
        yield fault


def _stored(submission: Submission) -> Iterator[tuple[CheckSetup, GameResult]]:
    for played in submission.tasks:
        setup = CheckSetup(played.folder, played.task, played.experiment, submission.card)
        for result in played.results:
            yield setup, result


def check_records(submission: Submission) -> None:
    """Check settings and card against suite and results. Raises ArenaError for the first fault."""
    for played in submission.tasks:
        fault = next(_setting_faults(submission.suite, submission.card, played), None)
        if fault:
            raise ArenaError(f"{played.folder}: {fault}")
    if fault := next(_card_faults(submission), None):
        raise ArenaError(f"{submission.folder / CARD_FILE}: {fault}")
    text = submission.folder / CARD_TEXT
    if not text.is_file() or text.read_text("utf-8") != card_markdown(submission.card):
        raise ArenaError(f"{text}: it is not the text of {CARD_FILE}; {REWRITE}")
    _check_files(submission)


REWRITE = "arena bench run --resume writes the card again"
CLOCK_DIFFERENCE = timedelta(minutes=5)
"""Largest difference of two machines' clocks."""
LEDGER = re.compile(r"run(-\d+)?\.ledger\.json")


def _card_faults(submission: Submission) -> Iterator[str]:
    """Yield each statement of the card that the results contradict."""
    card = submission.card
    right = make_card(submission.suite, submission.tasks, card.player, card.name, card.text_level)
    ignored = {"created", "arena"}
    found, expected = (each.model_dump(mode="json", exclude=ignored) for each in (card, right))
    if difference := json_difference(found, expected, CARD_TOLERANCE):
        yield f"{difference.place} differs from the results; {REWRITE}"
    for played in submission.tasks:
        experiment = played.experiment
        if experiment.arena != card.arena:
            yield f"{played.task.id} was begun with arena {experiment.arena}, not {card.arena}"
        if not experiment.created <= card.created + CLOCK_DIFFERENCE:
            yield f"it was made before {played.task.id} was begun"
    if card.created > datetime.now(UTC) + CLOCK_DIFFERENCE:
        yield f"it was made on {card.created.date()}, which is in the future"
    for name in card.usage.answered:
        if contradicts(card.player, name):
            yield f"{card.player} did not give these replies: they name the model {name}"


def contradicts(spec: str, answered: str) -> bool:
    """Return whether the engine of replies cannot be that of the model in the SPEC.

    A provider may add words to a name (a date, a size), but not replace one. The owner of an
    address or of a deployment on Azure gives any name to any model.
    """
    parsed = Spec.parse(spec)
    # Behind the name follow the provider and the fingerprint.
    answered = answered.partition(" [")[0]
    if parsed.rest.startswith("//") or parsed.prefix.startswith("azure") or spec == answered:
        return False
    asked, named = (
        set(re.findall(r"[a-z]+|\d+", name.casefold().rpartition("/")[2].partition(":")[0]))
        for name in (parsed.rest, answered)
    )
    return bool(named) and not asked - {"latest", "auto", "preview"} <= named


def _check_files(submission: Submission) -> None:
    """Raise ArenaError for a file that no run of the suite writes, and for a link."""
    folder = submission.folder
    known = {SUITE_FILE, CARD_FILE, CARD_TEXT}
    for played in submission.tasks:
        known |= {f"{played.task.id}/{name}" for name in (RESULTS, f"{RESULTS}.lock", BATCHES)}
        # Games that were played at the same time as the last one that counts may follow.
        games = len(submission.suite.schedule(played.task, submission.card.player))
        replays = {f"{played.task.id}/{replay_name(number)}" for number in range(games)}
        # A task that ends at its target leaves the beginnings of games that were in play.
        known |= replays | {f"{replay}.part" for replay in replays}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_ledger = LEDGER.fullmatch(path.name) and len(path.relative_to(folder).parts) == 2
        if path.is_symlink() or not (path.is_dir() or name in known or is_ledger):
            raise ArenaError(
                f"{path}: no run of {submission.suite.label} writes this file; delete it"
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


TOLERANCE, CARD_TOLERANCE = 1e-6, 1e-4
"""Differences of measures, and of the card's intervals, that another machine's rounding causes."""


@dataclass(frozen=True, slots=True)
class CheckSetup:
    """What all games of a task have in common."""

    folder: Path
    """Folder of the results file."""
    task: SuiteTask
    experiment: Experiment
    card: SubmissionCard


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
    replay = read_replay(setup.folder / replay_name(result.slot.number))
    game = cached_game(setup.task.make_game())
    if fault := _header_fault(setup, result, replay.header, game):
        return f"its replay has {fault}"
    if replay.outcome is None:
        return "its replay is unfinished"
    if fault := verify(replay):
        return f"its replay breaks the rules: {fault}"
    measured = measure_game(result.slot, game, episode_of(replay), result.scored, result.seconds)
    return next(result_faults(result, measured), None)


def replay_name(number: int) -> str:
    """Return the only path, from the folder of its task, that the replay of a game may have."""
    return f"replays/game{number:06}.jsonl"


def _file_fault(setup: CheckSetup, result: GameResult) -> str | None:
    """Return what is wrong with the file of the replay, in words."""
    name = replay_name(result.slot.number)
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
    limit, card, begun = game.turn_limit(setup.task.max_turns), setup.card, setup.experiment.created
    chat = setup.experiment.settings.get("models")
    expected: list[tuple[str, object, object]] = [
        ("game", header.game, game.name),
        ("options", header.options, game.options.model_dump(mode="json")),
        ("seed", header.seed, result.slot.seed),
        ("players", header.players, result.slot.specs),
        ("text level", header.text_level, card.text_level),
        ("turn limit", header.max_turns, limit),
        ("models", header.models, chat if isinstance(chat, dict) else None),
        ("branches", header.branches, ()),
        ("seed of agents", header.agents_seed, None),
        ("arena", header.arena, card.arena),
    ]
    for name, found, right in expected:
        if found != right:
            return f"{name} {shorten(repr(found), 80)} instead of {shorten(repr(right), 80)}"
    if not begun - CLOCK_DIFFERENCE <= header.created <= card.created + CLOCK_DIFFERENCE:
        return f"the time {header.created}, which is not between the run's begin and its card"
    return None


def result_faults(stored: GameResult, measured: GameResult) -> Iterator[str]:
    """Yield each stored number that the replay contradicts."""
    yield from _differences(stored, measured, ("status", "reason", "turns", "decisions", "scored"))
    for seat, (one, other) in enumerate(zip(stored.seats, measured.seats, strict=True)):
        for fault in _seat_faults(one, other):
            yield f"seat {seat}: {fault}"


def _seat_faults(stored: SeatResult, measured: SeatResult) -> Iterator[str]:
    yield from _differences(stored, measured, ("returns", "won", "fallbacks"))
    for name in sorted({*stored.measurements, *measured.measurements}):
        one, other = stored.measurements.get(name), measured.measurements.get(name)
        if not _is_close(one, other):
            yield f"stored measure '{shorten(name, 40)}' {one}, by its replay {other}"


def _differences(stored: object, measured: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        found, right = getattr(stored, name), getattr(measured, name)
        if found != right:
            yield f"stored {name} {shorten(repr(found), 60)}, by its replay {right!r}"


def _is_close(one: WeightedSum | None, other: WeightedSum | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.total, other.total), (one.weight, other.weight))
    return all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in pairs)


EXCERPT = 60
"""Characters of a text that a fault shows."""


@dataclass(frozen=True, slots=True)
class JsonDifference:
    """The first difference between two JSON values."""

    place: str
    """Names and numbers with dots between them; "" for the whole."""
    found: str
    expected: str

    @property
    def text(self) -> str:
        """The place and excerpts of both values, from shortly before they differ."""
        start = max(0, common_prefix_length(self.found, self.expected) - EXCERPT // 2)
        one, other = (
            shorten(text[start : start + EXCERPT]) for text in (self.found, self.expected)
        )
        return f"{self.place or 'the whole'} is '{one}', expected '{other}'"


def json_difference(
    found: JsonValue, expected: JsonValue, tolerance: float = 0.0, place: str = ""
) -> JsonDifference | None:
    """Return the first difference; floats may differ by `tolerance`, absolute or relative."""
    pairs: Iterable[tuple[object, JsonValue, JsonValue]] = ()
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        pairs = ((key, found[key], expected[key]) for key in found)
    elif isinstance(found, list) and isinstance(expected, list):
        if len(found) != len(expected):
            lengths = (f"{len(each)} entries" for each in (found, expected))
            return JsonDifference(place, *lengths)
        pairs = ((n, *pair) for n, pair in enumerate(zip(found, expected, strict=True)))
    elif _are_close(found, expected, tolerance):
        return None
    elif found != expected or type(found) is not type(expected):
        texts = (
            each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            for each in (found, expected)
        )
        return JsonDifference(place, *texts)
    differences = (
        json_difference(a, b, tolerance, f"{place}.{key}".lstrip(".")) for key, a, b in pairs
    )
    return next(filter(None, differences), None)


def _are_close(one: JsonValue, other: JsonValue, tolerance: float) -> bool:
    """Compare two numbers of which one is a float; anything else is not close."""
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    is_float = isinstance(one, float) or isinstance(other, float)
    return is_float and math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
