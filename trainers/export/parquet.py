"""Model replies as rows of a Parquet file, with tokens and rewards, for offline RL.

Each column is described in the file itself: `pyarrow.parquet.read_schema(FILE)`. The rows of a
game's seat are adjacent, up to the row that is `done`; the rows that are `last` are one for each
decision. The file is written in row groups, so memory does not grow with the number of games.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from pydantic import JsonValue

from arena.core.game import Game
from arena.core.version import __version__
from arena.episodes.replay import Replay
from arena.plugins.extras import require
from trainers.export.seat_replies import ModelReply, ReplyReader, SeatReplies
from trainers.rewards import information_gains

require("--export parquet", ("pyarrow",), "train")

import pyarrow as pa  # noqa: E402 - after the check that names the extra.
import pyarrow.parquet as pq  # noqa: E402

SCHEMA_VERSION = 1
"""Version of the columns; it changes with any of them."""
ROW_GROUP = 32 * 2**20
"""Bytes, roughly, after which rows are written."""
ROWS = 4096
"""Number of rows after which they are written."""

Row = dict[str, JsonValue]


class ParquetExport:
    """Exporter with one row per reply."""

    suffix: ClassVar[str] = "replies.parquet"
    requirement: ClassVar[str] = "a finished game of a model"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = ReplyReader(games, reward)
        self._terms = self._reader.terms
        self._schema = schema(self._terms, self._reader.rewards)
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[Row] = []
        self._pending_bytes = self._rows = 0

    def prepare(self, replay: Replay) -> list[SeatGains]:
        return [SeatGains.of(seat) for seat in self._reader.seats(replay)]

    def write(self, prepared: list[SeatGains]) -> None:
        for seat in prepared:
            for reply, row in zip(seat.replies.replies, _rows(seat, self._terms), strict=True):
                self._pending.append(row)
                self._pending_bytes += reply.size
                if self._pending_bytes >= ROW_GROUP or len(self._pending) >= ROWS:
                    self._flush()

    def finish(self) -> int:
        self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._rows

    def close(self) -> None:
        if self._writer is not None:
            with suppress(OSError):  # The file is given up; its error was raised before.
                self._writer.close()
            self._writer.is_open = False  # Otherwise its destructor would close it again.

    def notes(self) -> list[str]:
        return []

    def _flush(self) -> None:
        if self._pending:
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")
            self._writer.write_table(pa.Table.from_pylist(self._pending, self._schema))
            self._rows += len(self._pending)
            self._pending, self._pending_bytes = [], 0


@dataclass(frozen=True, slots=True)
class SeatGains:
    """The replies of a seat, and the information gain of each of its decisions."""

    replies: SeatReplies
    gains: dict[int, float] | None
    """By ply; None for a game without exact knowledge."""

    @classmethod
    def of(cls, replies: SeatReplies) -> SeatGains:
        """Compute the gains."""
        seat_episode = replies.seat_episode
        if seat_episode.game.assessor((seat_episode.seat,), ("knowledge",)) is None:
            return cls(replies, None)
        plies = sorted({reply.ply.number for reply in replies.replies})
        # The first gain precedes the first decision, so it belongs to no reply.
        _, *gains = information_gains(seat_episode, plies)
        return cls(replies, dict(zip(plies, gains, strict=True)))


def _rows(seat: SeatGains, terms: Sequence[str]) -> Iterator[Row]:
    facts = seat.replies.facts(terms)
    replies = seat.replies.replies
    for place, reply in enumerate(replies, start=1):
        done = place == len(replies)
        yield {
            **facts,
            **_reply_columns(reply),
            **_token_columns(reply),
            **_ply_columns(reply, seat.gains, done),
        }


def _reply_columns(reply: ModelReply) -> Row:
    attempt = reply.attempt
    return {
        "prompt": [{"role": each.role, "content": each.content} for each in reply.request],
        "reply": attempt.reply,
        "reasoning": attempt.reasoning,
        "refusal": attempt.refusal,
        "finish_reason": attempt.finish_reason,
        "failure": attempt.failure,
        "excerpt": attempt.excerpt,
        "sampling": json.dumps(attempt.sampling, sort_keys=True),
        "model": attempt.model,
        "policy_version": attempt.policy_version,
        "prompt_tokens": attempt.prompt_tokens,
        "completion_tokens": attempt.completion_tokens,
        "cost": attempt.cost,
        "cached": attempt.cached,
        "seconds": attempt.seconds,
    }


def _token_columns(reply: ModelReply) -> Row:
    tokens = reply.attempt.tokens
    return {
        "prompt_token_ids": list(reply.attempt.prompt_token_ids),
        "completion_token_ids": [number for number, _, _ in tokens],
        "logprobs": [logprob for _, logprob, _ in tokens],
        "sampled_logprobs": [sampled for _, _, sampled in tokens],
    }


def _ply_columns(reply: ModelReply, gains: Mapping[int, float] | None, done: bool) -> Row:
    ply, gain = reply.ply, None
    if gains is not None:
        # Corrected replies gain nothing: the decision's gain belongs to its last reply.
        gain = gains[ply.number] if reply.last else 0.0
    return {
        "ply": ply.number,
        "attempt": reply.number,
        "last": reply.last,
        "done": done,
        "action": str(ply.decision.action),
        "fallback": ply.decision.failure,
        "information_gain": gain,
    }


# The columns


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: pa.DataType
    about: str
    nullable: bool = False

    def field(self) -> pa.Field:
        metadata = {"description": self.about}
        return pa.field(self.name, self.type, nullable=self.nullable, metadata=metadata)


_MESSAGE = pa.struct(
    [pa.field("role", pa.string(), False), pa.field("content", pa.string(), False)]
)
_IDS = pa.list_(pa.int32())
_LOGPROBS = pa.list_(pa.float64())
_NUMBER, _COUNT, _TEXT, _FLAG = pa.float64(), pa.int64(), pa.string(), pa.bool_()


_COLUMNS = (
    _Column("replay", _TEXT, "The replay file."),
    _Column("game", _TEXT, "Name of the game."),
    _Column("options", _TEXT, "Options of the game, as JSON."),
    _Column("seed", _COUNT, "Seed of the deal; games of one deal are not independent."),
    _Column(
        "first_ply",
        _COUNT,
        "First ply of a branch: earlier plies are its parent's; otherwise 0.",
    ),
    _Column("text_level", _TEXT, "How much help the texts gave to the players."),
    _Column("players", pa.list_(_TEXT), "SPEC of each seat."),
    _Column("seat", pa.int32(), "The seat that decides; from 0."),
    _Column("spec", _TEXT, "SPEC of this seat."),
    _Column("ply", _COUNT, "Number of the decision in the game."),
    _Column("attempt", _COUNT, "Number of the request at this decision, from 1."),
    _Column("last", _FLAG, "True for the last request at this decision."),
    _Column("done", _FLAG, "True for the last request of this seat in the game."),
    _Column("prompt", pa.list_(_MESSAGE), "All messages of the request, as they were sent."),
    _Column("reply", _TEXT, "Answer of the model."),
    _Column("reasoning", _TEXT, "Reasoning of the model, if the provider separates it."),
    _Column("refusal", _TEXT, "Refusal of the model, if the provider separates it."),
    _Column("finish_reason", _TEXT, "stop, length, …"),
    _Column("failure", _TEXT, "Why the reply is not a legal action; null: it is.", True),
    _Column("excerpt", _TEXT, "Text that shows the failure."),
    _Column("action", _TEXT, "Action that was played at this decision."),
    _Column("fallback", _TEXT, "Why a fallback was played; null: the action is the model's.", True),
    _Column("sampling", _TEXT, "Sampling parameters that are not the default, as JSON."),
    _Column("model", _TEXT, "Name of the model, as the provider reports it."),
    _Column("policy_version", _COUNT, "Training step of the weights that answered.", True),
    _Column("prompt_tokens", _COUNT, "Number of tokens, as the provider counts."),
    _Column("completion_tokens", _COUNT, "Number of tokens, as the provider counts."),
    _Column("prompt_token_ids", _IDS, "Tokens of the request; empty: not recorded."),
    _Column("completion_token_ids", _IDS, "Tokens of the reply; empty: not recorded."),
    _Column("logprobs", _LOGPROBS, "Log-probabilities of the reply, without temperature and mask."),
    _Column("sampled_logprobs", _LOGPROBS, "Log-probabilities as sampled, with both; or null."),
    _Column("cost", _NUMBER, "US dollars; null: unknown.", True),
    _Column("cached", _FLAG, "True if the response cache answered."),
    _Column("seconds", _NUMBER, "Time until the answer was complete."),
    _Column(
        "information_gain",
        _NUMBER,
        "Share of the entropy of the hidden information that was removed between this decision "
        "and the next, by exact knowledge; 0 for a corrected reply; null: not known.",
        True,
    ),
    _Column("won", _FLAG, "True if this seat alone has the highest return of the game."),
    _Column("return", _NUMBER, "Return of the whole game, in its own unit; the same in all rows."),
    _Column("reward", _NUMBER, "Reward of the whole game, by arena.reward; the same in all rows."),
)
"""All columns but `terms`, which depends on the games."""


def schema(terms: Sequence[str], rewards: Mapping[str, str]) -> pa.Schema:
    """Return the columns with their descriptions, and the versions and rewards as metadata."""
    metadata = {
        "arena.version": __version__,
        "arena.schema_version": str(SCHEMA_VERSION),
        "arena.reward": json.dumps(dict(rewards)),
    }
    each_term = pa.struct([pa.field(name, _NUMBER) for name in terms])
    about = "Each reward term, unweighted; null: the game does not have it."
    columns = (*_COLUMNS, _Column("terms", each_term, about))
    return pa.schema([column.field() for column in columns], metadata=metadata)
