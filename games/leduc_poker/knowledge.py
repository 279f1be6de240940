"""Exact probabilities of a hand of Leduc hold'em, and the knowledge of one seat.

The declared model of play: the other player draws evenly from its legal moves. These do not depend
on its card, so its moves reveal nothing, and the posterior is that of the unseen copies. This is
also what logically follows from the events. `strategy.hand_probabilities` takes any other model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from arena import Event, Placement
from arena.core.observation import ObservedGame
from games.leduc_poker.betting import CARDS, card_chances, strength
from games.leduc_poker.notes import LeducNotes
from games.leduc_poker.strategy import Strategy, hand_probabilities


@dataclass(frozen=True, slots=True)
class ShowdownChances:
    """Probabilities of the results if both cards are shown at the end; they add up to 1."""

    win: float
    tie: float

    @property
    def lose(self) -> float:
        """Probability that the other hand is better."""
        return max(0.0, 1 - self.win - self.tie)

    @property
    def share(self) -> float:
        """Expected share of the pot: a tie gives half of it."""
        return self.win + self.tie / 2


def showdown_chances(notes: LeducNotes, strategy: Strategy | None = None) -> ShowdownChances:
    """Return the chances of the viewer's hand at a showdown, exact for this model of play.

    Args:
        notes: Facts of the viewer, whose card has been dealt.
        strategy: The model of how the other player plays; None: it moves at random.
    """
    own, win, tie = notes.own, 0.0, 0.0
    for other, chance in hand_probabilities(notes, strategy).items():
        # Before the board card, all of its possible values are summed over.
        boards = {notes.board: 1.0} if notes.board else card_chances((own, other))
        for board, weight in boards.items():
            # Joint probability of the other card and the board card.
            margin = strength(own, board) - strength(other, board)
            win += chance * weight * (margin > 0)
            tie += chance * weight * (margin == 0)
    return ShowdownChances(win, tie)


class LeducKnowledge:
    """Knowledge of one seat about the card of the other one.

    Args:
        game: The game that is played.
        player: The seat.
        strategy: The model of how the other player plays; None: it moves at random.

    Example:
        >>> from games.leduc_poker.game import LeducPoker
        >>> from games.leduc_poker.notes import HoleCardDealt
        >>> knowledge = LeducKnowledge(LeducPoker(), 0)
        >>> knowledge.update(HoleCardDealt(0, "King"))
        >>> knowledge.probabilities()
        {'Jack': 0.4, 'Queen': 0.4, 'King': 0.2}
        >>> knowledge.world_count()
        3
    """

    def __init__(self, game: ObservedGame, player: int, strategy: Strategy | None = None) -> None:
        self.notes = LeducNotes(game, player)
        """The facts that it rests on."""
        self._strategy = strategy

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self.notes.update(event)

    def probabilities(self) -> dict[str, float]:
        """Return the probability of each card of the other player."""
        return hand_probabilities(self.notes, self._strategy)

    def placement(self) -> Placement:
        """Return the probabilities of the other player's card as a table of one row."""
        chances = self.probabilities()
        other = self.notes.game.seat_names[1 - self.notes.player]
        row = tuple(chances.get(card, 0.0) for card in CARDS)
        return Placement((f"card of {other}",), ("hidden card",), CARDS, (row,))

    def entropy(self) -> float:
        """Return the uncertainty about the card of the other player, in bits."""
        # H = -sum p log2 p; cards of probability 0 are not listed.
        return math.fsum(-p * math.log2(p) for p in self.probabilities().values())

    def world_count(self) -> int:
        """Return the number of cards that the other player may have; suits do not count."""
        return len(self.probabilities())
