"""Groups of exported games: those of one seat that start at the same position.

They were played by the same weights at the same table, so their rewards may be compared: the mean
reward of a group is GRPO's baseline. Branches of one position are a group too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from arena.core.action import CHANCE
from trainers.export.seat_replies import GameSetup, SeatReplies

NO_TOKENS = (
    "no token ids and log-probabilities are recorded: arena play keeps them with --logprobs, if "
    "the model's backend gives both"
)
"""Reason to leave out a game."""


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The position from which games of a group start; such games are adjacent in the file."""

    game: str
    options: str
    seed: int
    branches: tuple[str, ...]
    """PARENT/PLY of each branching; empty for a game that starts with the deal."""

    @classmethod
    def of(cls, seat: SeatReplies) -> StartPosition:
        """Return the start of a seat's game."""
        header = seat.replay.header
        branches = tuple(f"{branch.parent_sha256}/{branch.ply}" for branch in header.branches)
        return cls(header.game, GameSetup.of(header).options, header.seed, branches)

    @property
    def metadata(self) -> dict[str, float | int | str | bool | None]:
        """Return what ART keeps of a group; the type is ART's."""
        return {"game": self.game, "options": self.options, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Common features of a group's games, beside their start position."""

    dealt: tuple[str, ...]
    """Chance actions before the first decision: a branch may have another deal."""
    seat: int
    players: tuple[str, ...]
    text_level: str
    model: str
    versions: tuple[int, ...]

    @classmethod
    def of(cls, seat: SeatReplies) -> GroupKey:
        """Return the features of a seat's game; `model` is the one that gave the last tokens."""
        header = seat.replay.header
        attempts = [reply.attempt for reply in seat.replies if reply.attempt.tokens]
        versions = {a.policy_version for a in attempts if a.policy_version is not None}
        dealing = takewhile(lambda ply: ply.player == CHANCE, seat.seat_episode.episode.plies)
        return cls(
            tuple(str(ply.decision.action) for ply in dealing),
            seat.seat,
            header.players,
            header.text_level,
            attempts[-1].model if attempts else "",
            tuple(sorted(versions)),
        )


def has_tokens(seat: SeatReplies) -> bool:
    """Return whether tokens were sampled, and all of them have ids."""
    tokens = [token for reply in seat.replies for token in reply.attempt.tokens]
    return bool(tokens) and all(number is not None for number, _, _ in tokens)
