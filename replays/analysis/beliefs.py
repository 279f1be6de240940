"""What a model said it believes, beside what its view implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from arena import Json
from replays.analysis.documents import BeliefJson, KnowledgeJson
from replays.analysis.posterior import known_at

SURE = "sure"


class Stated(BaseModel):
    """Beliefs about things in places, as a game has understood them."""

    model_config = ConfigDict(strict=True)

    sure: dict[str, int] = {}
    """Thing -> the number of the place where it certainly is."""
    shares: dict[str, dict[str, float]] = {}
    """Place, as the game writes it -> thing -> probability."""


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The rows that could be made of what was noted, and the rest of it."""

    rows: list[BeliefJson]
    rest: Json


def compare_beliefs(noted: Json, knowledge: KnowledgeJson | None, position: int) -> Beliefs:
    """`noted` is untrusted: what is not understood is left in the rest as it is."""
    if not isinstance(noted, dict) or knowledge is None or not knowledge["places"]:
        return Beliefs([], noted)
    columns = {place.casefold(): number for number, place in enumerate(knowledge["places"])}
    shares = {name: value for name, value in noted.items() if name.casefold() in columns}
    try:
        stated = Stated.model_validate({SURE: noted.get(SURE, {}), "shares": shares})
    except ValidationError:
        return Beliefs([], noted)
    grid = known_at(knowledge, position)["grid"]
    if grid is None or not _fits(stated, knowledge):
        return Beliefs([], noted)
    rows = _of_sure(stated.sure, knowledge, grid)
    for name, of_place in stated.shares.items():
        rows += _of_place(columns[name.casefold()], of_place, knowledge, grid)
    understood = {SURE, *shares}
    return Beliefs(rows, {name: v for name, v in noted.items() if name not in understood})


def _fits(stated: Stated, knowledge: KnowledgeJson) -> bool:
    """Whether these things and places are the game's."""
    named = {*stated.sure}.union(*stated.shares.values())
    places = range(len(knowledge["places"]))
    return named <= set(knowledge["things"]) and all(p in places for p in stated.sure.values())


def _of_sure(
    sure: Mapping[str, int], knowledge: KnowledgeJson, grid: list[list[float]]
) -> list[BeliefJson]:
    found: list[BeliefJson] = []
    for row, thing in zip(grid, knowledge["things"], strict=True):
        if thing in sure:
            place = sure[thing]
            about = f"{thing}: {knowledge['places'][place]}"
            found.append({"about": about, "stated": SURE, "exact": percent(row[place])})
    return found


def _of_place(
    place: int, shares: Mapping[str, float], knowledge: KnowledgeJson, grid: list[list[float]]
) -> list[BeliefJson]:
    """Under each heading of which something was stated, also what was wrongly left out."""
    headed = list(zip(knowledge["things"], knowledge["kinds"], grid, strict=True))
    stated = {kind for thing, kind, _ in headed if thing in shares}
    found: list[BeliefJson] = []
    for thing, kind, row in headed:
        if kind in stated and (thing in shares or row[place] > 0):
            about = f"{thing}: {knowledge['places'][place]}"
            said = percent(shares.get(thing, 0.0))
            found.append({"about": about, "stated": said, "exact": percent(row[place])})
    return found


def percent(share: float) -> str:
    """Whole percents; what is merely near to impossible or certain does not read so."""
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"
