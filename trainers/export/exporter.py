"""Export of finished games to one file for other tools, and the format `chat`.

Replays are read one after the other. Files that are not a finished game of a model are reported and
left out. The file is complete or not written at all.

A row of `chat` is a seat's whole chat of one game as a JSON line, in TRL's `messages` format, with
the replies that were corrected and the corrections: training must show the same context that the
model read before a good reply. To teach good play only, select rows with `failures` 0, `fallbacks`
0 and `won` true. A rebuilt or shortened chat starts another row; with --chat fresh every decision
does. A row of a shortened chat begins with replies of the row before: `replies` counts its own, the
last ones, and `turn_rewards` has the judged reward of each of these, in order. TRL trains on all
tokens of a row, unless its `assistant_only_loss` is set. A column has the same type in all rows, so
that `datasets.load_dataset("json", …)` reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from arena.core.errors import ArenaError, ReplayError, UsageError
from arena.core.text import shorten
from arena.episodes.files import open_draft, sha256
from arena.episodes.record import dump
from arena.episodes.replay import check_regular, read_replay
from arena.evaluation.analysis import SkippedFile, find_files
from arena.llm.backend import Message
from trainers.export.seat_replies import ModelReply, ReplyReader, Row, SeatReplies

MAX_REASONS = 4
"""Reasons that an error lists if nothing can be exported; the others are counted."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format of the file."""

    suffix: str
    """End of the file's name: `chat.jsonl`."""
    rows: Callable[[SeatReplies], Iterable[Row]]
    """Make the rows of one seat of a finished game: everything that can fail for a game."""
    write: Callable[[BinaryIO, Iterable[Row], str], None]
    """Write rows; the last argument is --reward. Raises OSError."""


def export_format(name: str) -> ExportFormat:
    """Return the format of this name. Raises UsageError for an unknown one."""
    match name:
        case "chat":
            return ExportFormat("chat.jsonl", chat_rows, write_lines)
        case "parquet":
            from trainers.export.parquet import reply_rows, write_parquet  # Imports pyarrow.

            return ExportFormat("replies.parquet", reply_rows, write_parquet)
    raise UsageError(f"there is no export '{name}'; choose chat or parquet")


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
    form: ExportFormat,
    reward: str = "",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ExportResult:
    """Write all replays in `paths`, files or folders, to `out`, which is replaced at the end.

    An empty reward is each game's own. `on_progress` is called after each file with the number of
    files done and their total.

    Raises:
        UsageError: a path or an option is wrong.
        ArenaError: no file is a finished game of a model, or `out` cannot be written. In all these
            cases an older file `out` is unchanged.
    """
    files = _input_files(paths, out)
    result, digests, reader = ExportResult(out), set[str](), ReplyReader(reward)

    def rows() -> Iterator[Row]:
        for number, path in enumerate(files, start=1):
            yield from _game_rows(path, reader, form, result, digests)
            on_progress(number, len(files))

    with open_draft(out) as draft:
        form.write(draft, rows(), reward)
        if not result.games:
            reasons = "; ".join(summarise_reasons(result.skipped))
            raise ArenaError(f"no file is a finished game of a model; {reasons}")
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


def _game_rows(
    path: Path, reader: ReplyReader, form: ExportFormat, result: ExportResult, digests: set[str]
) -> list[Row]:
    """Return the rows of one file, counted in `result`. A fault in it only affects this file."""
    try:
        check_regular(path)
        digest = sha256(path)
        if digest in digests:
            result.copies += 1
            return []
        digests.add(digest)
        replay = read_replay(path)
        if replay.outcome is None:
            raise ReplayError(replay.notice or "the game is unfinished")
        rows = [row for seat in reader.seats(replay) for row in form.rows(seat)]
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
        result.games += 1
        result.rows += len(rows)
        return rows
    result.skipped.append(SkippedFile(path, reason))
    return []


def summarise_reasons(skipped: Sequence[SkippedFile]) -> list[str]:
    """Return each reason with the number of files and one example; the most frequent first."""
    by_reason = defaultdict[str, list[Path]](list)
    for file in skipped:
        by_reason[file.reason].append(file.path)
    frequent = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    lines = [f"{len(paths)}: {reason} ({paths[0]})" for reason, paths in frequent[:MAX_REASONS]]
    others = sum(len(paths) for _, paths in frequent[MAX_REASONS:])
    return [*lines, f"{others} for other reasons"] if others else lines


# The format `chat`


def chat_rows(seat: SeatReplies) -> Iterator[Row]:
    """Yield a row for each conversation of a seat."""
    for number, replies in enumerate(conversations(seat.replies)):
        attempts = [reply.attempt for reply in replies]
        # The last request holds the conversation before it; only the last reply is missing.
        messages = (*replies[-1].request, Message("assistant", replies[-1].text))
        yield {
            "messages": [{"role": each.role, "content": each.content} for each in messages],
            **seat.facts,
            "chat": number,
            "model": attempts[-1].model,
            "policy_version": attempts[-1].policy_version,
            "replies": len(replies),
            "turn_rewards": [seat.turn_reward(reply) for reply in replies],
            "failures": sum(attempt.failure is not None for attempt in attempts),
            "fallbacks": sum(each.last and bool(each.ply.decision.failure) for each in replies),
        }


def conversations(replies: Iterable[ModelReply]) -> Iterator[list[ModelReply]]:
    """Yield the replies of each chat; unanswered requests are left out."""
    current: list[ModelReply] = []
    for reply in (each for each in replies if each.answered):
        # A chat goes on if the request holds the one before it, its answer, and more.
        length = len(current[-1].request) if current else 0
        goes_on = (
            len(reply.request) > length > 0
            and reply.request[length].role == "assistant"
            and reply.request[:length] == current[-1].request
        )
        if current and not goes_on:
            yield current
            current = []
        current.append(reply)
    if current:
        yield current


def write_lines(file: BinaryIO, rows: Iterable[Row], reward: str) -> None:
    """Write rows as JSON lines."""
    file.writelines(dump(row).encode() for row in rows)
