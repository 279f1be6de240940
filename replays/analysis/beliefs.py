"""Stated beliefs of a model, compared with the exact posterior of its seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from replays.analysis.documents import BeliefJson, PosteriorJson
from replays.analysis.posterior import entry_at

CERTAIN = "sure"
"""Field of a belief record that lists certain places; also the word that is shown for them."""


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
    for probabilities, thing in zip(grid, posterior["things"], strict=True):
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
    grid_rows = list(zip(posterior["things"], posterior["kinds"], grid, strict=True))
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
