"""What an answer to `belief_question` states: read from JSON, forgivingly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from arena import Json, normalise
from games.cluedo.rules.cards import Triple

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

T = TypeVar("T")

MAX_OBJECTS, MAX_LENGTH = 64, 16_384
"""JSON is looked for behind the last so many braces, in so many characters each."""

LONGEST_NAME = 64
"""A longer text names no card, no holder and no number."""

GREATEST = 1e9
"""Greater numbers are no probabilities in any unit, and their sum might be infinite."""

# What models write that is not quite JSON: comments, commas and dots too many, 40% or 1/6 without
# quotes, quotes of other kinds. No pattern takes more than linear time.
_COMMENT = re.compile(r"//[^\n]*")
_LAST_COMMA = re.compile(r",(?:\s*\.{3})?(\s*[}\]])")
_UNQUOTED = re.compile(r"(:\s*)(\d{0,9}\.?\d{1,9}\s?%|\d{1,9}\s?/\s?\d{1,9})")
_QUOTES = str.maketrans("'‘’“”", '"""""')
_FRACTION = re.compile(r"(\d{1,9})\s?/\s?(\d{1,9})")
_DECODER = json.JSONDecoder(strict=False)  # Models break lines within strings.


class Number(NamedTuple):
    """A probability as it was written."""

    value: float
    bare: bool
    """Without a sign that tells the unit: 40 may mean 0.4, "40%" does."""


class Entry(NamedTuple):
    """One pair of a JSON object."""

    name: str
    value: Json


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What an answer says, in the names of the game."""

    sure: dict[str, int]
    """Card -> holder: a seat, or `num_players` for the envelope."""
    envelope: dict[str, float]
    """Card -> probability to be in the envelope. They sum to 1 in each category that is stated."""
    unstated: tuple[str, ...]
    """The categories, named as in `Triple`, without any probability above 0."""
    ignored: int
    """Entries that name no card of the deck, or whose value is no holder or no probability."""


def read_beliefs(game: CluedoBase, player: int, answer: str) -> Beliefs | None:
    """What `player` believes by `answer`; None if no JSON object in it states beliefs.

    Of several objects with both "sure" and "envelope" the last one counts, else the last one with
    either. Cards have the names of both editions and of `game.synonyms()`, in any case. Holders
    are "Player 2", "P2", "2" or 2, "envelope" or "me". Probabilities are numbers, "40%" or "1/6".
    Both may stand one layer deeper, in an object per category. Bare numbers are percentages if one
    of their category exceeds 1. Each category is normalised to sum to 1.

    Never raises. Beyond the search for the last braces, time does not grow with the answer.
    """
    stated = _stated(answer)
    if stated is None:
        return None
    names, holders = _card_names(game), _holder_names(game, player)
    places, weights = list(_entries(stated, "sure")), list(_entries(stated, "envelope"))
    sure = _understood(places, names, lambda value: holders.get(_word(value)))
    numbers = _understood(weights, names, _number)
    shares = [_normalised(dict(numbers), category) for category in game.deck.categories]
    return Beliefs(
        sure=dict(sure),
        envelope={card: share for category in shares for card, share in category.items()},
        unstated=tuple(k for k, share in zip(Triple._fields, shares, strict=True) if not share),
        ignored=len(places) + len(weights) - len(sure) - len(numbers),
    )


def _stated(answer: str) -> dict[str, Json] | None:
    """The last object with both parts, else the last with one."""
    best = None
    for found in _objects(answer):
        parts = sum(isinstance(found.get(part), dict) for part in ("sure", "envelope"))
        if parts == 2:
            return found
        if parts and best is None:
            best = found
    return best


def _objects(answer: str) -> Iterator[dict[str, Json]]:
    """The JSON objects of a text, last first, with plain keys; broken ones are mended."""
    at = len(answer)
    for _ in range(MAX_OBJECTS):
        at = answer.rfind("{", 0, at)
        if at < 0:
            return
        for text in _forms(answer[at : at + MAX_LENGTH]):
            try:
                found, _end = _DECODER.raw_decode(text)
            except (ValueError, RecursionError):
                continue
            yield {normalise(key): value for key, value in found.items()}
            break


def _forms(text: str) -> Iterator[str]:
    """The text as it is, then with more and more mended that is not JSON."""
    yield text
    mended = _LAST_COMMA.sub(r"\1", _UNQUOTED.sub(r'\1"\2"', _COMMENT.sub("", text)))
    yield mended
    yield mended.translate(_QUOTES)


def _entries(stated: Mapping[str, Json], part: str) -> Iterator[Entry]:
    """The pairs of one part, those of objects within it included."""
    pairs = stated.get(part)
    for name, value in pairs.items() if isinstance(pairs, dict) else ():
        if isinstance(value, dict):
            yield from (Entry(*pair) for pair in value.items())
        else:
            yield Entry(name, value)


def _understood(
    entries: list[Entry], names: Mapping[str, str], read: Callable[[Json], T | None]
) -> list[tuple[str, T]]:
    """Cards and values of the entries that have both."""
    found = []
    for entry in entries:
        card, value = names.get(_word(entry.name)), read(entry.value)
        if card is not None and value is not None:
            found.append((card, value))
    return found


def _card_names(game: CluedoBase) -> dict[str, str]:
    """What a card may be called -> its name in this deck."""
    cards = game.deck.index
    names = {normalise(phrase): own for phrase, own in game.synonyms().items() if own in cards}
    return names | {normalise(card): card for card in cards}


def _holder_names(game: CluedoBase, player: int) -> dict[str, int]:
    """What a holder may be called -> its number."""
    own = normalise(game.seat_names[player])
    found = dict.fromkeys(("me", "i", "myself", "mine", "my hand", f"{own} me"), player)
    found |= dict.fromkeys(("envelope", "in envelope", "in the envelope"), game.num_players)
    for seat, name in enumerate(game.seat_names):
        known = (normalise(name), f"player{seat}", f"p{seat}", f"p {seat}", str(seat))
        found |= dict.fromkeys(known, seat)
    return found


def _word(value: Json) -> str:
    """A name or a seat's number as plain words; "" for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 100:
        value = f"{value}" if value >= 0 else ""
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        return ""
    return normalise(value).removeprefix("the ")


def _number(value: Json) -> Number | None:
    """A probability in some unit: finite and not negative."""
    bare = True
    if isinstance(value, str):
        text = value.strip()[:LONGEST_NAME]
        bare = not text.endswith("%")
        fraction = _FRACTION.fullmatch(text)
        try:
            value = float(text.removesuffix("%")) / (1 if bare else 100)
        except ValueError:
            if fraction is None or not int(fraction[2]):
                return None
            value, bare = int(fraction[1]) / int(fraction[2]), False
    usable = isinstance(value, int | float) and 0 <= value <= GREATEST  # False for NaN.
    return Number(float(value), bare) if usable else None


def _normalised(numbers: Mapping[str, Number], category: tuple[str, ...]) -> dict[str, float]:
    """The probabilities within one category; none if they add up to nothing."""
    stated = {card: numbers[card] for card in category if card in numbers}
    percent = any(number.bare and number.value > 1 for number in stated.values())
    weights = {
        card: number.value / 100 if percent and number.bare else number.value
        for card, number in stated.items()
    }
    total = sum(weights.values())
    return {card: weight / total for card, weight in weights.items()} if total else {}
