"""JSON lines: conversations for supervised fine-tuning, and OpenEnv's traces.

`chat` is TRL's `messages` format. A row is a seat's whole chat of one game, with the replies that
were corrected and the corrections: training must show the same context that the model read before
a good reply. To teach good play only, select rows with `failures` 0, `fallbacks` 0 and `won` true.
A rebuilt chat starts another row; with --chat fresh every decision does. TRL trains on all tokens
of a row, unless its `assistant_only_loss` is set. The format has no place for rewards of turns:
`parquet` and `openenv` have the values of single replies.

A column has the same type in all rows, so that `datasets.load_dataset("json", …)` reads them.

`openenv` is OpenEnv's `TrainingTrace`, schema version 1 (openenv 0.10.0), a line per seat:

    from openenv.core.harness.training import TrainingTrace

    for line in open("replays-openenv.jsonl"):
        trace = TrainingTrace.model_validate_json(line)

A turn is one reply of the model with the tokens that were read and sampled; all sampled tokens
count for the loss. The schema has no place for the reward, so each turn's `metadata` holds it, and
the values of the reply by exact knowledge (`judgements`), if the game values decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import BinaryIO, ClassVar

from pydantic import JsonValue

from arena.core.errors import ReplayError
from arena.core.game import Game
from arena.episodes.record import dump
from arena.episodes.replay import Replay
from arena.llm.backend import Message
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import ModelReply, ReplyReader, SeatReplies
from trainers.rollouts.trajectories import sampling_logprob


class LinesExport(Exporter[list[bytes]]):
    """Base of the exporters that write a line for each row of a game."""

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = ReplyReader(games, reward)
        self._rows = 0

    def write(self, prepared: list[bytes]) -> None:
        self._file.write(b"".join(prepared))
        self._rows += len(prepared)

    def finish(self) -> int:
        return self._rows


class ChatExport(LinesExport):
    """Exporter with one row per conversation."""

    suffix: ClassVar[str] = "chat.jsonl"
    requirement: ClassVar[str] = "a finished game of a model"

    def prepare(self, replay: Replay) -> list[bytes]:
        terms, seats = self._reader.terms, self._reader.seats(replay)
        return [dump(row).encode() for seat in seats for row in chat_rows(seat, terms)]


def chat_rows(seat: SeatReplies, terms: Sequence[str]) -> Iterator[dict[str, JsonValue]]:
    """Yield the rows of one seat."""
    facts = seat.facts(terms)
    for number, replies in enumerate(conversations(seat.replies)):
        attempts = [reply.attempt for reply in replies]
        # The last request holds the conversation before it; only the last reply is missing.
        messages = (*replies[-1].request, Message("assistant", replies[-1].text))
        yield {
            "messages": [{"role": each.role, "content": each.content} for each in messages],
            **facts,
            "chat": number,
            "model": attempts[-1].model,
            "policy_version": attempts[-1].policy_version,
            "replies": len(replies),
            "failures": sum(attempt.failure is not None for attempt in attempts),
            "fallbacks": sum(reply.last and bool(reply.ply.decision.failure) for reply in replies),
        }


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


SCHEMA_VERSION = 1


class OpenEnvExport(LinesExport):
    """Exporter with one line per seat of a model."""

    suffix: ClassVar[str] = "openenv.jsonl"
    requirement: ClassVar[str] = "a finished game that can be trained on"

    def prepare(self, replay: Replay) -> list[bytes]:
        terms, seats = self._reader.terms, self._reader.trainable_seats(replay)
        traces = [training_trace(seat, terms) for seat in seats]
        if not all(trace["turns"] for trace in traces):
            raise ReplayError(
                f"{replay.path}: no ids of prompts are recorded, which a trace needs: the server "
                "of the model must report them, as arena serve and vLLM do"
            )
        return [dump(trace).encode() for trace in traces]


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
                "judgements": [asdict(each) for each in seat.judgements(reply)],
                "policy_version": attempt.policy_version,
            },
        }
