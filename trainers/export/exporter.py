"""Export of finished games to one file for other tools.

Replays are read one after the other. Files that are not a finished game of a model are reported and
left out. The file is complete or not written at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol

from arena.core.errors import ArenaError, ReplayError, UsageError
from arena.core.text import shorten
from arena.episodes.files import open_draft
from arena.episodes.job import sha256
from arena.episodes.replay import check_regular, read_replay
from arena.evaluation.analysis import SkippedFile, find_files
from trainers.export.seat_replies import ReplyReader, SeatReplies

MAX_REASONS = 4
"""Reasons that an error lists if nothing can be exported; the others are counted."""


class Exporter(Protocol):
    """Writes rows to an open file in one format. One exporter is made for each file."""

    suffix: ClassVar[str]
    """End of the file's name: `chat.jsonl`."""

    def __init__(self, file: BinaryIO, reward: str) -> None:
        """Start a file; an empty reward is each game's own."""

    def rows(self, seat: SeatReplies) -> Iterable[Any]:
        """Make the rows of one seat of a finished game: everything that can fail for a game."""

    def write(self, rows: Sequence[Any]) -> None:
        """Write rows, or keep them for `finish`. Raises OSError only."""

    def finish(self) -> None:
        """Write the remaining rows."""

    def close(self) -> None:
        """Release what the exporter holds, finished or not. Called in any case."""


@dataclass(slots=True)
class ExportResult:
    """Counts of an export, and the files that were left out."""

    file: Path
    rows: int = 0
    games: int = 0
    copies: int = 0
    """Files with the same bytes as another one, which count once."""
    skipped: list[SkippedFile] = field(default_factory=list)


def export_replays(
    paths: Sequence[Path],
    out: Path,
    make: type[Exporter],
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
    files = _input_files(paths, out)
    result, digests = ExportResult(out), set[str]()
    reader = ReplyReader(reward)
    with open_draft(out) as draft, closing(make(draft, reward)) as exporter:
        for number, path in enumerate(files, start=1):
            _export(path, reader, exporter, result, digests)
            on_progress(number, len(files))
        if not result.games:
            reasons = "; ".join(summarise_reasons(result.skipped))
            raise UsageError(f"no file is a finished game of a model; {reasons}")
        exporter.finish()
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


def _export(
    path: Path, reader: ReplyReader, exporter: Exporter, result: ExportResult, digests: set[str]
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
        rows = [row for seat in reader.seats(replay) for row in exporter.rows(seat)]
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
        exporter.write(rows)
        result.games += 1
        result.rows += len(rows)
        return
    result.skipped.append(SkippedFile(path, reason))


def summarise_reasons(skipped: Sequence[SkippedFile]) -> list[str]:
    """Return each reason with the number of files and one example; the most frequent first."""
    by_reason = defaultdict[str, list[Path]](list)
    for file in skipped:
        by_reason[file.reason].append(file.path)
    frequent = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    lines = [f"{len(paths)}: {reason} ({paths[0]})" for reason, paths in frequent[:MAX_REASONS]]
    others = sum(len(paths) for _, paths in frequent[MAX_REASONS:])
    return [*lines, f"{others} for other reasons"] if others else lines
