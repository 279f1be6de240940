"""What stated beliefs add to the measures.

They are read from the details of a decision, which may come from a file that anybody wrote: what
is not as `score_beliefs` writes it is left out, part by part.
"""

from __future__ import annotations

from collections.abc import Mapping

from arena import Json, Share
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple

GREATEST_SCORE = 100.0
"""More than any score of `score_beliefs` can be."""


def stated_shares(beliefs: Json, knowledge: CluedoKnowledge) -> dict[str, Share]:
    """The shares of one answer; `knowledge` is exact and of the same moment."""
    if not isinstance(beliefs, dict):
        return {}
    if beliefs.get("failure") == "provider_error":
        return {}  # Nobody answered.
    if "failure" in beliefs:
        return {"belief_failures": Share(1.0)}
    shares = {
        **_distances(beliefs),
        **_deductions(beliefs),
        **_calibration(beliefs, knowledge),
    }
    return {"belief_failures": Share(0.0), **shares} if shares else {}


def _distances(beliefs: Mapping[str, Json]) -> dict[str, Share]:
    shares = {}
    for name in ("log_score", "brier"):
        scores = beliefs.get(name)
        total = _number(scores.get("total"), GREATEST_SCORE) if isinstance(scores, dict) else None
        if total is not None:
            shares[name] = Share(total)
    return shares


def _deductions(beliefs: Mapping[str, Json]) -> dict[str, Share]:
    counts = {}
    for name in ("right", "own", "false", "premature", "missed"):
        count = beliefs.get(f"sure_{name}")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 21:
            return {}
        counts[name] = count
    right = counts["right"] - counts["own"]
    if right < 0:
        return {}
    claimed = right + counts["false"] + counts["premature"]
    provable = right + counts["missed"]
    shares = {"precision": Share(right, claimed), "recall": Share(right, provable)}
    return {name: share for name, share in shares.items() if share.weight}


def _calibration(beliefs: Mapping[str, Json], knowledge: CluedoKnowledge) -> dict[str, Share]:
    """Per tenth of the stated probability: its sum, and that of the exact probabilities."""
    stated, deck = beliefs.get("envelope"), knowledge.game.deck
    if not isinstance(stated, dict):
        return {}
    named = beliefs.get("unstated")
    unstated = named if isinstance(named, list) else []
    exact = knowledge.marginals()
    shares: dict[str, Share] = {}
    for category, cards in zip(Triple._fields, deck.categories, strict=True):
        for card in cards if category not in unstated else ():
            posterior = exact[deck.index[card]]
            probability = _number(stated.get(card, 0.0), 1.0)
            if probability is None or posterior[knowledge.player] or not posterior.any():
                continue  # Its own card, or an open one, needs no belief.
            number = min(9, int(10 * probability))
            for name, value in (
                (f"stated/{number}", probability),
                (f"calibration/{number}", float(posterior[knowledge.envelope])),
            ):
                shares[name] = shares.get(name, Share(0.0, 0.0)) + Share(value)
    return shares


def _number(value: Json, greatest: float) -> float | None:
    """A number from 0 to `greatest`; NaN is none, and neither is a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= greatest else None
