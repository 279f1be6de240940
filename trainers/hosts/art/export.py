"""ART's trajectory groups as JSON lines, one group per line.

A group holds the trajectories of one seat in the games of one deal, played by the same weights at
the same table: what a step of `arena train` would have made of them, by the same code. Branches of
one position are a group too. The mean reward of a group is GRPO's baseline, so training learns
nothing from a group of one game.

    from trainers.hosts.art.export import read_groups

    result = await backend.train(model, list(read_groups("replays-art.jsonl")))
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from arena.core.game import Game
from arena.episodes.replay import Replay
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import GroupKey, ReplyReader, SeatReplies, StartPosition
from trainers.hosts.art.classes import Choice, History
from trainers.hosts.art.classes import Trajectory as ArtTrajectory
from trainers.hosts.art.classes import TrajectoryGroup as ArtGroup
from trainers.hosts.art.convert import to_art
from trainers.rollouts.trajectories import trajectory_of
from trainers.trajectory import Trajectory, TrajectoryGroup


@dataclass(frozen=True, slots=True)
class SeatTrajectory:
    """The trajectory of one seat, and the group that it belongs to."""

    start: StartPosition
    key: GroupKey
    trajectory: Trajectory


class ArtExport(Exporter[list[SeatTrajectory]]):
    """Exporter with one line per group."""

    suffix: ClassVar[str] = "art.jsonl"
    requirement: ClassVar[str] = "a finished game that can be trained on"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = ReplyReader(games, reward)
        self._start: StartPosition | None = None
        self._groups: dict[GroupKey, list[Trajectory]] = {}
        self._rows = self._without_variance = 0

    def prepare(self, replay: Replay) -> list[SeatTrajectory]:
        return [_seat_trajectory(seat) for seat in self._reader.trainable_seats(replay)]

    def write(self, prepared: list[SeatTrajectory]) -> None:
        for item in prepared:
            if item.start != self._start:
                self._flush()
                self._start = item.start
            self._groups.setdefault(item.key, []).append(item.trajectory)

    def finish(self) -> int:
        self._flush()
        return self._rows

    def notes(self) -> list[str]:
        if not self._without_variance:
            return []
        return [
            f"{self._without_variance} of {self._rows} groups have equal rewards, or one game "
            "only: nothing is learned from them; a group needs several games of the same deal"
        ]

    def _flush(self) -> None:
        """Write the groups of the current start position."""
        for key, trajectories in self._groups.items():
            assert self._start is not None, "groups are collected for a start position"
            metadata = self._start.metadata | {"seat": key.seat}
            group = to_art(TrajectoryGroup(tuple(trajectories), metadata=metadata))
            self._file.write(group.model_dump_json().encode() + b"\n")
            rewards = {trajectory.reward for trajectory in trajectories}
            self._without_variance += len(rewards) == 1
        self._rows += len(self._groups)
        self._groups = {}


def _seat_trajectory(seat: SeatReplies) -> SeatTrajectory:
    facts, key = seat.facts(()), GroupKey.of(seat)
    metadata = {name: facts[name] for name in ("replay", "game", "seed", "seat", "spec")}
    trajectory = replace(
        trajectory_of(seat.own, seat.seat), metrics=dict(seat.breakdown.terms), metadata=metadata
    )
    trajectory = trajectory.with_reward(seat.breakdown.reward)
    return SeatTrajectory(StartPosition.of(seat.replay.header), key, trajectory)


def read_groups(path: Path | str) -> Iterator[ArtGroup]:
    """Yield the groups of an exported file, equal to those that were written."""
    # ART's own `model_validate` returns groups without trajectories, and choices as dicts.
    with Path(path).open(encoding="utf-8") as file:
        for text in file:
            group = json.loads(text)
            trajectories = [_trajectory(raw) for raw in group["trajectories"]]
            yield ArtGroup(trajectories, metadata=group["metadata"])


def _trajectory(raw: dict[str, Any]) -> ArtTrajectory:
    histories = [
        History(messages_and_choices=_items(history["messages_and_choices"]))
        for history in raw["additional_histories"]
    ]
    items = _items(raw["messages_and_choices"])
    return ArtTrajectory.model_validate(
        {**raw, "messages_and_choices": items, "additional_histories": histories}
    )


def _items(raw: Sequence[dict[str, Any]]) -> list[Any]:
    return [Choice.model_validate(item) if "message" in item else item for item in raw]
