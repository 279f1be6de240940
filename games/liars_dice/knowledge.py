"""Exact probabilities of bids, and the exact knowledge of one seat.

The rules allow every higher bid with any dice. So a bid excludes no hand, and what logically
follows for a seat is: its own dice are known, and the n hidden dice are independent and uniform.
The number of hidden dice that count as a face is binomial,

    P(K >= k) = sum_{i=k}^{n} C(n, i) p^i (1 - p)^(n - i),

with p = 2 / faces if another face is wild, else 1 / faces. What bids suggest, given an assumption
about how others play, is in `games.liars_dice.reading`.
"""

from __future__ import annotations

import math
from functools import lru_cache

from arena import Event, Placement
from games.liars_dice.base import DiceBid, LiarsDiceBase, face_name
from games.liars_dice.notes import DiceNotes
from games.liars_dice.state import hand_distribution


@lru_cache(maxsize=4096)
def tail(trials: int, chance: float, least: int) -> float:
    """Return the probability of at least `least` successes in independent trials.

    It is exactly 1 for `least` <= 0 and exactly 0 for `least` > `trials`.
    """
    if least <= 0:
        return 1.0
    # An exact sum of few terms: n is at most 36.
    terms = (
        math.comb(trials, i) * chance**i * (1 - chance) ** (trials - i)
        for i in range(least, trials + 1)
    )
    # Rounding must not give a probability above 1.
    return min(1.0, math.fsum(terms))


def match_chance(game: LiarsDiceBase, face: int) -> float:
    """Return p, the probability that a hidden die counts as `face`."""
    # The wild face itself is counted once; each other face also counts the wild ones.
    counting = 1 if game.wild_face in (None, face) else 2
    return counting / game.options.faces


def bid_probability(notes: DiceNotes, bid: DiceBid) -> float:
    """Return the exact probability that a bid is true, given the dice that the viewer has seen."""
    # Own dice are certain; only the rest of the bid depends on hidden dice.
    needed = bid.quantity - notes.seen_matches(bid.face)
    return tail(notes.hidden, match_chance(notes.game, bid.face), needed)


class LiarsDiceKnowledge:
    """Exact knowledge of one seat: the dice that it has seen, and nothing about the others.

    Args:
        game: The game that is played.
        player: The seat.

    Example:
        >>> from games.liars_dice.game import LiarsDice
        >>> from games.liars_dice.base import DiceRolled, RoundStarted
        >>> knowledge = LiarsDiceKnowledge(LiarsDice(players=2, dice=1), 0)
        >>> knowledge.update(RoundStarted(1, (1, 1), 0))
        >>> knowledge.update(DiceRolled(0, (6,)))
        >>> knowledge.world_count()
        6
        >>> knowledge.count_probabilities(5)  # None or one of the hidden dice: 5 or wild 6.
        [0.6666666666666667, 0.3333333333333333]
    """

    def __init__(self, game: LiarsDiceBase, player: int) -> None:
        self.notes = DiceNotes(game, player)
        """The facts that it rests on."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self.notes.update(event)

    def _hidden_hands(self) -> list[int]:
        """Return the number of dice of each other hand that is hidden."""
        notes = self.notes
        return [
            n
            # A seat without dice is out, and a shown hand is no longer hidden.
            for seat, n in enumerate(notes.dice_left)
            if n and seat != notes.player and seat not in notes.hands
        ]

    def entropy(self) -> float:
        """Return the uncertainty about the hands of the others, in bits; order does not count."""
        faces = self.notes.game.options.faces
        # Hands are independent, so their entropies add up.
        # H = -sum p log2 p, over multisets with their multinomial probabilities.
        return -math.fsum(
            p * math.log2(p)
            for dice in self._hidden_hands()
            for _, p in hand_distribution(dice, faces)
        )

    def world_count(self) -> int:
        """Return the number of possible hands of the others; order does not count."""
        faces = self.notes.game.options.faces
        # Multisets of n dice: C(n + faces - 1, n).
        return math.prod(math.comb(n + faces - 1, n) for n in self._hidden_hands())

    def count_probabilities(self, face: int) -> list[float]:
        """Return the probability that 0, 1, ... of the others' dice count as `face`."""
        notes = self.notes
        others = sum(n for seat, n in enumerate(notes.dice_left) if seat != notes.player)
        hidden, chance = sum(self._hidden_hands()), match_chance(notes.game, face)
        # Dice that a challenge has shown are certain; the binomial is shifted by their matches.
        shown = notes.seen_matches(face) - notes.game.matches(notes.own, face)
        found = [0.0] * (others + 1)
        for k in range(hidden + 1):
            found[shown + k] = math.comb(hidden, k) * chance**k * (1 - chance) ** (hidden - k)
        return found

    def placement(self) -> Placement:
        """Return the distribution of the number of others' dice that count, one row per face."""
        game = self.notes.game
        columns = game.total_dice - game.options.dice + 1
        rows = [self.count_probabilities(face) for face in game.faces]
        return Placement(
            things=tuple(face_name(face) for face in game.faces),
            kinds=("number of the others' dice that count",) * len(rows),
            places=tuple(map(str, range(columns))),
            # Lost dice leave columns of zeros at the end.
            probabilities=tuple((*row, *[0.0] * (columns - len(row)))[:columns] for row in rows),
        )

    def probability(self, bid: DiceBid) -> float:
        """Return the probability that a bid is true; once all dice are shown, 0 or 1."""
        return bid_probability(self.notes, bid)
