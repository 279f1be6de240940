"""Conversations as JSON lines, for supervised fine-tuning: TRL's conversational `messages` format.

A row is a seat's whole chat of one game, replies that were corrected and the corrections included:
what a model read before a good reply is what it must read in training. So a row that teaches good
play only is one with `failures` 0, `fallbacks` 0 and `won` true. A chat that was told anew begins
another row; with --chat fresh every decision does. TRL trains on all of a row's tokens, unless its
`assistant_only_loss` is set.

A column has the same type in all rows, so that `datasets.load_dataset("json", …)` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, ClassVar

from arena.core.game import Game
from arena.core.json import Json
from arena.episodes.record import dump
from arena.episodes.replay import Replay
from arena.llm.backend import Message
from trainers.export.reading import Reader, Reply, SeatPlayed


class ChatExport:
    """A row for each conversation."""

    suffix: ClassVar[str] = "chat.jsonl"
    wanted: ClassVar[str] = "a finished game of a model"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = Reader(games, reward)
        self._rows = 0

    def prepare(self, replay: Replay) -> list[bytes]:
        seats = self._reader.seats(replay)
        return [dump(row).encode() for seat in seats for row in chat_rows(seat, self._reader.terms)]

    def write(self, prepared: list[bytes]) -> None:
        self._file.write(b"".join(prepared))
        self._rows += len(prepared)

    def finish(self) -> int:
        return self._rows

    def close(self) -> None:
        """Nothing is held."""

    def notes(self) -> list[str]:
        return []


def chat_rows(seat: SeatPlayed, terms: Sequence[str]) -> Iterator[dict[str, Json]]:
    """The rows of one seat."""
    facts = seat.facts(terms)
    for number, replies in enumerate(conversations(seat.replies)):
        attempts = [reply.attempt for reply in replies]
        yield {
            "messages": [_as_json(message) for message in told(replies)],
            **facts,
            "chat": number,
            "model": attempts[-1].model,
            "policy_version": attempts[-1].policy_version,
            "replies": len(replies),
            "failures": sum(attempt.failure is not None for attempt in attempts),
            "fallbacks": sum(reply.last and bool(reply.ply.decision.failure) for reply in replies),
        }


def told(replies: Sequence[Reply]) -> tuple[Message, ...]:
    """A conversation, up to its last reply."""
    return (*replies[-1].request, Message("assistant", replies[-1].said))


def _as_json(message: Message) -> dict[str, Json]:
    return {"role": message.role, "content": message.content}


def conversations(replies: Iterable[Reply]) -> Iterator[list[Reply]]:
    """Replies that stand in one chat; requests that nobody answered are in none."""
    current: list[Reply] = []
    for reply in replies:
        if not reply.answered:
            continue
        if current and not _goes_on(current[-1].request, reply.request):
            yield current
            current = []
        current.append(reply)
    if current:
        yield current


def _goes_on(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Whether a request is the last one, its answer, and more."""
    length = len(before)
    if len(after) <= length or after[length].role != "assistant":
        return False
    return tuple(after[:length]) == tuple(before)
