"""Exact posterior over hidden roles: the assignments that are consistent with one player's events.

The model is logical. All deals are equally likely, and a move that every role could have made
proves nothing. So all consistent assignments are equally likely, and the entropy is the logarithm
of their number.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena import Event, Placement
from games.hidden_roles.rules import RoleDealt, RolesRevealed

if TYPE_CHECKING:
    from games.hidden_roles.rules import HiddenRolesGame

Worlds = NDArray[np.int8]
"""One row per assignment, one column per seat: the index of the role in `distinct_roles`."""


@lru_cache(maxsize=8)
def role_worlds(roles: tuple[str, ...]) -> Worlds:
    """Return all different assignments of these roles to seats: at most 151,200 rows, read-only.

    With n seats and role r dealt c(r) times there are n! / prod c(r)! of them.
    """
    counts = Counter(roles)
    names = list(counts)
    # The commonest role comes last: it takes all seats that are left, at no cost.
    order = sorted(names, key=lambda name: counts[name])
    worlds = np.full((1, len(roles)), -1, np.int8)
    for name in order[:-1]:
        parts = []
        # A role that is dealt c times takes each set of c free seats.
        for seats in map(list, combinations(range(len(roles)), counts[name])):
            chosen = worlds[(worlds[:, seats] == -1).all(axis=1)]
            chosen[:, seats] = names.index(name)
            parts.append(chosen)
        worlds = np.concatenate(parts)
    worlds[worlds == -1] = names.index(order[-1])
    worlds.setflags(write=False)
    return worlds


@lru_cache(maxsize=64)
def _worlds_of_seat(roles: tuple[str, ...], seat: int, role: int) -> Worlds:
    """Return the assignments in which a seat has a role; shared, because every game begins so."""
    worlds = role_worlds(roles)
    chosen = worlds[worlds[:, seat] == role]
    chosen.setflags(write=False)
    return chosen


class RolePosterior:
    """Knowledge of one player about the roles; a game subclasses it to read its own events."""

    def __init__(self, game: HiddenRolesGame, player: int) -> None:
        self.game = game
        self.player = player
        self.worlds = role_worlds(game.role_list)
        self.public: frozenset[int] = frozenset()
        """Seats whose role all players know."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case RoleDealt(seat, role):
                self.worlds = _worlds_of_seat(
                    self.game.role_list, seat, self.game.distinct_roles.index(role)
                )
            case RolesRevealed(roles):
                for seat, role in enumerate(roles):
                    self.reveal(seat, role)

    def reveal(self, seat: int, role: str) -> None:
        """Add that all players know the role of a seat."""
        self.public |= {seat}
        self.keep(self.has_role(seat, (role,)))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keep the assignments of which the mask is true."""
        if not mask.all():
            self.worlds = self.worlds[mask]

    def has_role(self, seat: int, roles: Collection[str]) -> NDArray[np.bool_]:
        """Return for each assignment whether a seat has one of these roles: shape (worlds,)."""
        return self._members(roles)[self.worlds[:, seat]]

    def count_in(self, seats: Sequence[int], roles: Collection[str]) -> NDArray[np.int64]:
        """Return for each assignment how many of the seats have one of these roles."""
        return self._members(roles)[self.worlds[:, list(seats)]].sum(axis=1)

    def _members(self, roles: Collection[str]) -> NDArray[np.bool_]:
        """Return for each role of the game whether it is one of these: a table to look up in."""
        return np.array([role in roles for role in self.game.distinct_roles])

    def entropy(self) -> float:
        """Return the uncertainty about the roles in bits: log2 of the number of assignments."""
        return math.log2(len(self.worlds))

    def world_count(self) -> int:
        """Return the number of consistent assignments."""
        return len(self.worlds)

    def probabilities(self, roles: Collection[str]) -> tuple[float, ...]:
        """Return for each seat the probability that it has one of these roles."""
        shares = self._members(roles)[self.worlds].mean(axis=0)
        return tuple(float(share) for share in shares)

    def teams(self, roles: Collection[str]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return the possible sets of the seats that have one of these roles.

        Returns:
            The different sets, shape (sets, seats), and the probability of each, shape (sets,).
        """
        found = self._members(roles)[self.worlds]
        # One bit per seat makes a set a number, which is faster to sort than a row.
        codes = found @ (1 << np.arange(found.shape[1]))
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        return found[first], counts / len(found)

    def placement(self) -> Placement:
        """Return the probability of each role of each seat; zeros for a seat that is public."""
        names, roles = self.game.seat_names, self.game.distinct_roles
        columns = [self.probabilities((role,)) for role in roles]
        return Placement(
            things=names,
            kinds=("players",) * len(names),
            places=roles,
            probabilities=tuple(
                tuple(0.0 if seat in self.public else column[seat] for column in columns)
                for seat in range(len(names))
            ),
        )

    def sample(self, rng: random.Random) -> tuple[str, ...]:
        """Draw one consistent assignment; all are equally likely."""
        row = self.worlds[rng.randrange(len(self.worlds))]
        return tuple(self.game.distinct_roles[role] for role in row)
