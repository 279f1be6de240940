"""Measurements of stated beliefs.

They are read from the details of a decision, which may come from a file by any author. Parts that
do not have the form that `score_beliefs` writes are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import JsonValue

from arena import WeightedSum
from games.cluedo.analysis.judgements import SeenCards
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.text.beliefs import relative_entropy

GREATEST_SCORE = 100.0
"""Upper limit for a score; no score of `score_beliefs` can reach it."""
DECK_SIZE = 21
"""Cards in the full deck: the upper limit for a count of cards."""


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
        **_deductions(beliefs, seen),
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


def _deductions(beliefs: Mapping[str, JsonValue], seen: SeenCards) -> dict[str, WeightedSum]:
    """Return precision and recall of the cards stated as certain, own cards left out.

    `deduced_…` leave out all cards whose place was seen, of which long games have more.
    """
    counts = {}
    # A replay may be forged: one invalid count makes all of them worthless.
    for name in ("right", "own", "false", "premature", "missed"):
        count = beliefs.get(f"sure_{name}")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= DECK_SIZE:
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
