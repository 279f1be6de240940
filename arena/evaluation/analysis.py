"""Measurement of games that were played earlier: replays, folders of them, runs.

The games of a run have their measurements. A worker reads each replay, plays it again by the rules
and scores it. Only a row of numbers is kept of a game, so memory does not grow with the size of
replays. Reports have a row for each role of a player.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.text import pluralize
from arena.episodes.files import check_exists, sha256
from arena.episodes.job import Executor, cached_game, run_jobs
from arena.episodes.record import Episode
from arena.episodes.replay import Replay, read_replay
from arena.evaluation.aggregation import add_seats, make_report
from arena.evaluation.records import RESULTS, RUN, GameResult, Role, SeatRole, Slot
from arena.evaluation.report import Report
from arena.evaluation.scoring import measure_game
from arena.evaluation.store import Results, is_run
from arena.evaluation.summary import Sample
from arena.plugins.catalog import make_game

OTHER_LOGS = ("metrics.jsonl", "history.jsonl", "replays-*.jsonl")
"""Names of lines of JSON that arena writes beside replays: metrics of a training run and of its
host, exports."""
REPLAYS_AHEAD = 8
"""Replays per worker that are started before an earlier one is finished."""


@dataclass(frozen=True, slots=True)
class AnalysisGroup:
    """Common properties of games that are measured together."""

    game: str
    options: str
    """As JSON."""
    text_level: str
    """The text level of the models; "" where only bots played."""

    @staticmethod
    def of(game: Game, text_level: str) -> AnalysisGroup:
        options = game.options.model_dump(mode="json")
        return AnalysisGroup(game.name, json.dumps(options, sort_keys=True), text_level)

    def make(self) -> Game:
        return make_game(self.game, **json.loads(self.options))


@dataclass(frozen=True, slots=True)
class AnalyzedGame:
    """A measured game."""

    group: AnalysisGroup
    result: GameResult
    """Its `sha256` is that of the replay, if there is one."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not measured, with the reason."""

    path: Path
    reason: str


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the named replays and runs (`games.jsonl`), and all replays in other named folders.

    Other files of arena in the folders, such as the metrics of a training run, are left out.
    Raises UsageError for a path that does not exist, or if there is no file at all.
    """
    chosen: dict[Path, None] = {}
    for path in paths:
        check_exists(path)
        found = [path / RESULTS if is_run(path) else path]
        if path.is_dir() and found == [path]:
            # Reading a pipe could wait for ever. A broken link is reported when it is read.
            files = (p for p in path.rglob("*.jsonl") if p.is_file() or not p.exists())
            found = sorted(p for p in files if not (is_results(p) or any(map(p.match, OTHER_LOGS))))
        chosen |= dict.fromkeys(found)
    if not chosen:
        raise UsageError(f"no replays (*.jsonl) in {', '.join(map(str, paths))}")
    return list(chosen)


def measure_replay(path: Path, scored: bool) -> AnalyzedGame | SkippedFile:
    """Read one replay and measure it; a fault of the file becomes a `SkippedFile`."""
    try:
        replay = read_replay(path)
        if replay.outcome is None:
            return SkippedFile(path, replay.notice or "the game is unfinished")
        # The first plies were played by other agents, and one result cannot tell them apart.
        if replay.header.branches:
            first = replay.header.first_own_ply
            return SkippedFile(path, f"a branch: its own moves start only from ply {first + 1} on")
        return _measured(replay, scored)
    except ArenaError as error:
        return SkippedFile(path, str(error).removeprefix(f"{path}: "))
    except (ArithmeticError, TypeError, ValueError) as error:
        # A forged file may cause errors that no check foresees; other files must not suffer.
        return SkippedFile(path, f"cannot be measured: {error}")


def _measured(replay: Replay, scored: bool) -> AnalyzedGame:
    header, game, episode = replay.header, cached_game(replay.make_game()), episode_of(replay)
    # The seed identifies the deal, so games of one deal form a cluster.
    slot = Slot(0, header.seed, header.players, role="unknown")
    seconds = sum(ply.seconds or 0.0 for ply in episode.plies)
    result = measure_game(slot, game, episode, scored, seconds)
    group = AnalysisGroup.of(game, header.text_level if header.models else "")
    return AnalyzedGame(group, replace(result, sha256=sha256(replay.path)))


def episode_of(replay: Replay) -> Episode:
    """Return the game of a finished replay. Raises ReplayError for an illegal move."""
    line = replay.outcome
    assert line is not None, "the replay is finished"
    # Walking checks each action by the rules.
    plies = tuple(walked.ply for walked in replay.walk())
    return Episode(replay.header, plies, line.outcome, line.turns)


def stored_games(folder: Path) -> Iterator[AnalyzedGame]:
    """Yield the games of a run with the measurements that it holds."""
    with Results.read(folder) as results:
        settings, game = results.experiment.settings, results.make_game()
        level = settings.get("text_level") if settings.get("models") else ""
        group = AnalysisGroup.of(game, str(level))
        for result in results.games(game):
            yield AnalyzedGame(group, result)


async def analyze(
    paths: Sequence[Path], executor: Executor, scored: bool
) -> AsyncGenerator[AnalyzedGame | SkippedFile, None]:
    """Read runs, measure replays on an executor; yield the games of runs first, then in order."""
    for path in filter(is_results, paths):
        try:
            for game in stored_games(path.parent):
                yield game
        except ArenaError as error:
            yield SkippedFile(path, str(error))

    async def measure_one(path: Path) -> tuple[Path, AnalyzedGame | SkippedFile]:
        return path, await executor.compute(partial(measure_replay, path, scored), str(path))

    roles_of = cache(_stored_roles)
    replays = (path for path in paths if not is_results(path))
    async for path, measured in run_jobs(replays, measure_one, REPLAYS_AHEAD * executor.workers):
        if isinstance(measured, AnalyzedGame):
            # A run has its games beside the folder of replays.
            yield _with_role(measured, roles_of(path.parent.parent))
        else:
            yield measured


def _with_role(game: AnalyzedGame, roles: StoredRoles) -> AnalyzedGame:
    # By the hash: a replay that was changed since is not the game that was stored.
    role, seat = roles.get(game.result.sha256 or "", ("unknown", None))
    slot = replace(game.result.slot, role=role, seat=seat)
    return replace(game, result=replace(game.result, slot=slot))


StoredRoles = Mapping[str, tuple[Role, int | None]]
"""Role and tested seat of the games of a run, by the hash of their replays."""


def _stored_roles(folder: Path) -> StoredRoles:
    try:
        with Results.read(folder) as results:
            games = ((game.sha256, game.slot) for game in results.games())
            return {digest: (slot.role, slot.seat) for digest, slot in games if digest}
    except ArenaError:
        # There is none, or it is damaged: the replays themselves are still measured.
        return {}


def is_results(path: Path) -> bool:
    """Return whether a path is a file of a run."""
    return path.name in (RUN, RESULTS) and is_run(path.parent)


class AnalysisAggregator:
    """Results of games that were played earlier and have the same set-up."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.games = 0
        self.scored = 0
        self._unknown = 0
        """Games whose seats have unknown roles."""
        self._samples: dict[tuple[str, SeatRole], Sample] = {}

    def add(self, result: GameResult) -> None:
        self.games += 1
        self.scored += result.scored
        self._unknown += result.slot.role == "unknown"
        # An opponent is chosen, not tested: its results are never mixed with those of a test.
        roles = (result.slot.seat_role(number) for number in range(len(result.seats)))
        keys = [(seat.player, role) for seat, role in zip(result.seats, roles, strict=True)]
        add_seats(self._samples, keys, result, self.game.return_scale)

    def report(self, text_level: str | None = None) -> Report:
        rows = [{"role": role} for _, role in self._samples]
        samples, counts = self._samples.values(), (self.games, self.scored)
        unknown_roles = (
            f"Whether a seat was tested or an opponent is unknown in {self._unknown} of "
            f"{pluralize(self.games, 'game')}: the replays are not from an evaluation or a "
            "tournament, or its games.jsonl is not beside their folder."
        )
        notes = [unknown_roles] if self._unknown else []
        settings = {"text_level": text_level}
        return make_report("analysis", self.game, *counts, samples, rows, notes, settings=settings)


class GroupedAnalyses:
    """Results of games of any groups, kept apart by group."""

    def __init__(self) -> None:
        self.skipped: list[SkippedFile] = []
        self.copies = 0
        """Games that occurred before: the same replay elsewhere, or in a run."""
        self._hashes: set[str] = set()
        self._by_group: dict[AnalysisGroup, AnalysisAggregator] = {}

    def add(self, item: AnalyzedGame | SkippedFile) -> None:
        if isinstance(item, SkippedFile):
            self.skipped.append(item)
            return
        digest = item.result.sha256
        if digest in self._hashes:
            self.copies += 1
            return
        # Games without a replay have no hash and cannot be recognised as copies.
        if digest:
            self._hashes.add(digest)
        if item.group not in self._by_group:
            self._by_group[item.group] = AnalysisAggregator(item.group.make())
        self._by_group[item.group].add(item.result)

    def reports(self) -> list[Report]:
        """Return a report for each group."""
        return [each.report(group.text_level or None) for group, each in self._by_group.items()]
