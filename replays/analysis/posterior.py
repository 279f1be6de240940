"""What one seat's view implies, all through the game."""

from __future__ import annotations

from arena import Knowledge, PlacedKnowledge
from replays.analysis.documents import KnowledgeJson, KnownJson
from replays.analysis.timeline import Course

BITS, SHARES = 4, 6
"""Decimals."""


def follow(course: Course, of: int) -> KnowledgeJson | None:
    """The exact posterior of seat `of` at each position where it has changed."""
    knowledge = course.game.knowledge(of)
    if knowledge is None:
        return None
    found = _blank(knowledge, of)
    found["known"].append(_known(knowledge, 0, None))
    for number in range(course.last):
        events = course.witnessed(number, of)
        for event in events:
            knowledge.update(event)
        if events:
            now = _known(knowledge, number + 1, found["known"][-1])
            if now is not found["known"][-1]:
                found["known"].append(now)
    return found


def _blank(knowledge: Knowledge, of: int) -> KnowledgeJson:
    found: KnowledgeJson = {"of": of, "things": [], "kinds": [], "places": [], "known": []}
    if isinstance(knowledge, PlacedKnowledge):
        placement = knowledge.placement()
        found["things"] = list(placement.things)
        found["kinds"] = list(placement.kinds)
        found["places"] = list(placement.places)
    return found


def _known(knowledge: Knowledge, position: int, last: KnownJson | None) -> KnownJson:
    """What is known now; `last` itself if nothing has changed since."""
    # What a sum of floats falls short of 0 by would be shown as -0.
    bits, grid = round(knowledge.entropy(), BITS) + 0.0, _grid(knowledge)
    if last is not None and last["bits"] == bits and last["grid"] == grid:
        return last
    worlds = str(knowledge.world_count())
    return {"position": position, "bits": bits, "worlds": worlds, "grid": grid}


def _grid(knowledge: Knowledge) -> list[list[float]] | None:
    if not isinstance(knowledge, PlacedKnowledge):
        return None
    return [[round(p, SHARES) for p in row] for row in knowledge.placement().probabilities]


def known_at(knowledge: KnowledgeJson, position: int) -> KnownJson:
    """What held at a position."""
    return next(k for k in reversed(knowledge["known"]) if k["position"] <= position)
