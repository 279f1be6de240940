"""What a player says it believes: asked, and scored against the exact posterior.

The question is put beside the game: its answer is no move. All scores are for one view, that of
the player who answers, and hold it against `CluedoKnowledge` of the same events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena import Json, Observation
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Accuse
from games.cluedo.text.belief_parser import read_beliefs

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

Floats = NDArray[np.float64]

FLOOR = 1e-3
"""Least stated probability in the logarithmic score: a false "impossible" would cost infinity."""

DIGITS = 6
"""Decimals of the numbers that are given back; they are computed in full."""


def belief_question(game: CluedoBase, observation: Observation) -> str | None:
    """Asked where the player may accuse; None where it shows a card or moves on the board."""
    if not observation.legal_actions.of(Accuse):
        return None
    other = game.seat_names[(observation.player + 1) % game.num_players]
    return (
        "Before you go on: what do you believe? This is not a move; name no action. Answer with "
        "one JSON object of this form:\n"
        f'{{"sure": {{"CARD": "{other}"}}, "envelope": {{"CARD": 0.25}}}}\n'
        'Under "sure": each card whose place is certain, and where it is: a player\'s name, '
        '"envelope" or "me". Under "envelope": the probability of each suspect, weapon and room '
        "to be in the envelope; cards that you leave out have 0."
    )


def score_beliefs(game: CluedoBase, answer: str, observation: Observation) -> dict[str, Json]:
    """The answer, understood, and scored; `{"failure": "unparsable"}` if it states no beliefs.

    - `sure`: {card: holder}, the envelope being number `num_players`; `envelope`: {card:
      probability}; `unstated` and `ignored`: as in `Beliefs`.
    - Counts of cards. Each stated one is `sure_right` (the only holder that is possible),
      `sure_false` (that holder is impossible) or `sure_premature` (possible, not certain).
      `sure_own`: those of the right ones that are in the player's own hand, which needs no
      deduction. `sure_missed`: certain, not its own, and not stated.
    - {category: value, "total": sum over the categories}, for the categories of `Triple`:
      `log_score` in bits (`relative_entropy`), `brier` (`excess_brier`), and, to relate these to,
      `posterior_entropy` in bits. That has "joint" too: the entropy of the three cards together,
      at most the total. A category that is unstated is scored as uniform over all its cards.
    """
    beliefs = read_beliefs(game, observation.player, answer)
    if beliefs is None:
        return {"failure": "unparsable"}
    knowledge = CluedoKnowledge.after(game, observation.player, observation.events)
    return {
        "sure": beliefs.sure,
        "envelope": {card: round(share, DIGITS) for card, share in beliefs.envelope.items()},
        "unstated": list(beliefs.unstated),
        "ignored": beliefs.ignored,
        **_score_sure(knowledge, beliefs.sure),
        **_score_envelope(knowledge, beliefs.envelope),
    }


def _score_sure(knowledge: CluedoKnowledge, sure: Mapping[str, int]) -> dict[str, Json]:
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


def _score_envelope(knowledge: CluedoKnowledge, envelope: Mapping[str, float]) -> dict[str, Json]:
    deck, marginals = knowledge.game.deck, knowledge.marginals()
    log_score, brier, bits = {}, {}, {}
    for category, cards in zip(Triple._fields, deck.categories, strict=True):
        posterior = marginals[[deck.index[card] for card in cards], knowledge.envelope]
        stated = np.array([envelope.get(card, 0.0) for card in cards])
        if not stated.any():
            stated[:] = 1 / len(cards)
        log_score[category] = relative_entropy(posterior, stated)
        brier[category] = excess_brier(posterior, stated)
        bits[category] = entropy(posterior)
    joint = {"joint": round(knowledge.entropy(), DIGITS)}
    return {
        "log_score": _with_total(log_score),
        "brier": _with_total(brier),
        "posterior_entropy": _with_total(bits) | joint,
    }


def _with_total(scores: Mapping[str, float]) -> dict[str, float]:
    values = {**scores, "total": sum(scores.values())}
    return {name: round(value, DIGITS) for name, value in values.items()}


def relative_entropy(posterior: Floats, stated: Floats) -> float:
    """sum_c p_c log2(p_c / q_c) in bits, p the posterior, q what is stated; shape (cards,) both.

    The expected loss in logarithmic score against stating p itself (Good 1952, "Rational
    decisions"; Cover & Thomas, "Elements of Information Theory", section 2.3). q_c is at least
    `FLOOR` and is not normalised again, so that q = p scores 0; the most is log2(1 / FLOOR), about
    10 bits. What the floor adds could bring a sum below 0, by 0.013 bits: it is 0 then.
    """
    open_ = posterior > 0
    p, q = posterior[open_], np.maximum(stated[open_], FLOOR)
    return max(0.0, float(np.sum(p * np.log2(p / q))))


def excess_brier(posterior: Floats, stated: Floats) -> float:
    """sum_c (q_c - p_c)^2, from 0 to 2; p, q and shapes as in `relative_entropy`.

    The score of Brier (1950, "Verification of forecasts expressed in terms of probability"), the
    squared error against what is so, is expected to be greater by this much than if p is stated.
    """
    return float(np.sum((stated - posterior) ** 2))


def entropy(posterior: Floats) -> float:
    """-sum_c p_c log2 p_c, in bits; shape (cards,)."""
    p = posterior[posterior > 0]
    return float(-np.sum(p * np.log2(p))) + 0.0
