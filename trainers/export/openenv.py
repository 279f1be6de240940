"""OpenEnv's `TrainingTrace`, schema version 1 (openenv 0.10.0): one JSON line per seat of a game.

    from openenv.core.harness.training import TrainingTrace

    for line in open("replays-openenv.jsonl"):
        trace = TrainingTrace.model_validate_json(line)

A turn is one reply of the model with the tokens that were read and sampled; all sampled tokens
count for the loss. The schema has no place for the reward, so each turn's `metadata` holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, ClassVar

from pydantic import JsonValue

from arena.core.errors import ReplayError
from arena.core.game import Game
from arena.episodes.record import dump
from arena.episodes.replay import Replay
from trainers.export.deal_groups import NO_TOKENS, has_tokens
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import ReplyReader, SeatReplies
from trainers.rollouts.attempts import sampling_logprob

SCHEMA_VERSION = 1


class OpenEnvExport(Exporter[list[bytes]]):
    """Exporter with one line per seat of a model."""

    suffix: ClassVar[str] = "openenv.jsonl"
    requirement: ClassVar[str] = "a finished game that can be trained on"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = ReplyReader(games, reward)
        self._rows = 0

    def prepare(self, replay: Replay) -> list[bytes]:
        seats = [seat for seat in self._reader.seats(replay) if has_tokens(seat)]
        if not seats:
            raise ReplayError(f"{replay.path}: {NO_TOKENS}")
        return [dump(training_trace(seat, self._reader.terms)).encode() for seat in seats]

    def write(self, prepared: list[bytes]) -> None:
        self._file.write(b"".join(prepared))
        self._rows += len(prepared)

    def finish(self) -> int:
        return self._rows


def training_trace(seat: SeatReplies, terms: Sequence[str]) -> dict[str, JsonValue]:
    """Return the trace of a seat."""
    return {"schema_version": SCHEMA_VERSION, "turns": [*_turns(seat, terms)]}


def _turns(seat: SeatReplies, terms: Sequence[str]) -> Iterator[JsonValue]:
    facts = seat.facts(terms)
    for reply in seat.replies:
        attempt = reply.attempt
        if not attempt.tokens or not attempt.prompt_token_ids:
            continue
        prompt, sampled = attempt.prompt_token_ids, attempt.tokens
        messages: list[JsonValue] = [
            {"role": each.role, "content": each.content} for each in reply.request
        ]
        mask: list[JsonValue] = [*[0] * len(prompt), *[1] * len(sampled)]
        yield {
            "node_id": f"{reply.ply.number}/{reply.number}",
            "prompt_token_ids": [*prompt],
            "completion_token_ids": [number for number, _, _ in sampled],
            # OpenEnv refuses values above 0, which rounding may give to a certain token.
            "per_token_logps": [
                min(0.0, sampling_logprob(logprob, drawn)) for _, logprob, drawn in sampled
            ],
            "loss_mask": mask,
            "request": {"messages": messages, "sampling": attempt.sampling},
            "response": {
                "content": attempt.reply,
                "reasoning": attempt.reasoning,
                "finish_reason": attempt.finish_reason,
                "model": attempt.model,
            },
            "metadata": {
                **facts,
                "ply": reply.ply.number,
                "attempt": reply.number,
                "action": str(reply.ply.decision.action),
                "failure": attempt.failure,
                "policy_version": attempt.policy_version,
            },
        }
