"""Exact knowledge of one player: its protocols, and the table of possible placements."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

from arena.core.event import Event


class Knowledge(Protocol):
    """Everything that follows from one player's events, computed exactly."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""

    def entropy(self) -> float:
        """Return the uncertainty about the hidden information, in bits."""

    def world_count(self) -> int:
        """Return the number of hidden worlds that are consistent with the player's events."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Probabilities of the places of hidden things: one row per thing, one column per place."""

    things: tuple[str, ...]
    kinds: tuple[str, ...]
    """The heading of each thing."""
    places: tuple[str, ...]
    # Each other row adds up to 1.
    probabilities: tuple[tuple[float, ...], ...]
    """Exact. The row of a thing that all players can see is all zeros."""


@runtime_checkable
class PlacedKnowledge(Knowledge, Protocol):
    """Knowledge of a game that hides things in places, for example cards in hands."""

    def placement(self) -> Placement:
        """Return the probability of each place of each thing."""
