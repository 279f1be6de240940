"""A row for each reply of a model, with tokens and rewards, for offline RL.

Each column is described in the file itself: `pyarrow.parquet.read_schema(FILE)`. The rows of a
game's seat follow each other, up to the one that is `done`; those that are `last` are one for each
decision. The file is written in row groups, so memory does not grow with the number of games.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from arena.core.game import Game
from arena.core.json import Json
from arena.core.version import __version__
from arena.episodes.replay import Replay
from arena.plugins.extras import require
from trainers.export.reading import Reader, Reply, SeatPlayed
from trainers.rewards import Rollout, information_gains

require("--export parquet", ("pyarrow",), "train")

import pyarrow as pa  # noqa: E402 - whether it is there is looked at before.
import pyarrow.parquet as pq  # noqa: E402

SCHEMA_VERSION = 1
"""Of the columns; a reader that knows this number knows them all."""
ROW_GROUP = 32 * 2**20
"""Roughly the bytes that wait to be written."""
ROWS = 4096
"""The most rows that do."""


class ParquetExport:
    """A row for each reply."""

    suffix: ClassVar[str] = "replies.parquet"
    wanted: ClassVar[str] = "a finished game of a model"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = Reader(games, reward)
        self._terms = self._reader.terms
        self._schema = schema(self._terms, self._reader.rewards)
        self._table: pq.ParquetWriter | None = None
        self._waiting: list[dict[str, Json]] = []
        self._bytes = self._rows = 0

    def prepare(self, replay: Replay) -> list[Gained]:
        return [_gained(seat) for seat in self._reader.seats(replay)]

    def write(self, prepared: list[Gained]) -> None:
        for gained in prepared:
            for reply, row in zip(gained.seat.replies, _rows(gained, self._terms), strict=True):
                self._waiting.append(row)
                self._bytes += reply.size
                if self._bytes >= ROW_GROUP or len(self._waiting) >= ROWS:
                    self._flush()

    def finish(self) -> int:
        self._flush()
        if self._table is not None:
            self._table.close()
        return self._rows

    def close(self) -> None:
        if self._table is not None:
            with suppress(OSError):  # The file is given up, and why has been said.
                self._table.close()
            self._table.is_open = False  # Else it would try again when it is collected.

    def notes(self) -> list[str]:
        return []

    def _flush(self) -> None:
        if self._waiting:
            if self._table is None:
                self._table = pq.ParquetWriter(self._file, self._schema, compression="zstd")
            self._table.write_table(pa.Table.from_pylist(self._waiting, self._schema))
            self._rows += len(self._waiting)
            self._waiting, self._bytes = [], 0


@dataclass(frozen=True, slots=True)
class Gained:
    """A seat, and what each of its decisions brought to light."""

    seat: SeatPlayed
    information: dict[int, float] | None
    """By ply; None for a game without exact knowledge."""


def _gained(seat: SeatPlayed) -> Gained:
    plies = sorted({reply.ply.number for reply in seat.replies})
    if not _has_knowledge(seat.rollout):
        return Gained(seat, None)
    _, *gains = information_gains(seat.rollout, plies)
    return Gained(seat, dict(zip(plies, gains, strict=True)))


def _has_knowledge(rollout: Rollout) -> bool:
    return rollout.game.assessor((rollout.seat,), ("knowledge",)) is not None


def _rows(gained: Gained, terms: Sequence[str]) -> Iterator[dict[str, Json]]:
    facts = gained.seat.facts(terms)
    for place, reply in enumerate(gained.seat.replies, start=1):
        done = place == len(gained.seat.replies)
        yield {**facts, **_of_reply(reply), **_of_tokens(reply), **_of_ply(reply, gained, done)}


def _of_reply(reply: Reply) -> dict[str, Json]:
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


def _of_tokens(reply: Reply) -> dict[str, Json]:
    tokens = reply.attempt.tokens
    return {
        "prompt_token_ids": reply.attempt.prompt_token_ids,
        "completion_token_ids": [number for number, _, _ in tokens],
        "logprobs": [logprob for _, logprob, _ in tokens],
        "sampled_logprobs": [sampled for _, _, sampled in tokens],
    }


def _of_ply(reply: Reply, gained: Gained, done: bool) -> dict[str, Json]:
    ply, information = reply.ply, gained.information
    gain = information and (information[ply.number] if reply.last else 0.0)
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


def _columns(terms: Sequence[str]) -> list[_Column]:
    each_term = pa.struct([pa.field(name, _NUMBER) for name in terms])
    return [
        _Column("replay", _TEXT, "The file that this was read from."),
        _Column("game", _TEXT, "Name of the game."),
        _Column("options", _TEXT, "Options of the game, as JSON."),
        _Column("seed", _COUNT, "Of the deal; games of one deal are not independent."),
        _Column("first_ply", _COUNT, "Of a branch: plies before it are in its parent; else 0."),
        _Column("text_level", _TEXT, "How much help the texts gave."),
        _Column("players", pa.list_(_TEXT), "SPEC of each seat."),
        _Column("seat", pa.int32(), "Who decides; from 0."),
        _Column("spec", _TEXT, "SPEC of this seat."),
        _Column("ply", _COUNT, "Number of the decision in the game."),
        _Column("attempt", _COUNT, "Number of the request at this decision, from 1."),
        _Column("last", _FLAG, "Whether it was the last one at this decision."),
        _Column("done", _FLAG, "Whether it was the last one of this seat in the game."),
        _Column("prompt", pa.list_(_MESSAGE), "All messages of the request, as it was sent."),
        _Column("reply", _TEXT, "What the model answered."),
        _Column("reasoning", _TEXT, "What it thought, where the provider tells it apart."),
        _Column("refusal", _TEXT, "Why it would not answer, where it says so."),
        _Column("finish_reason", _TEXT, "stop, length, …"),
        _Column("failure", _TEXT, "Why the reply is no legal action; null: it is one.", True),
        _Column("excerpt", _TEXT, "Where the failure is seen."),
        _Column("action", _TEXT, "What was played at this decision."),
        _Column("fallback", _TEXT, "Why the action is not the model's; null: it is.", True),
        _Column("sampling", _TEXT, "Parameters that are not the default, as JSON."),
        _Column("model", _TEXT, "Who answered, by the provider's name."),
        _Column("policy_version", _COUNT, "Training step of its weights.", True),
        _Column("prompt_tokens", _COUNT, "As the provider counts."),
        _Column("completion_tokens", _COUNT, "As the provider counts."),
        _Column("prompt_token_ids", _IDS, "What the model read; empty: not recorded."),
        _Column("completion_token_ids", _IDS, "What it wrote; empty: not recorded."),
        _Column("logprobs", _LOGPROBS, "Of these: the model's own, no temperature, no mask."),
        _Column("sampled_logprobs", _LOGPROBS, "As sampled, with temperature and mask; or null."),
        _Column("cost", _NUMBER, "US dollars; null: unknown.", True),
        _Column("cached", _FLAG, "Whether the response cache answered."),
        _Column("seconds", _NUMBER, "Until the answer was there."),
        _Column(
            "information_gain",
            _NUMBER,
            "Share of the entropy of what the game hides that went away from this decision to the "
            "next, by exact knowledge; 0 where the reply was corrected; null: not known.",
            True,
        ),
        _Column("won", _FLAG, "Whether this seat alone has the highest return of the game."),
        _Column("return", _NUMBER, "Of the whole game, in its own unit; the same in all rows."),
        _Column("reward", _NUMBER, "Of the whole game, by arena.reward; the same in all rows."),
        _Column("terms", each_term, "Each reward term, unweighted; null: not of this game."),
    ]


def schema(terms: Sequence[str], rewards: Mapping[str, str]) -> pa.Schema:
    """The columns, with what they mean, and by what they were written."""
    metadata = {
        "arena.core.version": __version__,
        "arena.schema_version": str(SCHEMA_VERSION),
        "arena.reward": json.dumps(dict(rewards)),
    }
    return pa.schema([column.field() for column in _columns(terms)], metadata=metadata)
