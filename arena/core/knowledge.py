"""Exact knowledge of one player: the protocols, and the table of placements."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

from arena.core.event import Event


class Knowledge(Protocol):
    """What one player's view implies, computed exactly, where a game can do that."""

    def update(self, event: Event) -> None:
        """Take in one more event that the player witnessed."""

    def entropy(self) -> float:
        """Uncertainty about what the game hides, in bits."""

    def world_count(self) -> int:
        """How many hidden worlds are consistent with the view."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where each hidden thing may be: one row per thing, one column per place."""

    things: tuple[str, ...]
    kinds: tuple[str, ...]
    """Of each thing, the heading that it stands under."""
    places: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]
    """Exact; a thing that lies open to everybody has a row of zeros."""


@runtime_checkable
class PlacedKnowledge(Knowledge, Protocol):
    """Knowledge of a game that hides things in places: cards in hands, for example."""

    def placement(self) -> Placement:
        """How probable each place of each thing is."""
