"""Stated beliefs of a player: the question, and the scores against the exact posterior.

The question is not part of the game, and the answer is not an action. Answers are compared with the
`CluedoKnowledge` of the same player after the same events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import Observation
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Accuse
from games.cluedo.text.belief_parser import read_beliefs

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

Floats = NDArray[np.float64]

FLOOR = 1e-3
"""Least stated probability in the logarithmic score. Without it a false 0 would cost infinity."""

DIGITS = 6
"""Decimals of the returned numbers; the computation is not rounded."""


def belief_question(game: CluedoBase, observation: Observation) -> str | None:
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


def score_beliefs(game: CluedoBase, answer: str, observation: Observation) -> dict[str, JsonValue]:
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
