"""Model replies as rows of a Parquet file, with tokens and rewards, for offline RL.

Each column is described in the file itself: `pyarrow.parquet.read_schema(FILE)`. The rows of a
game's seat are adjacent, up to the row that is `done`; the rows that are `last` are one for each
decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import BinaryIO

from arena.agents.chat import Attempt
from arena.core.version import __version__
from arena.plugins.catalog import require
from trainers.export.seat_replies import Row, SeatReplies, reward_terms

require("--format parquet", ("pyarrow",), "train")

import pyarrow as pa  # noqa: E402 - after the check that names the extra.
import pyarrow.parquet as pq  # noqa: E402

SCHEMA_VERSION = 5
"""Version of the columns; it changes with any of them."""
ROWS = 1024
"""Number of rows that are written at once."""


def reply_rows(seat: SeatReplies) -> Iterator[Row]:
    """Yield a row for each reply of a seat."""
    facts = seat.facts
    for place, reply in enumerate(seat.replies, start=1):
        ply, attempt, tokens = reply.ply, reply.attempt, reply.attempt.tokens
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
            "done": place == len(seat.replies),
            "action": str(ply.decision.action),
            "fallback": ply.decision.failure,
            "judgements": [asdict(each) for each in seat.judgements(reply)],
            "turn_reward": seat.turn_reward(reply),
        }


def write_parquet(file: BinaryIO, rows: Iterable[Row], reward: str) -> None:
    """Write rows in groups, so that memory does not grow with the number of games."""
    columns, left = schema(reward), iter(rows)
    writer = pq.ParquetWriter(file, columns, compression="zstd")
    try:
        while group := [*islice(left, ROWS)]:
            writer.write_table(pa.Table.from_pylist(group, columns))
        writer.close()
    finally:
        writer.is_open = False  # Otherwise its destructor would close a broken file again.


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
    _column("first_ply", _COUNT, "First ply of a branch: earlier plies are its parent's; or 0."),
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
    _column("seconds", _NUMBER, "Time until the answer was complete."),
    _column(
        "judgements",
        pa.list_(_JUDGEMENT),
        "Values of this reply by exact knowledge, before means and weights: arena train GAME "
        "--credit judged --dry-run lists the kinds. Empty: not valued.",
    ),
    _column(
        "turn_reward",
        _NUMBER,
        "Judged reward of this reply: its judgements by their weights in arena train --credit "
        "judged, without baselines; 0 for a reply that is not valued.",
    ),
    _column("won", _FLAG, "True if this seat alone has the highest return of the game."),
    _column("return", _NUMBER, "Return of the whole game, in its own unit; the same in all rows."),
    _column("reward", _NUMBER, "Reward of the whole game, by arena.reward; the same in all rows."),
)
"""All columns but `terms`, which depends on the games."""
_ATTEMPT_COLUMNS = [column.name for column in _COLUMNS if column.name in Attempt.model_fields]
"""The columns with the value of the attempt's field of this name."""


def schema(reward: str) -> pa.Schema:
    """Return the columns with their descriptions, and the versions and --reward as metadata."""
    metadata = {
        "arena.version": __version__,
        "arena.schema_version": str(SCHEMA_VERSION),
        "arena.reward": reward,
    }
    each_term = pa.struct([pa.field(name, _NUMBER) for name in reward_terms()])
    about = "Each reward term, unweighted; null: it is no part of the reward of this game."
    return pa.schema([*_COLUMNS, _column("terms", each_term, about)], metadata=metadata)
