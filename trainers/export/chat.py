"""Conversations as JSON lines, for supervised fine-tuning, in TRL's `messages` format.

A row is a seat's whole chat of one game, with the replies that were corrected and the corrections:
training must show the same context that the model read before a good reply. To teach good play
only, select rows with `failures` 0, `fallbacks` 0 and `won` true. A rebuilt chat starts another
row; with --chat fresh every decision does. TRL trains on all tokens of a row, unless its
`assistant_only_loss` is set. The format has no place for rewards of turns: `parquet` has the values
of single replies.

A column has the same type in all rows, so that `datasets.load_dataset("json", …)` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, ClassVar

from pydantic import JsonValue

from arena.episodes.record import dump
from arena.llm.backend import Message
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import ModelReply, SeatReplies


class ChatExport(Exporter):
    """Exporter with one row per conversation."""

    suffix: ClassVar[str] = "chat.jsonl"

    def __init__(self, file: BinaryIO, reward: str) -> None:
        self._file = file

    def rows(self, seat: SeatReplies) -> Iterator[bytes]:
        facts = seat.facts
        for number, replies in enumerate(conversations(seat.replies)):
            attempts = [reply.attempt for reply in replies]
            fallbacks = (reply.last and bool(reply.ply.decision.failure) for reply in replies)
            # The last request holds the conversation before it; only the last reply is missing.
            messages = (*replies[-1].request, Message("assistant", replies[-1].text))
            row: dict[str, JsonValue] = {
                "messages": [{"role": each.role, "content": each.content} for each in messages],
                **facts,
                "chat": number,
                "model": attempts[-1].model,
                "policy_version": attempts[-1].policy_version,
                "replies": len(replies),
                "failures": sum(attempt.failure is not None for attempt in attempts),
                "fallbacks": sum(fallbacks),
            }
            yield dump(row).encode()

    def write(self, rows: Sequence[bytes]) -> None:
        self._file.write(b"".join(rows))


def conversations(replies: Iterable[ModelReply]) -> Iterator[list[ModelReply]]:
    """Yield the replies of each chat; unanswered requests are left out."""
    current: list[ModelReply] = []
    for reply in replies:
        if not reply.answered:
            continue
        if current and not _continues(current[-1].request, reply.request):
            yield current
            current = []
        current.append(reply)
    if current:
        yield current


def _continues(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return whether a request consists of the previous one, its answer, and more."""
    length = len(before)
    if len(after) <= length or after[length].role != "assistant":
        return False
    return tuple(after[:length]) == tuple(before)
