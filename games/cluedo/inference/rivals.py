"""Estimates of what the rivals of one player can know, from the events that this player witnessed.

A player sees the questions of its rivals, who refuted them, and that no rival has accused so far.
It does not see their hands, nor most of the cards that they were shown. So a few deals are drawn
from its exact posterior. In each of them, the view of a rival is complete except for cards that
other seats showed it, which are drawn evenly from those that they could show.

The rival is taken for one of three kinds of players:

- `reasons`: it excludes what follows by unit conclusions (`propagate`) from all that it witnessed;
- `takes notes`: it excludes the cards that it has seen, and solves by its own unrefuted questions;
- `guesses`: it names any cards, and hardly ever solves the case.

The kinds and the drawn deals are weighted by Bayes' rule: a player names cards that it has not
excluded, each such question being equally likely, and accuses when one envelope is left. A player
of the first two kinds departs from that in a share `SLIP` of its decisions. Rivals at one table
tend to be alike, so the prior of a kind is its share among them, estimated with equal priors first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import log, prod

import numpy as np

from arena import Event
from games.cluedo.inference.constraints import propagate
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    CardShown,
    DealCards,
    Dealt,
    HandDealt,
    Refuted,
    Suggested,
    TurnBegan,
)
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.text.notebook import SeenCards

NUM_DEALS = 6
"""Deals that are drawn from the posterior."""

RIVAL_SHARPNESS, OWN_SHARPNESS = 0.75, 0.5
"""A player that reasons and has n equally likely envelopes left solves the case in its next turn
with probability n^-SHARPNESS. That is more than 1/n, because it learns from its own question and
from those of the others until then; most of all the oracle, which asks the best questions. Chosen
among 0.5, 0.6, 0.75 and 1 in games of four and six players."""

SLIP = 0.05
"""Share of decisions in which a player departs from the description of its kind."""


def waiting_value(entropy: float, chances: Sequence[float]) -> float:
    """Return the probability to win without accusing now, of a player whose turn ends.

    A race: in each round the rivals solve the case with probabilities `chances`, then the player
    does with probability q = 2^(-OWN_SHARPNESS * entropy), entropy in bits. With S the probability
    that no rival solves it in a round, the sum over rounds is

        S q + S (1 - q) S q + … = S q / (1 - S (1 - q)).
    """
    own = 2 ** (-OWN_SHARPNESS * entropy)
    undecided = prod(1 - chance for chance in chances)
    return undecided * own / (1 - undecided * (1 - own))


def solving_chances(
    knowledge: CluedoKnowledge, events: Sequence[Event], rivals: Sequence[int]
) -> list[float]:
    """Return, per rival, the probability that it solves the case in its next turn.

    Args:
        knowledge: The knowledge of the player who estimates, after `events`.
        events: All events that this player witnessed, in order.
        rivals: Other seats that are still in the game.
    """
    # Seeded by the number of events: equal views give equal estimates, and the bot's own generator
    # stays as it was.
    rng = random.Random(len(events))
    deals = [knowledge.sample(rng) for _ in range(NUM_DEALS)]
    tables = [
        # Shape (deals, 2, kinds): the weight of the rival's decisions as a logarithm; its chance.
        [(view.log_weights, view.chances()) for view in views]
        for rival in rivals
        for views in [[RivalView(knowledge, rival, deal, events, rng) for deal in deals]]
    ]
    logarithms, chances = np.array(tables, dtype=np.float64).transpose(2, 0, 1, 3)
    # Only ratios count: the greatest weight of each rival becomes 1, so that none vanishes.
    weights = np.exp(logarithms - logarithms.max(axis=(1, 2), keepdims=True))
    # P(kind | decisions of the rival), shape (rivals, kinds), with equal priors.
    kinds = weights.sum(axis=1) / weights.sum(axis=(1, 2))[:, None]
    # Shares of the kinds at this table, with one rival of each kind added (Laplace's rule).
    prior = (kinds.sum(axis=0) + 1) / (len(kinds) + kinds.shape[1])
    weights = weights * prior
    result: list[float] = ((weights * chances).sum((1, 2)) / weights.sum((1, 2))).tolist()
    return result


class RivalView:
    """View of one rival under one deal, and the weight of each kind of player.

    Attributes:
        log_weights: Logarithms of the probability of the rival's decisions: it reasons, it takes
            notes, it guesses. The weights of several deals and kinds together are proportional to
            their posterior.
    """

    def __init__(
        self,
        knowledge: CluedoKnowledge,
        rival: int,
        deal: DealCards,
        events: Sequence[Event],
        rng: random.Random,
    ) -> None:
        self.game: CluedoSetting = knowledge.game
        self.rival, self.deal = rival, deal
        self._observer, self._rng = knowledge.player, rng
        self._logic = CluedoKnowledge(self.game, rival, "logic")
        self._hand = set(deal.hands[rival])
        self._seen = SeenCards(self.game, rival)
        self._in_turn, self._named = -1, Triple("", "", "")
        self.log_weights = [0.0, 0.0, 0.0]
        for event in events:
            self._update(event)

    def chances(self) -> list[float]:
        """Return, per kind of player, its chance to solve the case in its next turn."""
        reasoned, noted = (prod(map(len, left)) for left in self._candidates())
        # A note-taker learns from its own question only, and mostly when no seat can refute it.
        return [reasoned**-RIVAL_SHARPNESS, 1 / noted, 0.0]

    def _candidates(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the cards, per category, that a reasoner and a note-taker have not excluded."""
        constraints = self._logic.constraints.copy()
        propagate(constraints)
        index, possible = self.game.deck.index, constraints.holders[-1].may
        categories = self.game.deck.categories
        reasoned = [[card for card in c if possible >> index[card] & 1] for c in categories]
        return reasoned, self._seen.candidates()

    def _update(self, event: Event) -> None:
        """Add one event of the observer, as the rival witnesses it."""
        match event:
            # The rival sees no hand but its own, which follows the deal.
            case HandDealt():
                return
            case CardShown(suggester=suggester) if suggester != self.rival:
                return
            case TurnBegan(player):
                if self._in_turn == self.rival:
                    self._weigh_silence()
                self._in_turn = player
            case Suggested(player):
                self._named = event.triple
                if player == self.rival:
                    self._weigh_question()
        self._learn(event)
        match event:
            case Dealt():
                self._learn(HandDealt(self.rival, self.deal.hands[self.rival]))
            case Refuted(player, suggester) if suggester == self.rival:
                # A card that the observer showed is known, and its own event follows.
                if player != self._observer:
                    held = [card for card in self._named if card in self.deal.hands[player]]
                    self._update(CardShown(player, self.rival, self._rng.choice(held)))

    def _learn(self, event: Event) -> None:
        self._logic.update(event)
        self._seen.update(event)

    def _weigh_question(self) -> None:
        """Weigh the probability of the rival's question."""
        # On the board the pawn's place decides about the room.
        count = 2 if self.game.has_board else 3
        everything = prod(map(len, self.game.deck.categories[:count]))
        for kind, left in enumerate(self._candidates()):
            # A solved category is named with an own card, if there is one.
            targets = [
                [card for card in category if card in self._hand] or cards
                if len(cards) == 1
                else cards
                for cards, category in zip(left, self.game.deck.categories, strict=True)
            ][:count]
            fits = all(card in cards for card, cards in zip(self._named, targets, strict=False))
            likely = (1 - SLIP) / prod(map(len, targets)) if fits else 0.0
            self.log_weights[kind] += log(likely + SLIP / everything)
        self.log_weights[-1] -= log(everything)

    def _weigh_silence(self) -> None:
        """Weigh the probability of a turn that ends without an accusation."""
        for kind, left in enumerate(self._candidates()):
            if all(len(cards) == 1 for cards in left):
                self.log_weights[kind] += log(SLIP)
