"""Stated beliefs of a player: the question, the answer and its measurements.

The question is not part of the game, and the answer is not an action. Answers are compared with the
`CluedoKnowledge` of the same player after the same events. Recorded answers may come from a file by
any author: entries of another form than `read_beliefs` writes are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import Observation, WeightedSum, normalise
from arena.core.analysis import Measurements, sum_measurements
from arena.core.text import json_object
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.setting import Accuse

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


FLOOR = 1e-3
"""Least stated probability in the logarithmic score. Without it a false 0 would cost infinity."""


def belief_question(game: CluedoSetting, observation: Observation) -> str | None:
    """Return the question if the player may accuse; None if it shows a card or moves."""
    if not observation.legal_actions.of(Accuse):
        return None
    # The example names another player, in a form that is valid at this table.
    other = game.seat_names[(observation.player + 1) % game.num_players]
    return (
        "Before you go on: what do you believe? This is not a move; name no action. Answer with "
        "one JSON object of this form:\n"
        f'{{"sure": {{"CARD": "{other}"}}, "envelope": {{"CARD": 0.25}}}}\n'
        'Under "sure": each card whose place is certain, and where it is: a player\'s name, '
        '"envelope" or "me". Under "envelope": the probability of each suspect, weapon and room '
        "to be in the envelope; cards that you leave out have 0."
    )


def read_beliefs(game: CluedoSetting, player: int, answer: str) -> dict[str, JsonValue]:
    """Return the beliefs of an answer; `{"failure": "unparsable"}` without a JSON object of them.

    `sure` has the holder of each card by its number, that of the envelope is `num_players`;
    `envelope` the probabilities, which add up to 1 in each stated category. Entries without a card
    of the deck or a valid value are left out.
    """
    found = json_object(answer)
    sure, envelope = found.get("sure"), found.get("envelope")
    if not isinstance(sure, dict) or not isinstance(envelope, dict):
        return {"failure": "unparsable"}
    cards = {normalise(card): card for card in game.deck.index}
    holders = {normalise(name): seat for seat, name in enumerate(game.seat_names)}
    holders |= {"envelope": game.num_players, "me": player}
    named = {cards.get(normalise(n)): holders.get(normalise(str(v))) for n, v in sure.items()}
    places = {card: at for card, at in named.items() if card is not None and at is not None}
    # No unit of probability needs numbers above 1e9, and sums stay finite.
    weights = {cards.get(normalise(name)): _number(v, 1e9) for name, v in envelope.items()}
    shares: dict[str, JsonValue] = {}
    for category in game.deck.categories:
        stated = {card: weight for card in category if (weight := weights.get(card))}
        # Only ratios count, so percentages are as good as shares.
        total = sum(stated.values())
        shares |= {card: round(weight / total, 6) for card, weight in stated.items()}
    return {"sure": {**places}, "envelope": shares}


def relative_entropy(posterior: NDArray[np.float64], stated: NDArray[np.float64]) -> float:
    """Return sum_c p_c log2(p_c / q_c) in bits; p is the posterior, q the stated distribution.

    Shape (cards,) both. This is the expected loss in logarithmic score compared with stating p
    itself (Good 1952, "Rational decisions"; Cover & Thomas, "Elements of Information Theory",
    section 2.3). q_c is at least `FLOOR` and is not normalised again, so that q = p scores 0. The
    maximum is log2(1 / FLOOR), about 10 bits. The floor could make a sum negative, by at most 0.013
    bits; the result is then 0.
    """
    possible = posterior > 0  # Terms with p_c = 0 are 0.
    p, q = posterior[possible], np.maximum(stated[possible], FLOOR)
    return max(0.0, float(np.sum(p * np.log2(p / q))))


# Measurements


def belief_measurements(stated: JsonValue, knowledge: CluedoKnowledge) -> dict[str, WeightedSum]:
    """Return the measurements of an answer, as `read_beliefs` returns it.

    `knowledge` is that of the same player at the same moment; its facts take no deduction.
    """
    if not isinstance(stated, dict) or stated.get("failure") == "provider_error":
        return {}  # There was no answer.
    if "failure" in stated:
        return {"belief_failures": WeightedSum(1.0)}
    sure, envelope = stated.get("sure"), stated.get("envelope")
    if not isinstance(sure, dict) or not isinstance(envelope, dict):
        return {}
    index = knowledge.game.deck.index
    places = {
        card: holder
        for card, holder in sure.items()
        if card in index and type(holder) is int and 0 <= holder <= knowledge.envelope
    }
    numbers = {card: _number(value, 1.0) for card, value in envelope.items()}
    measured = (*_places(places, knowledge), _error(numbers, knowledge))
    # Total 0 and weight 1: an answer that stated beliefs.
    return sum_measurements(measured) | {"belief_failures": WeightedSum(0.0)}


def _error(stated: Mapping[str, float | None], knowledge: CluedoKnowledge) -> Measurements:
    """Return the error of the stated probabilities."""
    deck, exact, error, of_seen = knowledge.game.deck, knowledge.marginals(), 0.0, 0.0
    # Equal probabilities for all cards that were not seen take no deduction: their error is the
    # scale, at any length of the game.
    for cards in deck.categories:
        left = knowledge.facts.candidates(cards)
        posterior = {card: exact[deck.index[card], knowledge.envelope] for card in cards}
        shares = np.array([stated.get(card) or 0.0 for card in cards])
        if not shares.any():
            shares[:] = 1 / len(cards)
        error += relative_entropy(np.array([*posterior.values()]), shares)
        even = np.full(len(left), 1 / len(left))
        of_seen += relative_entropy(np.array([posterior[card] for card in left]), even)
    return {"belief_error": WeightedSum(error, of_seen)}


def _places(stated: Mapping[str, int], knowledge: CluedoKnowledge) -> Iterator[Measurements]:
    """Yield precision and recall of the cards stated as certain.

    Own cards are left out, and cards whose place was seen, of which long games have more.
    """
    for card in knowledge.game.deck.index:
        holder, place = knowledge.holder(card), stated.get(card)
        if holder == knowledge.player and place in (None, holder):
            continue
        is_provable = holder not in (None, knowledge.player)
        kind = inference_of(card, knowledge) if is_provable else ""
        right = WeightedSum(float(place == holder))
        names = [f"recall_{kind}"] if is_provable else []
        if place is not None and (kind != "shown" or place != holder):
            names.append("deduced_precision")
        if is_provable and kind != "shown":
            names.append("deduced_recall")
        yield dict.fromkeys(names, right)


def inference_of(card: str, knowledge: CluedoKnowledge) -> str:
    """Return the kind of inference by which a place is certain that is not the own hand."""
    index, holder = knowledge.game.deck.index, knowledge.holder(card)
    if holder == knowledge.envelope:
        kind = next(cards for cards in knowledge.game.deck.categories if card in cards)
        # An open card has no holder, but is not in the envelope.
        left = knowledge.possible()[[index[other] for other in kind if other != card]]
        # Placed cards have one possible holder. Where some are not placed, only questions about
        # this card can tell.
        return "exclusion" if (left.sum(1) <= 1).all() else "cannot_show"
    if knowledge.facts.shown.get(card) == holder:
        return "shown"
    for says, holders, named in knowledge.facts.statements:
        if says == "one of" and holders == (holder,) and card in named:
            others = [index[other] for other in named if other != card]
            if not knowledge.possible()[others, holder].any():
                return "one_of_three"
    return "counting"


def _number(value: JsonValue, greatest: float) -> float | None:
    """Return a number from 0 to `greatest`, else None (for NaN and booleans too)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= greatest else None
