"""Parser of the answers to `belief_question`: tolerant of small faults in the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pydantic import JsonValue

from arena import normalise
from games.cluedo.rules.cards import Triple

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting

T = TypeVar("T")

MAX_OBJECTS, MAX_LENGTH = 64, 16_384
"""Limits of the search for JSON: the number of opening braces that are tried, from the last one on,
and the number of characters read behind each."""

LONGEST_NAME = 64
"""Limit of a name or a number in characters; longer texts are ignored."""

GREATEST = 1e9
"""Limit of a number: no unit of probability needs more, and sums stay finite."""

# Common faults of models' JSON: comments, superfluous commas and dots, 40% or 1/6 without quotes,
# other kinds of quotes. Every pattern takes linear time.
_COMMENT = re.compile(r"//[^\n]*")
_LAST_COMMA = re.compile(r",(?:\s*\.{3})?(\s*[}\]])")
_UNQUOTED = re.compile(r"(:\s*)(\d{0,9}\.?\d{1,9}\s?%|\d{1,9}\s?/\s?\d{1,9})")
_QUOTES = str.maketrans("'‘’“”", '"""""')
_FRACTION = re.compile(r"(\d{1,9})\s?/\s?(\d{1,9})")
_DECODER = json.JSONDecoder(strict=False)  # Models break lines within strings.


class WrittenNumber(NamedTuple):
    """A probability as it is written in the answer."""

    value: float
    bare: bool
    """Whether the unit is unknown: 40 may mean 0.4 or 40, "40%" always means 0.4."""


class BeliefEntry(NamedTuple):
    """One pair of a JSON object."""

    name: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class StatedBeliefs:
    """Beliefs of an answer, with the names of the game."""

    sure: dict[str, int]
    """Card -> holder: a seat, or `num_players` for the envelope."""
    envelope: dict[str, float]
    """Card -> probability to be in the envelope. They sum to 1 in each stated category."""
    unstated: tuple[str, ...]
    """Categories, named as in `Triple`, without any probability above 0."""
    ignored: int
    """Number of entries without a card of the deck or without a valid holder or probability."""


def read_beliefs(game: CluedoSetting, player: int, answer: str) -> StatedBeliefs | None:
    """Return the beliefs that `answer` states; None if no JSON object in it states beliefs.

    - The last object with both "sure" and "envelope" counts, else the last one with either.
    - Cards may have the names of both editions and of `game.text.synonyms()`, in any case.
    - Holders are "Player 2", "P2", "2" or 2, "envelope" or "me".
    - Probabilities are numbers, "40%" or "1/6".
    - Entries may be one level deeper, in one object per category.
    - Numbers without a unit are percentages if one of their category exceeds 1.
    - Each category is normalised to sum to 1.

    It never raises. Apart from the search for braces, the time is bounded for any length.
    """
    stated = _beliefs_object(answer)
    if stated is None:
        return None
    names, holders = _card_names(game), _holder_names(game, player)
    places, weights = list(_entries(stated, "sure")), list(_entries(stated, "envelope"))
    sure = _parse_entries(places, names, lambda value: holders.get(_word(value)))
    numbers = _parse_entries(weights, names, _number)
    shares = [_normalise_category(dict(numbers), category) for category in game.deck.categories]
    return StatedBeliefs(
        sure=dict(sure),
        envelope={card: share for category in shares for card, share in category.items()},
        unstated=tuple(k for k, share in zip(Triple._fields, shares, strict=True) if not share),
        ignored=len(places) + len(weights) - len(sure) - len(numbers),
    )


def _beliefs_object(answer: str) -> dict[str, JsonValue] | None:
    """Return the last object with both parts, else the last one with one part."""
    best = None
    for candidate in _objects(answer):  # The last object comes first.
        parts = sum(isinstance(candidate.get(part), dict) for part in ("sure", "envelope"))
        if parts == 2:
            return candidate
        if parts and best is None:
            best = candidate
    return best


def _objects(answer: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the JSON objects of a text, the last first, with normalised keys."""
    at = len(answer)
    for _ in range(MAX_OBJECTS):
        # From the last brace on; an inner object usually has neither part and is passed over.
        at = answer.rfind("{", 0, at)
        if at < 0:
            return
        # The first version that decodes counts, so valid JSON is never repaired.
        for text in _repairs(answer[at : at + MAX_LENGTH]):
            try:
                decoded, _end = _DECODER.raw_decode(text)
            except (ValueError, RecursionError):
                continue
            yield {normalise(key): value for key, value in decoded.items()}
            break


def _repairs(text: str) -> Iterator[str]:
    """Yield the unchanged text, then versions with more and more faults repaired."""
    yield text
    repaired = _LAST_COMMA.sub(r"\1", _UNQUOTED.sub(r'\1"\2"', _COMMENT.sub("", text)))
    yield repaired
    # Last, because an apostrophe within a string becomes a quote too.
    yield repaired.translate(_QUOTES)


def _entries(stated: Mapping[str, JsonValue], part: str) -> Iterator[BeliefEntry]:
    """Yield the entries of one part, those of nested objects included."""
    pairs = stated.get(part)
    for name, value in pairs.items() if isinstance(pairs, dict) else ():
        if isinstance(value, dict):
            yield from (BeliefEntry(*pair) for pair in value.items())
        else:
            yield BeliefEntry(name, value)


def _parse_entries(
    entries: list[BeliefEntry], names: Mapping[str, str], parse: Callable[[JsonValue], T | None]
) -> list[tuple[str, T]]:
    """Return card and value of the entries in which both are valid."""
    pairs = []
    for entry in entries:
        card, value = names.get(_word(entry.name)), parse(entry.value)
        if card is not None and value is not None:
            pairs.append((card, value))
    return pairs


def _card_names(game: CluedoSetting) -> dict[str, str]:
    """Return all names of cards, normalised -> the name in this deck."""
    cards = game.deck.index
    names = {normalise(phrase): own for phrase, own in game.text.synonyms().items() if own in cards}
    # The right operand wins: a card's own name outweighs a synonym.
    return names | {normalise(card): card for card in cards}


def _holder_names(game: CluedoSetting, player: int) -> dict[str, int]:
    """Return all names of holders, normalised -> the number of the holder."""
    # "Player 2 (me)" is "player 2 me" when normalised.
    own = normalise(game.seat_names[player])
    holders = dict.fromkeys(("me", "i", "myself", "mine", "my hand", f"{own} me"), player)
    holders |= dict.fromkeys(("envelope", "in envelope", "in the envelope"), game.num_players)
    for seat, name in enumerate(game.seat_names):
        spellings = (normalise(name), f"player{seat}", f"p{seat}", f"p {seat}", str(seat))
        holders |= dict.fromkeys(spellings, seat)
    return holders


def _word(value: JsonValue) -> str:
    """Return a name or the number of a seat as normalised text, "" for anything else."""
    # The bound keeps huge integers from being written out.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 100:
        value = f"{value}" if value >= 0 else ""
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        return ""
    return normalise(value).removeprefix("the ")


def _number(value: JsonValue) -> WrittenNumber | None:
    """Return a finite number that is not negative, None for anything else."""
    bare = True
    if isinstance(value, str):
        text = value.strip()[:LONGEST_NAME]
        # A percent sign fixes the unit.
        bare = not text.endswith("%")
        fraction = _FRACTION.fullmatch(text)
        try:
            value = float(text.removesuffix("%")) / (1 if bare else 100)
        except ValueError:
            if fraction is None or not int(fraction[2]):
                return None
            # A fraction has a known unit as well. Up to here `int` sees nine digits at most.
            value, bare = int(fraction[1]) / int(fraction[2]), False
    # The comparison is false for NaN.
    if not isinstance(value, int | float) or not 0 <= value <= GREATEST:
        return None
    return WrittenNumber(float(value), bare)


def _normalise_category(
    numbers: Mapping[str, WrittenNumber], category: tuple[str, ...]
) -> dict[str, float]:
    """Return the probabilities within one category; empty if their sum is 0."""
    stated = {card: numbers[card] for card in category if card in numbers}
    # Numbers without a unit share one: percent, if one of them exceeds 1.
    percent = any(number.bare and number.value > 1 for number in stated.values())
    weights = {
        card: number.value / 100 if percent and number.bare else number.value
        for card, number in stated.items()
    }
    # Sums differ from 1 by rounding or by faults of the model; only the ratios count.
    total = sum(weights.values())
    return {card: weight / total for card, weight in weights.items()} if total else {}
