"""Stated beliefs of a player: the question, the scores and their measurements.

The question is not part of the game, and the answer is not an action. Answers are compared with the
`CluedoKnowledge` of the same player after the same events. Measurements are read from the details
of a decision, which may come from a file by any author. Parts that do not have the form that
`score_beliefs` writes are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import Observation, WeightedSum
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Accuse
from games.cluedo.text.belief_parser import read_beliefs
from games.cluedo.text.notebook import SeenCards

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


Floats = NDArray[np.float64]

FLOOR = 1e-3
"""Least stated probability in the logarithmic score. Without it a false 0 would cost infinity."""

DIGITS = 6
"""Decimals of the returned numbers; the computation is not rounded."""


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


def score_beliefs(
    game: CluedoSetting, answer: str, observation: Observation
) -> dict[str, JsonValue]:
    """Return the parsed answer and its scores; `{"failure": "unparsable"}` without beliefs.

    - `sure`: {card: holder}, where the envelope is number `num_players`; `envelope`: {card:
      probability}; `unstated` and `ignored`: as in `StatedBeliefs`.
    - Counts of cards. Each card in `sure` is `sure_right` (its only possible holder), `sure_false`
      (an impossible holder) or `sure_premature` (possible, not certain). `sure_own`: the right
      cards in the player's own hand, which need no deduction. `sure_missed`: certain, not in the
      own hand, and not stated.
    - {category: value, "total": sum over the categories}, for the categories of `Triple`:
      `log_score` in bits (`relative_entropy`), `brier` (`excess_brier`) and, for comparison,
      `posterior_entropy` in bits. The latter also has "joint": the entropy of the three cards
      together, at most the total. An unstated category is scored as uniform over its cards.
    """
    beliefs = read_beliefs(game, observation.player, answer)
    if beliefs is None:
        return {"failure": "unparsable"}
    knowledge = CluedoKnowledge.after(game, observation.player, observation.events)
    return {
        "sure": {**beliefs.sure},
        "envelope": {card: round(share, DIGITS) for card, share in beliefs.envelope.items()},
        "unstated": list(beliefs.unstated),
        "ignored": beliefs.ignored,
        **_score_sure(knowledge, beliefs.sure),
        **_score_envelope(knowledge, beliefs.envelope),
    }


def _score_sure(knowledge: CluedoKnowledge, sure: Mapping[str, int]) -> dict[str, JsonValue]:
    """Return the counts of the cards that are stated as certain."""
    index, possible = knowledge.game.deck.index, knowledge.possible()
    certain = {card: holder for card in index if (holder := knowledge.holder(card)) is not None}
    own = {card for card, holder in certain.items() if holder == knowledge.player}
    right = {card for card, holder in sure.items() if certain.get(card) == holder}
    false = {card for card, holder in sure.items() if not possible[index[card], holder]}
    return {
        "sure_right": len(right),
        "sure_own": len(right & own),
        "sure_false": len(false),
        "sure_premature": len(sure.keys() - right - false),
        "sure_missed": len(certain.keys() - own - sure.keys()),
    }


def _score_envelope(
    knowledge: CluedoKnowledge, envelope: Mapping[str, float]
) -> dict[str, JsonValue]:
    """Return the scores of the stated probabilities, per category and in total."""
    deck, marginals = knowledge.game.deck, knowledge.marginals()
    log_score, brier, bits = {}, {}, {}
    for category, cards in zip(Triple._fields, deck.categories, strict=True):
        posterior = marginals[[deck.index[card] for card in cards], knowledge.envelope]
        # A card that is left out has probability 0.
        stated = np.array([envelope.get(card, 0.0) for card in cards])
        if not stated.any():  # Unstated: uniform.
            stated[:] = 1 / len(cards)
        log_score[category] = relative_entropy(posterior, stated)
        brier[category] = excess_brier(posterior, stated)
        bits[category] = entropy(posterior)
    return {
        "log_score": _with_total(log_score),
        "brier": _with_total(brier),
        "posterior_entropy": {**_with_total(bits), "joint": round(knowledge.entropy(), DIGITS)},
    }


def _with_total(scores: Mapping[str, float]) -> dict[str, JsonValue]:
    values = {**scores, "total": sum(scores.values())}
    return {name: round(value, DIGITS) for name, value in values.items()}


def relative_entropy(posterior: Floats, stated: Floats) -> float:
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


def excess_brier(posterior: Floats, stated: Floats) -> float:
    """Return sum_c (q_c - p_c)^2, from 0 to 2; p, q and shapes as in `relative_entropy`.

    The score of Brier (1950, "Verification of forecasts expressed in terms of probability") is the
    squared error against the real card. Its expectation for q exceeds that for p by this amount.
    """
    return float(np.sum((stated - posterior) ** 2))


def entropy(posterior: Floats) -> float:
    """Return -sum_c p_c log2 p_c, in bits; shape (cards,)."""
    p = posterior[posterior > 0]
    return float(-np.sum(p * np.log2(p))) + 0.0  # Not -0.0.


# Measurements


GREATEST_SCORE = 100.0
"""Upper limit for a score; no score of `score_beliefs` can reach it."""


def belief_measurements(
    beliefs: JsonValue, knowledge: CluedoKnowledge, seen: SeenCards
) -> dict[str, WeightedSum]:
    """Return the measurements of one answer.

    Args:
        beliefs: The scored answer, as `score_beliefs` returns it.
        knowledge: The exact knowledge of the same player at the same moment.
        seen: The part of that knowledge that takes no deduction.
    """
    if not isinstance(beliefs, dict):
        return {}
    if beliefs.get("failure") == "provider_error":
        return {}  # There was no answer.
    if "failure" in beliefs:
        return {"belief_failures": WeightedSum(1.0)}
    measurements = {
        **_distances(beliefs, knowledge, seen),
        **_deductions(beliefs, knowledge, seen),
        **_recalls(beliefs, knowledge, seen),
        **_calibration(beliefs, knowledge),
    }
    # Total 0 and weight 1: an answer that stated beliefs.
    return {"belief_failures": WeightedSum(0.0), **measurements} if measurements else {}


def _distances(
    beliefs: Mapping[str, JsonValue], knowledge: CluedoKnowledge, seen: SeenCards
) -> dict[str, WeightedSum]:
    """Return the total scores, summed over the three categories."""
    measurements = {}
    for name in ("log_score", "brier"):
        scores = beliefs.get(name)
        total = _number(scores.get("total"), GREATEST_SCORE) if isinstance(scores, dict) else None
        if total is not None:
            measurements[name] = WeightedSum(total)
    if "log_score" in measurements:
        # Relative to beliefs without any deduction, which have the ratio 1 at any length of game.
        score = measurements["log_score"].total
        measurements["belief_error"] = WeightedSum(score, _score_of_seen(knowledge, seen))
    return measurements


def _score_of_seen(knowledge: CluedoKnowledge, seen: SeenCards) -> float:
    """Return the logarithmic score of equal probabilities for all cards that were not seen."""
    index, marginals, total = knowledge.game.deck.index, knowledge.marginals(), 0.0
    for left in seen.candidates():
        posterior = marginals[[index[card] for card in left], knowledge.envelope]
        total += relative_entropy(posterior, np.full(len(left), 1 / len(left)))
    return total


def _deductions(
    beliefs: Mapping[str, JsonValue], knowledge: CluedoKnowledge, seen: SeenCards
) -> dict[str, WeightedSum]:
    """Return precision and recall of the cards stated as certain, own cards left out.

    `deduced_…` leave out all cards whose place was seen, of which long games have more.
    """
    counts, most = {}, len(knowledge.game.deck.cards)
    # A replay may be forged: one invalid count makes all of them worthless.
    for name in ("right", "own", "false", "premature", "missed"):
        count = beliefs.get(f"sure_{name}")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= most:
            return {}
        counts[name] = count
    # Own cards need no deduction.
    right = counts["right"] - counts["own"]
    if right < 0:
        return {}
    # precision = right / (right + false + premature), recall = right / (right + missed).
    claimed = right + counts["false"] + counts["premature"]
    provable = right + counts["missed"]
    measurements = {
        "precision": WeightedSum(right, claimed),
        "recall": WeightedSum(right, provable),
    }
    sure = beliefs.get("sure")
    stated = sure if isinstance(sure, dict) else {}
    # Of the cards whose place was seen, those that were stated too.
    seen_right = sum(stated.get(card) == holder for card, holder in seen.holders.items())
    if right >= seen_right and provable >= len(seen.holders):
        deduced = right - seen_right
        measurements["deduced_precision"] = WeightedSum(deduced, claimed - seen_right)
        measurements["deduced_recall"] = WeightedSum(deduced, provable - len(seen.holders))
    return {name: weighted for name, weighted in measurements.items() if weighted.weight}


def inference_of(card: str, knowledge: CluedoKnowledge, seen: SeenCards) -> str:
    """Return the kind of inference by which a place is certain that is not the own hand."""
    index, holder = knowledge.game.deck.index, knowledge.holder(card)
    if holder == knowledge.envelope:
        kind = next(cards for cards in knowledge.game.deck.categories if card in cards)
        # An open card has no holder, but is not in the envelope.
        left = knowledge.possible()[[index[other] for other in kind if other != card]]
        # Placed cards have one possible holder. Where some are not placed, only questions about
        # this card can tell.
        return "exclusion" if (left.sum(1) <= 1).all() else "cannot_show"
    if seen.holders.get(card) == holder:
        return "shown"
    for triple in seen.showings.get(holder, ()) if holder is not None else ():
        others = [index[other] for other in triple if other != card]
        if card in triple and not knowledge.possible()[others, holder].any():
            return "one_of_three"
    return "counting"


def _recalls(
    beliefs: Mapping[str, JsonValue], knowledge: CluedoKnowledge, seen: SeenCards
) -> dict[str, WeightedSum]:
    """Return the share of provable places that are stated as certain, by kind of inference."""
    sure = beliefs.get("sure")
    stated = sure if isinstance(sure, dict) else {}
    found: dict[str, WeightedSum] = {}
    for card in knowledge.game.deck.index:
        holder = knowledge.holder(card)
        if holder not in (None, knowledge.player):
            name = f"recall_{inference_of(card, knowledge, seen)}"
            right = WeightedSum(float(stated.get(card) == holder))
            found[name] = found.get(name, WeightedSum(0.0, 0.0)) + right
    return found


def _calibration(
    beliefs: Mapping[str, JsonValue], knowledge: CluedoKnowledge
) -> dict[str, WeightedSum]:
    """Return the sums of stated and of exact probabilities, per tenth of the stated one."""
    stated, deck = beliefs.get("envelope"), knowledge.game.deck
    if not isinstance(stated, dict):
        return {}
    names = beliefs.get("unstated")
    unstated = names if isinstance(names, list) else []
    # Shape (cards, seats + 1): the probability of each place of each card.
    exact = knowledge.marginals()
    sums: dict[str, WeightedSum] = {}
    for category, cards in zip(Triple._fields, deck.categories, strict=True):
        for card in cards if category not in unstated else ():
            posterior = exact[deck.index[card]]
            probability = _number(stated.get(card, 0.0), 1.0)
            # Own cards and open cards (a row of zeros) need no belief.
            if probability is None or posterior[knowledge.player] or not posterior.any():
                continue
            # The probability 1 belongs to the last bin.
            number = min(9, int(10 * probability))
            for name, value in (
                (f"stated/{number}", probability),
                (f"calibration/{number}", float(posterior[knowledge.envelope])),
            ):
                sums[name] = sums.get(name, WeightedSum(0.0, 0.0)) + WeightedSum(value)
    return sums


def _number(value: JsonValue, greatest: float) -> float | None:
    """Return a number from 0 to `greatest`, else None (for NaN and booleans too)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= greatest else None
