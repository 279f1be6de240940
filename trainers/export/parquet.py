"""Model replies as rows of a Parquet file, with tokens and rewards, for offline RL.

Each column is described in the file itself: `pyarrow.parquet.read_schema(FILE)`. The rows of a
game's seat are adjacent, up to the row that is `done`; the rows that are `last` are one for each
decision. The file is written in row groups, so memory does not grow with the number of games.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import BinaryIO, ClassVar

from pydantic import JsonValue

from arena.agents.chat import Attempt
from arena.core.game import Game
from arena.core.version import __version__
from arena.episodes.replay import Replay
from arena.plugins.catalog import require
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import ReplyReader, SeatReplies
from trainers.rewards import information_gains

require("--export parquet", ("pyarrow",), "train")

import pyarrow as pa  # noqa: E402 - after the check that names the extra.
import pyarrow.parquet as pq  # noqa: E402

SCHEMA_VERSION = 2
"""Version of the columns; it changes with any of them."""
ROW_GROUP = 32 * 2**20
"""Bytes, roughly, after which rows are written."""
ROWS = 4096
"""Number of rows after which they are written."""

Row = dict[str, JsonValue]


class ParquetExport(Exporter[list["SeatGains"]]):
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
        if seat_episode.game.analysis.assessor((seat_episode.seat,), ("knowledge",)) is None:
            return cls(replies, None)
        plies = sorted({reply.ply.number for reply in replies.replies})
        # The first gain precedes the first decision, so it belongs to no reply.
        _, *gains = information_gains(seat_episode, plies)
        return cls(replies, dict(zip(plies, gains, strict=True)))


def _rows(seat: SeatGains, terms: Sequence[str]) -> Iterator[Row]:
    facts, replies = seat.replies.facts(terms), seat.replies.replies
    for place, reply in enumerate(replies, start=1):
        ply, attempt, tokens = reply.ply, reply.attempt, reply.attempt.tokens
        gain = None
        if seat.gains is not None:
            # Corrected replies gain nothing: the decision's gain belongs to its last reply.
            gain = seat.gains[ply.number] if reply.last else 0.0
        yield {
            **facts,
            **{name: getattr(attempt, name) for name in _ATTEMPT_COLUMNS},
            "prompt": [{"role": each.role, "content": each.content} for each in reply.request],
            "sampling": json.dumps(attempt.sampling, sort_keys=True),
            "completion_token_ids": [number for number, _, _ in tokens],
            "logprobs": [logprob for _, logprob, _ in tokens],
            "sampled_logprobs": [sampled for _, _, sampled in tokens],
            "ply": ply.number,
            "attempt": reply.number,
            "last": reply.last,
            "done": place == len(replies),
            "action": str(ply.decision.action),
            "fallback": ply.decision.failure,
            "information_gain": gain,
            "judgements": [asdict(each) for each in seat.replies.judgements(reply)],
        }


# The columns


def _column(name: str, kind: pa.DataType, about: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": about})


_MESSAGE = pa.struct(
    [pa.field("role", pa.string(), False), pa.field("content", pa.string(), False)]
)
_JUDGEMENT = pa.struct(
    [pa.field("kind", pa.string(), False), pa.field("value", pa.float64(), False)]
)
_IDS = pa.list_(pa.int32())
_LOGPROBS = pa.list_(pa.float64())
_NUMBER, _COUNT, _TEXT, _FLAG = pa.float64(), pa.int64(), pa.string(), pa.bool_()


_COLUMNS = (
    _column("replay", _TEXT, "The replay file."),
    _column("game", _TEXT, "Name of the game."),
    _column("options", _TEXT, "Options of the game, as JSON."),
    _column("seed", _COUNT, "Seed of the deal; games of one deal are not independent."),
    _column(
        "first_ply",
        _COUNT,
        "First ply of a branch: earlier plies are its parent's; otherwise 0.",
    ),
    _column("text_level", _TEXT, "How much help the texts gave to the players."),
    _column("players", pa.list_(_TEXT), "SPEC of each seat."),
    _column("seat", pa.int32(), "The seat that decides; from 0."),
    _column("spec", _TEXT, "SPEC of this seat."),
    _column("ply", _COUNT, "Number of the decision in the game."),
    _column("attempt", _COUNT, "Number of the request at this decision, from 1."),
    _column("last", _FLAG, "True for the last request at this decision."),
    _column("done", _FLAG, "True for the last request of this seat in the game."),
    _column(
        "prompt", pa.list_(_MESSAGE), "All messages of the request; no text spells a control token."
    ),
    _column("reply", _TEXT, "Answer of the model."),
    _column("reasoning", _TEXT, "Reasoning of the model, if the provider separates it."),
    _column("refusal", _TEXT, "Refusal of the model, if the provider separates it."),
    _column("finish_reason", _TEXT, "stop, length, …"),
    _column("failure", _TEXT, "Why the reply is not a legal action; null: it is.", True),
    _column("excerpt", _TEXT, "Text that shows the failure."),
    _column("action", _TEXT, "Action that was played at this decision."),
    _column("fallback", _TEXT, "Why a fallback was played; null: the action is the model's.", True),
    _column("sampling", _TEXT, "Sampling parameters that are not the default, as JSON."),
    _column("model", _TEXT, "Name of the model, as the provider reports it."),
    _column("policy_version", _COUNT, "Training step of the weights that answered.", True),
    _column("prompt_tokens", _COUNT, "Number of tokens, as the provider counts."),
    _column("completion_tokens", _COUNT, "Number of tokens, as the provider counts."),
    _column("prompt_token_ids", _IDS, "Tokens of the request; empty: not recorded."),
    _column("completion_token_ids", _IDS, "Tokens of the reply; empty: not recorded."),
    _column("logprobs", _LOGPROBS, "Log-probabilities of the reply, without temperature and mask."),
    _column("sampled_logprobs", _LOGPROBS, "Log-probabilities as sampled, with both; or null."),
    _column("cost", _NUMBER, "US dollars; null: unknown.", True),
    _column("cached", _FLAG, "True if the response cache answered."),
    _column("seconds", _NUMBER, "Time until the answer was complete."),
    _column(
        "information_gain",
        _NUMBER,
        "Share of the entropy of the hidden information that was removed between this decision "
        "and the next, by exact knowledge; 0 for a corrected reply; null: not known.",
        True,
    ),
    _column(
        "judgements",
        pa.list_(_JUDGEMENT),
        "Values of this reply by exact knowledge, before means and weights: arena train GAME "
        "--credit judged --dry-run lists the kinds. Empty: not valued.",
    ),
    _column("won", _FLAG, "True if this seat alone has the highest return of the game."),
    _column("return", _NUMBER, "Return of the whole game, in its own unit; the same in all rows."),
    _column("reward", _NUMBER, "Reward of the whole game, by arena.reward; the same in all rows."),
)
"""All columns but `terms`, which depends on the games."""
_ATTEMPT_COLUMNS = [column.name for column in _COLUMNS if column.name in Attempt.model_fields]
"""The columns with the value of the attempt's field of this name."""


def schema(terms: Sequence[str], rewards: Mapping[str, str]) -> pa.Schema:
    """Return the columns with their descriptions, and the versions and rewards as metadata."""
    metadata = {
        "arena.version": __version__,
        "arena.schema_version": str(SCHEMA_VERSION),
        "arena.reward": json.dumps(dict(rewards)),
    }
    each_term = pa.struct([pa.field(name, _NUMBER) for name in terms])
    about = "Each reward term, unweighted; null: the game does not have it."
    return pa.schema([*_COLUMNS, _column("terms", each_term, about)], metadata=metadata)
