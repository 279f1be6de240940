"""Exact posterior of one seat over the whole game, and the stated beliefs of a model beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from arena import Knowledge, PlacedKnowledge
from replays.analysis.documents import BeliefJson, PlacementJson, PosteriorEntryJson, PosteriorJson
from replays.analysis.timeline import Timeline

BITS_DECIMALS, PROBABILITY_DECIMALS = 4, 6
CERTAIN = "sure"
"""Field of a belief record that lists certain places; also the word that is shown for them."""


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


class BeliefRecord(BaseModel):
    """Beliefs about things in places, as a game has parsed them."""

    model_config = ConfigDict(strict=True)

    certain: dict[str, int] = {}
    """Thing -> number of the place where the model is certain that it is."""
    probabilities: dict[str, dict[str, float]] = {}
    """Place, as the game writes it -> thing -> probability."""


@dataclass(frozen=True, slots=True)
class BeliefComparison:
    """Rows of beliefs that could be compared, and the remainder of the record."""

    rows: list[BeliefJson]
    remainder: JsonValue


def compare_beliefs(
    record: JsonValue, posterior: PosteriorJson | None, position: int
) -> BeliefComparison:
    """Compare a recorded belief answer with the posterior at a position.

    The record is untrusted: parts that cannot be interpreted are returned unchanged.
    """
    uninterpreted = BeliefComparison([], record)
    if not isinstance(record, dict) or posterior is None or not posterior["places"]:
        return uninterpreted
    # Models write names of places in upper or lower case.
    columns = {place.casefold(): number for number, place in enumerate(posterior["places"])}
    by_place = {name: value for name, value in record.items() if name.casefold() in columns}
    # Fields that name neither a place nor certainty belong to the remainder.
    fields = {"certain": record.get(CERTAIN, {}), "probabilities": by_place}
    try:
        stated = BeliefRecord.model_validate(fields)
    except ValidationError:
        return uninterpreted
    grid = entry_at(posterior, position)["grid"]
    if grid is None or not _is_consistent(stated, posterior):
        return uninterpreted
    rows = _certain_rows(stated.certain, posterior, grid)
    for name, probabilities in stated.probabilities.items():
        rows += _place_rows(columns[name.casefold()], probabilities, posterior, grid)
    interpreted = {CERTAIN, *by_place}
    remainder = {name: value for name, value in record.items() if name not in interpreted}
    return BeliefComparison(rows, remainder)


def _is_consistent(stated: BeliefRecord, posterior: PosteriorJson) -> bool:
    """Check that all things and places exist in the game."""
    things = {*stated.certain}.union(*stated.probabilities.values())
    places = range(len(posterior["places"]))
    return things <= set(posterior["things"]) and all(
        place in places for place in stated.certain.values()
    )


def _certain_rows(
    certain: Mapping[str, int], posterior: PosteriorJson, grid: list[list[float]]
) -> list[BeliefJson]:
    rows: list[BeliefJson] = []
    # Things at the end of the list have no row while they are not in the game.
    for probabilities, thing in zip(grid, posterior["things"], strict=False):
        if thing in certain:
            place = certain[thing]
            about = f"{thing}: {posterior['places'][place]}"
            exact = format_percent(probabilities[place])
            rows.append({"about": about, "stated": CERTAIN, "exact": exact})
    return rows


def _place_rows(
    place: int, stated: Mapping[str, float], posterior: PosteriorJson, grid: list[list[float]]
) -> list[BeliefJson]:
    """Return one row for each stated thing.

    Things of the same kind that the model wrongly left out are added with a stated 0 %.
    """
    grid_rows = list(zip(posterior["things"], posterior["kinds"], grid, strict=False))
    # If a model states probabilities for a kind of things, e.g. the suspects, each thing of this
    # kind that it leaves out counts as stated with 0. Other kinds are not compared.
    stated_kinds = {kind for thing, kind, _ in grid_rows if thing in stated}
    rows: list[BeliefJson] = []
    for thing, kind, probabilities in grid_rows:
        if kind in stated_kinds and (thing in stated or probabilities[place] > 0):
            about = f"{thing}: {posterior['places'][place]}"
            percent = format_percent(stated.get(thing, 0.0))
            exact = format_percent(probabilities[place])
            rows.append({"about": about, "stated": percent, "exact": exact})
    return rows


def format_percent(probability: float) -> str:
    """Format as whole percent; only an impossible or certain event reads `0 %` or `100 %`."""
    if 0 < probability < 0.01:
        return "< 1 %"
    if 0.99 < probability < 1:
        return "> 99 %"
    return f"{100 * probability:.0f} %"
