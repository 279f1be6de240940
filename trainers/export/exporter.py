"""Finished games as data for other tools: one file, entirely new or not written at all.

A format is a name of the catalog's kind `export`. Replays are read one after the other, those of a
deal together, and what is no finished game of a model is named and left out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol

from arena.core.errors import ArenaError, ReplayError, UsageError
from arena.core.game import Game
from arena.core.text import shortened
from arena.episodes.record import Header
from arena.episodes.replay import Replay, check_regular, read_header, read_replay
from arena.evaluation.analysis import Skipped, find
from arena.plugins.loader import make_game

REASONS = 4
"""Reasons that are told where nothing can be exported; the rest is counted."""
LONGEST_HEADER = 1 << 20
"""Bytes. What has no line's end by then is no replay, and its first line is not kept."""


class Exporter(Protocol):
    """Writes games to an open file, in one format. Made for each file."""

    suffix: ClassVar[str]
    """Of a file's name: `chat.jsonl`."""
    wanted: ClassVar[str]
    """What a game must have to be in it, in words: `a finished game of a model`."""

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        """`games` are all that may come; `reward` is --reward, "" for each game's own.

        Raises UsageError for a reward that none of the games has.
        """

    def prepare(self, replay: Replay) -> Any:
        """All that can fail on a finished game, and nothing written yet.

        Raises ReplayError for a game that is left out, UsageError if it does not have the reward.
        """

    def write(self, prepared: Any) -> None:
        """Write what was prepared of a game, or keep it for `finish`. Raises OSError only.

        Games of one deal come one after the other, and so do branches of one position.
        """

    def finish(self) -> int:
        """Write what is left; the number of rows in the file."""

    def close(self) -> None:
        """Let the file go, be it finished or given up. Called whatever happened."""

    def notes(self) -> list[str]:
        """What whoever uses the file should know of it."""


@dataclass(slots=True)
class Exported:
    """What became of the replays."""

    file: Path
    rows: int = 0
    games: int = 0
    copies: int = 0
    """Files that hold the same bytes as another one: they count once."""
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def export_replays(
    paths: Sequence[Path],
    out: Path,
    make: type[Exporter],
    reward: str = "",
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Write the replays, and those below the folders, to `out`, which is replaced at once.

    `tell` hears how many files are done, of how many. Raises UsageError if none can be exported,
    and ArenaError if the file cannot be written; then there is none, or the one that was.
    """
    files = _inputs(paths, out)
    order = _Order.of(files)
    exported, seen = Exported(out), set[bytes]()
    with _draft(out) as draft, closing(make(draft, order.games, reward)) as exporter:
        for number, path in enumerate(order.files, start=1):
            _export(path, exporter, exported, seen)
            tell(number, len(order.files))
        if not exported.games:
            raise UsageError(_nothing(exported, make.wanted))
        exported.rows = exporter.finish()
    exported.notes = exporter.notes()
    return exported


def _inputs(paths: Sequence[Path], out: Path) -> list[Path]:
    """The replays; an earlier export that lies among them is none."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: no file can be written there")
    target = out.resolve()
    if any(path.resolve() == target for path in paths):
        raise UsageError(f"--out {out} is the replay itself: choose another name")
    found = [path for path in find(paths) if path.resolve() != target]
    if not found:
        raise UsageError(f"no replays (*.jsonl) in {', '.join(map(str, paths))}")
    return found


@dataclass(frozen=True, slots=True)
class _Order:
    """The files, those of one deal together, and the games that are played in them."""

    files: list[Path]
    games: list[Game]

    @staticmethod
    def of(files: Sequence[Path]) -> _Order:
        headers = {path: _peek(path) for path in files}
        setups = {_setup(header): header for header in headers.values() if header is not None}

        def key(path: Path) -> tuple[str, int, list[tuple[str, int]]]:
            header = headers[path]
            if header is None:
                return "", 0, []
            left = [(branch.parent_sha256, branch.ply) for branch in header.branches]
            return _setup(header), header.seed, left

        games = []
        for header in setups.values():
            with suppress(ArenaError):  # Such a replay is named when its turn comes.
                games.append(make_game(header.game, **header.options))
        return _Order(sorted(files, key=key), games)


def _setup(header: Header) -> str:
    return json.dumps([header.game, header.options], sort_keys=True)


def _peek(path: Path) -> Header | None:
    """The first line of what may be a replay; it is read again, and checked, later."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            return read_header(file.readline(LONGEST_HEADER))
    except (OSError, ReplayError):
        return None


def _export(path: Path, exporter: Exporter, exported: Exported, seen: set[bytes]) -> None:
    """One file; whatever is wrong with it stays in it."""
    try:
        digest = _digest(path)
        if digest in seen:
            exported.copies += 1
            return
        seen.add(digest)
        replay = read_replay(path)
        if replay.outcome is None:
            raise ReplayError(replay.notice or "the game is unfinished")
        prepared = exporter.prepare(replay)
    except UsageError:
        raise
    except ArenaError as error:
        exported.skipped.append(Skipped(path, str(error).removeprefix(f"{path}: ")))
        return
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # A forged file may hold what no check has foreseen; it must not take the others with it.
        exported.skipped.append(Skipped(path, f"cannot be exported: {shortened(str(error))}"))
        return
    exporter.write(prepared)
    exported.games += 1


def _digest(path: Path) -> bytes:
    try:
        check_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ReplayError(f"cannot be read: {error.strerror}") from error


def _nothing(exported: Exported, wanted: str) -> str:
    """Why there is no row."""
    number, first = len(exported.skipped), exported.skipped[0]
    if number == 1:
        return f"the file is not {wanted}; {first.path}: {first.reason}"
    return f"none of the {number} files is {wanted}; {'; '.join(reasons(exported.skipped))}"


def reasons(skipped: Sequence[Skipped]) -> list[str]:
    """Why files were left out: for each reason how many, and one of them; the usual one first."""
    found: dict[str, list[Path]] = {}
    for each in skipped:
        found.setdefault(each.reason, []).append(each.path)
    usual = sorted(found.items(), key=lambda item: -len(item[1]))
    told = [f"{len(paths)}: {reason} ({paths[0]})" for reason, paths in usual[:REASONS]]
    rest = sum(len(paths) for _, paths in usual[REASONS:])
    return [*told, f"{rest} for other reasons"] if rest else told


@contextmanager
def _draft(out: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `out` when all is written, and is gone otherwise."""
    draft = out.with_name(f".{out.name}.part")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(out)
    except OSError as error:
        raise ArenaError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink()
