"""Export of finished games to one file for other tools.

A format is a name of the catalog's kind `export`. Replays are read one after the other, those of a
deal together. Files that are not a finished game of a model are reported and left out. The file is
complete or not written at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol, TypeVar

from arena.core.errors import ArenaError, ReplayError, UsageError
from arena.core.game import Game
from arena.core.text import shorten
from arena.episodes.files import open_draft
from arena.episodes.job import sha256
from arena.episodes.record import Header
from arena.episodes.replay import Replay, check_regular, read_header, read_replay
from arena.evaluation.analysis import SkippedFile, find_files
from arena.plugins.loader import make_game
from trainers.export.seat_replies import GameSetup, StartPosition

MAX_REASONS = 4
"""Reasons that an error lists if nothing can be exported; the others are counted."""
LONGEST_HEADER = 1 << 20
"""Bytes. A file whose first line is longer is not a replay, and the line is not kept in memory."""

Prepared = TypeVar("Prepared")


class Exporter(Protocol[Prepared]):
    """Writes games to an open file in one format. One exporter is made for each file."""

    suffix: ClassVar[str]
    """End of the file's name: `chat.jsonl`."""
    requirement: ClassVar[str]
    """The kind of replay that can be exported, in words: `a finished game of a model`."""

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        """Start a file for replays of these games; an empty reward is each game's own.

        Raises UsageError if none of the games has this reward.
        """

    def prepare(self, replay: Replay) -> Prepared:
        """Do everything that can fail for a finished game, without writing.

        Raises:
            ReplayError: the game is left out.
            UsageError: the game does not have the reward.
        """

    def write(self, prepared: Prepared) -> None:
        """Write a prepared game, or keep it for `finish`. Raises OSError only.

        Games of one deal come one after the other, and so do branches of one position.
        """

    def finish(self) -> int:
        """Write the remaining data; return the number of rows in the file."""

    def close(self) -> None:
        """Release what the exporter holds, finished or not. Called in any case."""

    def notes(self) -> list[str]:
        """Return remarks for the user of the file."""
        return []


@dataclass(slots=True)
class ExportResult:
    """Counts of an export, and the files that were left out."""

    file: Path
    rows: int = 0
    games: int = 0
    copies: int = 0
    """Files with the same bytes as another one, which count once."""
    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def export_replays(
    paths: Sequence[Path],
    out: Path,
    make: type[Exporter[Prepared]],
    reward: str = "",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ExportResult:
    """Write all replays in `paths`, files or folders, to `out`, which is replaced at the end.

    `make` is the format; an empty reward is each game's own. `on_progress` is called after each
    file with the number of files done and their total.

    Raises:
        UsageError: no replay can be exported.
        ArenaError: the file cannot be written. In both cases an older file `out` is unchanged.
    """
    files, games = _in_order(_input_files(paths, out))
    result, digests = ExportResult(out), set[str]()
    with open_draft(out) as draft, closing(make(draft, games, reward)) as exporter:
        for number, path in enumerate(files, start=1):
            _export(path, exporter, result, digests)
            on_progress(number, len(files))
        if not result.games:
            raise UsageError(_nothing_exported(result.skipped, make.requirement))
        result.rows = exporter.finish()
    result.notes = exporter.notes()
    return result


def _input_files(paths: Sequence[Path], out: Path) -> list[Path]:
    """Return the replays, without an earlier export among them. Raises UsageError."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: no file can be written there")
    target = out.resolve()
    if any(path.resolve() == target for path in paths):
        raise UsageError(f"--out {out} is the replay itself: choose another name")
    files = [path for path in find_files(paths) if path.resolve() != target]
    if not files:
        raise UsageError(f"no replays (*.jsonl) in {', '.join(map(str, paths))}")
    return files


def _in_order(files: Sequence[Path]) -> tuple[list[Path], list[Game]]:
    """Return the files, those of one deal together, and the games in them."""
    headers = {path: header for path in files if (header := _read_first_line(path))}
    setups = {GameSetup.of(header): header for header in headers.values()}
    games = []
    for header in setups.values():
        with suppress(ArenaError):  # The replay is reported when it is read.
            games.append(make_game(header.game, **header.options))
    starts = {path: StartPosition.of(header) for path, header in headers.items()}
    nowhere = StartPosition("", "", 0, ())
    return sorted(files, key=lambda path: starts.get(path, nowhere)), games


def _read_first_line(path: Path) -> Header | None:
    """Return the header if the file seems to be a replay; the whole file is checked later."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            return read_header(file.readline(LONGEST_HEADER))
    except (OSError, ReplayError):
        return None


def _export(
    path: Path, exporter: Exporter[Prepared], result: ExportResult, digests: set[str]
) -> None:
    """Export one file. A fault in it only affects this file."""
    try:
        check_regular(path)
        digest = sha256(path)
        if digest in digests:
            result.copies += 1
            return
        digests.add(digest)
        replay = read_replay(path)
        if replay.outcome is None:
            raise ReplayError(replay.notice or "the game is unfinished")
        prepared = exporter.prepare(replay)
    except UsageError:
        raise
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except ArenaError as error:
        reason = str(error).removeprefix(f"{path}: ")
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # A forged file may hold values that no check foresees.
        reason = f"cannot be exported: {shorten(str(error))}"
    else:
        exporter.write(prepared)
        result.games += 1
        return
    result.skipped.append(SkippedFile(path, reason))


def _nothing_exported(skipped: Sequence[SkippedFile], requirement: str) -> str:
    """Return the error message for an export without rows."""
    if len(skipped) == 1:
        return f"the file is not {requirement}; {skipped[0].path}: {skipped[0].reason}"
    reasons = "; ".join(summarise_reasons(skipped))
    return f"none of the {len(skipped)} files is {requirement}; {reasons}"


def summarise_reasons(skipped: Sequence[SkippedFile]) -> list[str]:
    """Return each reason with the number of files and one example; the most frequent first."""
    by_reason: dict[str, list[Path]] = {}
    for file in skipped:
        by_reason.setdefault(file.reason, []).append(file.path)
    frequent = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    lines = [f"{len(paths)}: {reason} ({paths[0]})" for reason, paths in frequent[:MAX_REASONS]]
    others = sum(len(paths) for _, paths in frequent[MAX_REASONS:])
    return [*lines, f"{others} for other reasons"] if others else lines
