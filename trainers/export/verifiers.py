"""Episodes of verifiers 1 (verifiers 0.4.0), exact: a MessagePack map for each game, in a row.

    import msgpack
    from verifiers.v1 import WireEpisode

    for raw in msgpack.Unpacker(open("replays-verifiers.msgpack", "rb")):
        episode = WireEpisode.model_validate(raw)

An episode has a trace for each seat of a model, and a trace one branch for each chat of it; see
`trainers.export.verifiers`. Replays without token ids give nodes without.

`advantages` are those that `arena train` would give to the turns by the credit that is the game's
default: in Cluedo `judged`, else the reward minus the mean reward of the group, for all turns. The
values of decisions are compared within the group. A group is what `trainers.export.seat_replies`
says; a game that is alone in its group has none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar

from pydantic import JsonValue

from arena.agents.chat import DEFAULTS, Attempt
from arena.core.game import Game
from arena.core.text import pluralize
from arena.episodes.job import sha256
from arena.episodes.replay import Replay
from arena.llm.backend import Message
from arena.plugins.catalog import require
from trainers.config.config import TrainConfig
from trainers.credit.estimators import Credit
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import (
    GroupKey,
    ModelReply,
    ReplyReader,
    SeatReplies,
    StartPosition,
)
from trainers.rollouts.trajectories import sampling_logprob
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn

require("--export verifiers", ("msgpack",), "train")

import msgpack  # noqa: E402 - after the check that names the extra.

TRACE_VERSION = 1
VERIFIERS = "0.4.0"
"""The release whose classes the episodes were checked with."""


@dataclass(slots=True)
class TraceRecord:
    """The trace of a seat, and what decides about its advantages."""

    fields: Fields
    nodes: list[Fields]
    key: GroupKey
    credit: Credit
    trajectory: Trajectory
    """The turns of the nodes that are sampled, without their texts, and the reward."""


@dataclass(slots=True)
class EpisodeRecord:
    """The episode of a game."""

    start: StartPosition
    fields: Fields
    traces: list[TraceRecord] = field(default_factory=list)


class VerifiersExport(Exporter[EpisodeRecord]):
    """Exporter with one episode per game."""

    suffix: ClassVar[str] = "verifiers.msgpack"
    requirement: ClassVar[str] = "a finished game of a model"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = ReplyReader(games, reward, with_credit=True)
        self._pending: list[EpisodeRecord] = []
        self._rows = self._traces = self._alone = self._without_tokens = 0

    def prepare(self, replay: Replay) -> EpisodeRecord:
        return episode_record(self._reader.seats(replay), self._reader.weights(replay))

    def write(self, prepared: EpisodeRecord) -> None:
        if self._pending and self._pending[0].start != prepared.start:
            self._flush()
        self._pending.append(prepared)

    def finish(self) -> int:
        self._flush()
        return self._rows

    def notes(self) -> list[str]:
        traces = pluralize(self._traces, "trace")
        alone = (
            f"{self._alone} of {traces} have no advantages: they need several games of a deal, by "
            "the same players"
        )
        bare = (
            f"{self._without_tokens} of {traces} have no token ids: arena play keeps them with "
            "--set logprobs=true, if the model's backend gives them"
        )
        return [*[alone] * bool(self._alone), *[bare] * bool(self._without_tokens)]

    def _flush(self) -> None:
        """Write the episodes of one start position, with the advantages in their groups."""
        groups: dict[GroupKey, list[TraceRecord]] = {}
        for trace in (trace for episode in self._pending for trace in episode.traces):
            groups.setdefault(trace.key, []).append(trace)
            self._traces += 1
            self._without_tokens += not any(node["token_ids"] for node in trace.nodes)
        for group in groups.values():
            if len(group) == 1:
                self._alone += 1
                continue
            played = TrajectoryGroup(tuple(trace.trajectory for trace in group))
            [credited] = group[0].credit.assign([played])
            for trace, trajectory in zip(group, credited.trajectories, strict=True):
                sampled = [node for node in trace.nodes if node["sampled"]]
                for node, turn in zip(sampled, trajectory.turns, strict=True):
                    # One value for each sampled token, as for `logprobs`.
                    logprobs = node["logprobs"]
                    assert isinstance(logprobs, list), "made by `_reply_node`"
                    node["advantages"] = [turn.advantage] * len(logprobs)
        for episode in self._pending:
            traces: list[JsonValue] = [
                {**trace.fields, "nodes": [*trace.nodes]} for trace in episode.traces
            ]
            self._file.write(pack({**episode.fields, "traces": traces}))
        self._rows += len(self._pending)
        self._pending = []


def pack(value: Fields) -> bytes:
    """Return MessagePack; floats have 64 bits, so log-probabilities are exact."""
    # A reply may hold lone surrogates, which no UTF-8 has.
    packed: bytes = msgpack.packb(value, unicode_errors="replace")
    return packed


def episode_record(seats: Sequence[SeatReplies], weights: Mapping[str, float]) -> EpisodeRecord:
    """Return the episode of a game from all seats in which a model has answered."""
    header = seats[0].replay.header
    start = StartPosition.of(header)
    data: Fields = {
        "name": f"{header.game}#{header.seed}",
        "game": header.game,
        "options": header.options,
        "seed": header.seed,
    }
    digest = _digest(data)
    task: Fields = {"type": "GameTask", "data": data, "key": digest, "hash": digest}
    replay = sha256(seats[0].replay.path)
    dealt = GroupKey.of(seats[0]).dealt
    group: list[JsonValue] = [start.game, start.options, start.seed]
    group += [[*start.branches], [*dealt], [*header.players]]
    fields: Fields = {
        "id": replay[:32],
        "env": {"id": f"arena-{header.game}"},
        "task": task,
        "group": {"id": _digest(group)},
        "ok": True,
    }
    record = EpisodeRecord(start, fields)
    credit = Credit.parse(TrainConfig(game=header.game), seats[0].seat_episode.game)
    for seat in seats:
        nodes, places = message_graph(seat.replies, header.created.timestamp())
        made = _trace_fields(seat, task, weights, _digest([replay, seat.seat])[:32])
        made["calls"] = [_call(reply, places.get(id(reply))) for reply in seat.replies]
        turns = [
            Turn((), "", (), ply=reply.ply.number, is_legal=reply.attempt.failure is None)
            for reply in seat.replies
            if reply.answered
        ]
        trajectory = Trajectory(tuple(turns), seat.breakdown.reward).with_judgements(
            seat.breakdown.judgements
        )
        record.traces.append(TraceRecord(made, nodes, GroupKey.of(seat), credit, trajectory))
    return record


def _trace_fields(
    seat: SeatReplies, task: Fields, weights: Mapping[str, float], number: str
) -> Fields:
    answered = [reply.attempt for reply in seat.replies if reply.answered]
    terms = seat.breakdown.terms
    return {
        "version": TRACE_VERSION,
        "id": number,
        "verifiers": {"version": VERIFIERS},
        "task": task,
        "agent": {
            "config": {
                "model": answered[-1].model,
                "harness": {"id": "arena"},
                "runtime": {"type": "subprocess"},
                "sampling": _sampling(answered[-1]),
            },
            "name": f"seat_{seat.seat}",
            "trainable": True,
        },
        "rewards": {
            name: {"score": value, "weight": weights[name]}
            for name, value in terms.items()
            if name in weights
        },
        "metrics": {name: value for name, value in terms.items() if name not in weights},
        "info": {"game": seat.facts(())},
        "is_completed": True,
        "ok": True,
        "stop_condition": "game_over",
        "timing": {"start": seat.replay.header.created.timestamp()},
    }


def _sampling(attempt: Attempt) -> Fields:
    return {**DEFAULTS, **attempt.sampling}


def _call(reply: ModelReply, place: int | None) -> Fields:
    """Return the record of a request; `place` is the node of its reply."""
    attempt = reply.attempt
    call: Fields = {
        "node": place,
        "model": attempt.model or None,
        "sampling": _sampling(attempt),
        "endpoint": "/chat/completions",
        "time": {"start": 0.0, "end": attempt.seconds},
    }
    if place is None:
        return {**call, "error": {"type": "ProviderError", "message": attempt.excerpt}}
    known = attempt.finish_reason in {"stop", "length", "tool_calls"}
    return {
        **call,
        "finish_reason": attempt.finish_reason if known else None,
        "usage": {
            # There, tokens from the provider's cache do not count as tokens of the prompt.
            "prompt_tokens": attempt.prompt_tokens - attempt.cached_tokens,
            "completion_tokens": attempt.completion_tokens,
            "cached_input_tokens": attempt.cached_tokens,
            "reasoning_tokens": attempt.reasoning_tokens,
            "cost": attempt.cost,
        },
    }


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


Fields = dict[str, JsonValue]
"""A record of verifiers, by the names of its fields."""


def message_graph(
    replies: Sequence[ModelReply], timestamp: float
) -> tuple[list[Fields], dict[int, int]]:
    """Return the nodes of a seat, and the place of each answered reply by its `id()`."""
    nodes: list[Fields] = []
    places: dict[int, int] = {}
    before: ModelReply | None = None
    for reply in replies:
        if not reply.answered:
            continue
        known, tokens = 0, 0
        if before is not None and _continues(before, reply):
            known = len(before.request) + 1
            tokens = len(before.attempt.prompt_token_ids) + len(before.attempt.tokens)
        parent = len(nodes) - 1 if known else None
        for message in reply.request[known:]:
            shown: Fields = {"role": message.role, "content": message.content}
            nodes.append(_node(parent, shown, timestamp))
            parent = len(nodes) - 1
        nodes.append(_reply_node(parent, reply, tokens, timestamp))
        places[id(reply)] = len(nodes) - 1
        before = reply
    return nodes, places


def _continues(before: ModelReply, reply: ModelReply) -> bool:
    """Return whether a request repeats the previous one with its reply, in words and in tokens."""
    repeated = (*before.request, Message("assistant", before.text))
    if reply.request[: len(repeated)] != repeated:
        return False
    sampled = [number for number, _, _ in before.attempt.tokens]
    read = [*before.attempt.prompt_token_ids, *sampled]
    ids = reply.attempt.prompt_token_ids
    # Without any ids there is nothing to contradict the words.
    return list(ids[: len(read)]) == read and bool(ids) == bool(read)


def _node(parent: int | None, message: Fields, timestamp: float) -> Fields:
    return {
        "parent": parent,
        "message": message,
        "sampled": False,
        "timestamp": timestamp,
        "token_ids": [],
        "mask": [],
        "logprobs": [],
    }


def _reply_node(parent: int | None, reply: ModelReply, known: int, timestamp: float) -> Fields:
    """Return the node of a reply; the first `known` tokens of its request belong to the parents."""
    attempt = reply.attempt
    message: Fields = {"role": "assistant", "content": reply.text}
    if attempt.reasoning:
        message["reasoning_content"] = attempt.reasoning
    sampled: list[int] = [number for number, _, _ in attempt.tokens if number is not None]
    if len(sampled) < len(attempt.tokens) or not attempt.prompt_token_ids:
        sampled = []  # A token without an id, or an unknown prompt: the node has no tokens.
    # The tokens of new messages and of the template are kept here, before the reply's own: no
    # record says which of them belong to which message. The mask keeps them out of the loss.
    read = [*attempt.prompt_token_ids[known:]] if sampled else []
    drawn = [sampling_logprob(logprob, value) for _, logprob, value in attempt.tokens]
    return {
        **_node(parent, message, timestamp),
        "sampled": True,
        "token_ids": [*read, *sampled],
        "mask": [*[False] * len(read), *[True] * len(sampled)],
        "logprobs": [*drawn] if sampled else [],
    }
