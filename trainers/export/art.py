"""ART's trajectory groups as JSON lines, one group a line.

A group holds what one seat did in the games of one deal that the same weights played at the same
table: what a step of `arena train` would have made of them, by the same code. Branches of one
position are a group too. Its mean is GRPO's baseline, so a group of one game teaches nothing.

    from trainers.export.art import read_groups

    result = await backend.train(model, list(read_groups("replays-art.jsonl")))
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from arena.core.action import CHANCE
from arena.core.errors import ReplayError
from arena.core.game import Game
from arena.episodes.replay import Replay
from trainers.export.reading import Reader, SeatPlayed
from trainers.hosts.art import Choice, History, Trajectory, TrajectoryGroup
from trainers.trajectories import trajectory_of


@dataclass(frozen=True, slots=True)
class Deal:
    """What stands together in the file: games from one position."""

    game: str
    options: str
    seed: int
    branches: tuple[str, ...]
    """Where the games left others, if they are branches; those of one position are a group."""

    @property
    def metadata(self) -> dict[str, Any]:
        return {"game": self.game, "options": self.options, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class Kin:
    """What the games of a group have in common, beside the position that they began from."""

    dealt: tuple[str, ...]
    """What chance drew before anybody moved: a branch may have been dealt anew."""
    seat: int
    players: tuple[str, ...]
    text_level: str
    model: str
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """One seat's share of a game, and the group it belongs to."""

    deal: Deal
    kin: Kin
    trajectory: Trajectory


class ArtExport:
    """A line for each group."""

    suffix: ClassVar[str] = "art.jsonl"
    wanted: ClassVar[str] = "a finished game that can be trained on"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = Reader(games, reward)
        self._deal: Deal | None = None
        self._groups: dict[Kin, list[Trajectory]] = {}
        self._rows = self._flat = 0

    def prepare(self, replay: Replay) -> list[Told]:
        told = [_told(seat) for seat in self._reader.seats(replay) if _has_tokens(seat)]
        if not told:
            raise ReplayError(
                f"{replay.path}: no token ids and log-probabilities are recorded: arena play "
                "keeps them with --logprobs, if the model's backend gives both"
            )
        return told

    def write(self, prepared: list[Told]) -> None:
        for told in prepared:
            if told.deal != self._deal:
                self._flush()
                self._deal = told.deal
            self._groups.setdefault(told.kin, []).append(told.trajectory)

    def finish(self) -> int:
        self._flush()
        return self._rows

    def close(self) -> None:
        """Nothing is held."""

    def notes(self) -> list[str]:
        if not self._flat:
            return []
        return [
            f"{self._flat} of {self._rows} groups have equal rewards, or one game only: nothing is "
            "learned from them; a group is made of several games of the same deal"
        ]

    def _flush(self) -> None:
        """Write the groups of a deal."""
        for kin, trajectories in self._groups.items():
            assert self._deal is not None
            group = TrajectoryGroup(trajectories, metadata=self._deal.metadata | {"seat": kin.seat})
            self._file.write(group.model_dump_json().encode() + b"\n")
            self._flat += len({trajectory.reward for trajectory in trajectories}) < 2
        self._rows += len(self._groups)
        self._groups = {}


def _has_tokens(seat: SeatPlayed) -> bool:
    """Whether something was sampled, and it is known as which tokens."""
    tokens = [token for reply in seat.replies for token in reply.attempt.tokens]
    return bool(tokens) and all(number is not None for number, _, _ in tokens)


def _told(seat: SeatPlayed) -> Told:
    header = seat.replay.header
    facts = seat.facts(())
    answers = [reply.attempt for reply in seat.replies if reply.attempt.tokens]
    versions = sorted({a.policy_version for a in answers if a.policy_version is not None})
    trajectory = trajectory_of(seat.own, seat.seat)
    trajectory.reward, trajectory.metrics = seat.scored.reward, dict(seat.scored.terms)
    trajectory.metadata = {name: facts[name] for name in ("replay", "game", "seed", "seat", "spec")}
    if versions:
        trajectory.initial_policy_version = versions[0]
        trajectory.final_policy_version = versions[-1]
    branches = tuple(f"{branch.parent_sha256}/{branch.ply}" for branch in header.branches)
    deal = Deal(header.game, facts["options"], header.seed, branches)
    dealing = takewhile(lambda ply: ply.player == CHANCE, seat.rollout.episode.plies)
    kin = Kin(
        tuple(str(ply.decision.action) for ply in dealing),
        seat.seat,
        header.players,
        header.text_level,
        answers[-1].model,
        tuple(versions),
    )
    return Told(deal, kin, trajectory)


def read_groups(path: Path | str) -> Iterator[TrajectoryGroup]:
    """The groups of an exported file, as they were.

    ART's own `model_validate` gives groups without trajectories, and choices as dictionaries.
    """
    with Path(path).open(encoding="utf-8") as file:
        for text in file:
            group = json.loads(text)
            trajectories = [_trajectory(raw) for raw in group["trajectories"]]
            yield TrajectoryGroup(trajectories, metadata=group["metadata"])


def _trajectory(raw: dict[str, Any]) -> Trajectory:
    histories = [
        History(messages_and_choices=_items(each["messages_and_choices"]))
        for each in raw["additional_histories"]
    ]
    items = _items(raw["messages_and_choices"])
    return Trajectory.model_validate(
        {**raw, "messages_and_choices": items, "additional_histories": histories}
    )


def _items(raw: Sequence[dict[str, Any]]) -> list[Any]:
    return [Choice.model_validate(item) if "message" in item else item for item in raw]
