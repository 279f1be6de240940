"""Exact posterior of one seat over the whole game."""

from __future__ import annotations

from arena import Knowledge, PlacedKnowledge
from replays.analysis.documents import PosteriorEntryJson, PosteriorJson
from replays.analysis.timeline import Timeline

BITS_DECIMALS, PROBABILITY_DECIMALS = 4, 6


def compute_posterior(timeline: Timeline, player: int) -> PosteriorJson | None:
    """Return the posterior of a seat at each position where it changes.

    Returns None for a game that does not compute exact knowledge.
    """
    knowledge = timeline.game.knowledge(player)
    if knowledge is None:
        return None
    posterior: PosteriorJson = {
        "player": player,
        "things": [],
        "kinds": [],
        "places": [],
        "entries": [],
    }
    if isinstance(knowledge, PlacedKnowledge):
        placement = knowledge.placement()
        posterior["things"], posterior["kinds"] = list(placement.things), list(placement.kinds)
        posterior["places"] = list(placement.places)
    # Position n is after n plies, so position 0 is before the deal.
    _append_if_changed(posterior["entries"], knowledge, 0)
    for ply in range(timeline.last_position):
        events = timeline.events_seen_by(player, ply)
        for event in events:
            knowledge.update(event)
        # Only events that the seat witnesses can change its posterior.
        if events:
            _append_if_changed(posterior["entries"], knowledge, ply + 1)
    return posterior


def _append_if_changed(
    entries: list[PosteriorEntryJson], knowledge: Knowledge, position: int
) -> None:
    bits, grid = _bits(knowledge), _grid(knowledge)
    if not entries or (entries[-1]["bits"], entries[-1]["grid"]) != (bits, grid):
        # Counting worlds is slow, so it is done for new entries only.
        worlds = str(knowledge.world_count())
        entries.append({"position": position, "bits": bits, "worlds": worlds, "grid": grid})


def posterior_entry(knowledge: Knowledge, position: int) -> PosteriorEntryJson:
    """Return the exact knowledge at a position."""
    return {
        "position": position,
        "bits": _bits(knowledge),
        "worlds": str(knowledge.world_count()),
        "grid": _grid(knowledge),
    }


def _grid(knowledge: Knowledge) -> list[list[float]] | None:
    if not isinstance(knowledge, PlacedKnowledge):
        return None
    rows = knowledge.placement().probabilities
    return [[round(p, PROBABILITY_DECIMALS) for p in row] for row in rows]


def _bits(knowledge: Knowledge) -> float:
    # A sum of floats may be slightly negative and round to -0.0; adding 0.0 makes it 0.0.
    return round(knowledge.entropy(), BITS_DECIMALS) + 0.0


def entry_at(posterior: PosteriorJson, position: int) -> PosteriorEntryJson:
    """Return the entry that is valid at a position."""
    entries = reversed(posterior["entries"])
    return next(entry for entry in entries if entry["position"] <= position)
