"""Measuring games that were played already: replays, folders of them, results files.

Each replay is read, played again by the rules and scored in a worker; what is kept of it is a row
of numbers, so memory does not grow with the size of replays.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from arena.core.errors import ArenaError, ReplayError, UsageError
from arena.core.game import Game
from arena.core.json import Json
from arena.core.outcome import Outcome
from arena.episodes.replay import Replay, read_replay
from arena.evaluation.aggregation import Analysis
from arena.evaluation.evaluator import Workers, in_order, kept, sha256
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.scoring import Played, measure
from arena.evaluation.store.results import Results
from arena.plugins.loader import make_game

AHEAD = 8
"""Replays that are begun, for each worker, before an earlier one is done."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What games that can be measured together have in common."""

    game: str
    options: str
    """As JSON."""
    text_level: str
    """The help that models read; "" where only bots played."""

    @staticmethod
    def of(game: Game, text_level: str) -> Setup:
        options = game.options.model_dump(mode="json")
        return Setup(game.name, json.dumps(options, sort_keys=True), text_level)

    def make(self) -> Game:
        return make_game(self.game, **json.loads(self.options))


@dataclass(frozen=True, slots=True)
class Analysed:
    """A game that was measured."""

    setup: Setup
    result: GameResult
    """Its `sha256` is that of the replay, if there is one."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not, and why."""

    path: Path
    reason: str


def find(paths: Sequence[Path]) -> list[Path]:
    """Replays and results files: those that are named, and all replays below named folders.

    Raises UsageError for a path that does not exist, or if there is nothing at all.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: there is no such file or folder")
        files = sorted(filter(_may_be_read, path.rglob("*.jsonl"))) if path.is_dir() else [path]
        found |= dict.fromkeys(files)
    if not found:
        raise UsageError(f"no replays (*.jsonl) in {', '.join(map(str, paths))}")
    return list(found)


def _may_be_read(path: Path) -> bool:
    """Not a pipe, which nobody may be writing to; a broken link is told of when it is read."""
    return path.is_file() or not path.exists()


def measure_replay(path: Path, scored: bool) -> Analysed | Skipped:
    """Read one replay and measure it; whatever is wrong with it stays in it."""
    try:
        replay = read_replay(path)
        if replay.outcome is None:
            return Skipped(path, replay.notice or "the game is unfinished")
        if replay.header.branches:
            first = replay.header.first_own_ply
            return Skipped(path, f"a branch: it is a game of its own only from ply {first + 1} on")
        return _measured(replay, scored)
    except ReplayError as error:
        return Skipped(path, str(error).removeprefix(f"{path}: "))
    except (ArithmeticError, TypeError, ValueError) as error:
        # A forged file may hold what no check has foreseen; it must not take the others with it.
        return Skipped(path, f"cannot be measured: {error}")


def _measured(replay: Replay, scored: bool) -> Analysed:
    header, line = replay.header, replay.outcome
    assert line is not None
    game = kept(replay.make_game())
    if len(line.returns) != game.num_players:
        raise ReplayError(f"{replay.path}: {len(line.returns)} returns for {game.num_players}")
    plies = [walked.ply for walked in replay.walk()]
    outcome = Outcome(line.status, line.reason, line.returns)
    played = Played(game, header.players, plies, outcome, line.turns)
    slot = Slot(0, header.seed, header.players)
    seconds = sum(ply.seconds or 0.0 for ply in plies)
    result = replace(measure(slot, played, scored, seconds), sha256=sha256(replay.path))
    return Analysed(Setup.of(game, header.text_level if header.models else ""), result)


def score(result: GameResult, folder: Path) -> GameResult | None:
    """A finished game scored by its replay in `folder`; None if that is not its replay any more."""
    if result.replay is None:
        return None
    found = measure_replay(folder / result.replay, scored=True)
    if isinstance(found, Skipped) or found.result.sha256 != result.sha256:
        return None
    return replace(result, seats=found.result.seats, scored=found.result.scored)


def stored_games(path: Path) -> Iterator[Analysed]:
    """The games of a results file, as they were measured when they were played."""
    with Results.read(path) as results:
        experiment = results.experiment
        game = make_game(experiment.game, **experiment.options)
        level = experiment.settings.get("text_level") if experiment.settings.get("models") else ""
        setup = Setup.of(game, str(level))
        for result in results.games():
            yield Analysed(setup, result)


async def analyse(
    paths: Sequence[Path], workers: Workers, scored: bool
) -> AsyncGenerator[Analysed | Skipped, None]:
    """Measure all files on all workers; yields in the order of `paths`."""
    replays = [path for path in paths if not is_results(path)]
    for path in paths:
        if is_results(path):
            try:
                for analysed in stored_games(path):
                    yield analysed
            except ArenaError as error:
                yield Skipped(path, str(error))

    async def one(path: Path) -> Analysed | Skipped:
        return await workers.run(partial(measure_replay, path, scored))

    async for found in in_order(replays, one, AHEAD * workers.number):
        yield found


def is_results(path: Path) -> bool:
    """Whether this is a results file, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


class Analyses:
    """What is learned of games of any setups."""

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []
        self.copies = 0
        """Games that were there already: the same replay in another place, or by a results file."""
        self._seen: set[str] = set()
        self._by_setup: dict[Setup, Analysis] = {}

    def add(self, found: Analysed | Skipped) -> None:
        if isinstance(found, Skipped):
            self.skipped.append(found)
            return
        digest = found.result.sha256
        if digest in self._seen:
            self.copies += 1
            return
        if digest:
            self._seen.add(digest)
        if found.setup not in self._by_setup:
            self._by_setup[found.setup] = Analysis(found.setup.make())
        self._by_setup[found.setup].add(found.result)

    def reports(self) -> list[dict[str, Json]]:
        """A report for each setup."""
        return [
            {**analysis.report(), "settings": {"text_level": setup.text_level or None}}
            for setup, analysis in self._by_setup.items()
        ]
