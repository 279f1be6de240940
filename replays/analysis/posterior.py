"""Exact posterior of one seat over the whole game."""

from __future__ import annotations

from arena import Knowledge, PlacedKnowledge
from replays.analysis.documents import PlacementJson, PosteriorEntryJson, PosteriorJson
from replays.analysis.timeline import Timeline

BITS_DECIMALS, PROBABILITY_DECIMALS = 4, 6


def compute_posterior(timeline: Timeline, player: int) -> PosteriorJson | None:
    """Return the posterior of a seat at each position where it changes.

    Returns None for a game that does not compute exact knowledge.
    """
    knowledge = timeline.game.analysis.knowledge(player)
    if knowledge is None:
        return None
    # Position n is after n plies, so position 0 is before the deal.
    entries = [posterior_entry(knowledge, 0)]
    placement = placement_json(knowledge)
    for ply in range(timeline.last_position):
        events = timeline.events_seen_by(player, ply)
        for event in events:
            knowledge.update(event)
        # Only events that the seat witnesses can change its posterior.
        entry = posterior_entry(knowledge, ply + 1, entries[-1]) if events else entries[-1]
        if entry is not entries[-1]:
            entries.append(entry)
    return {"player": player, **placement, "entries": entries}


def posterior_entry(
    knowledge: Knowledge, position: int, before: PosteriorEntryJson | None = None
) -> PosteriorEntryJson:
    """Return the exact knowledge at a position; `before` itself if it is still valid."""
    # A sum of floats may be slightly negative and round to -0.0; adding 0.0 makes it 0.0.
    bits = round(knowledge.entropy(), BITS_DECIMALS) + 0.0
    grid = _grid(knowledge)
    # Counting worlds is slow, so it is done for new entries only.
    if before is not None and (before["bits"], before["grid"]) == (bits, grid):
        return before
    worlds = str(knowledge.world_count())
    return {"position": position, "bits": bits, "worlds": worlds, "grid": grid}


def placement_json(knowledge: Knowledge) -> PlacementJson:
    """Return the names of the rows and columns of the grid."""
    if not isinstance(knowledge, PlacedKnowledge):
        return {"things": [], "kinds": [], "places": []}
    names = knowledge.placement()
    return {"things": list(names.things), "kinds": list(names.kinds), "places": list(names.places)}


def _grid(knowledge: Knowledge) -> list[list[float]] | None:
    if not isinstance(knowledge, PlacedKnowledge):
        return None
    rows = knowledge.placement().probabilities
    return [[round(p, PROBABILITY_DECIMALS) for p in row] for row in rows]


def entry_at(posterior: PosteriorJson, position: int) -> PosteriorEntryJson:
    """Return the entry that is valid at a position."""
    entries = reversed(posterior["entries"])
    return next(entry for entry in entries if entry["position"] <= position)
