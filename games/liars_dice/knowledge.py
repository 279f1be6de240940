"""Facts that one viewer of liar's dice has read, its arrays, and exact probabilities of bids.

The rules allow every higher bid with any dice. So a bid excludes no hand, and what logically
follows for a seat is: its own dice are known, and the n hidden dice are independent and uniform.
The number of hidden dice that count as a face is binomial,

    P(K >= k) = sum_{i=k}^{n} C(n, i) p^i (1 - p)^(n - i),

with p = 2 / faces if another face is wild, else 1 / faces. What bids suggest, given an assumption
about how others play, is in `games.liars_dice.bots`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from arena import Action, ArraySpec, Event, GameArrays, Notes, Observation, Placement
from arena.core.analysis import Knowledge
from arena.core.statements import GameTalk
from games.liars_dice.game import LiarsDice
from games.liars_dice.moves import (
    BidMade,
    DiceBid,
    DiceRevealed,
    DiceRolled,
    Hand,
    RoundStarted,
    face_name,
    hand_distribution,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DiceNotes(Notes):
    """The present round as its viewer sees it. Texts, arrays, bots and views read it.

    Args:
        game: The game that is played.
        player: The seat of the viewer; -1 for a viewer who sees everything.
    """

    game: LiarsDice

    def __init__(self, game: LiarsDice, player: int) -> None:
        super().__init__(game, player)
        self.round = 0
        self.first = 0
        self.dice_left = (game.options.dice,) * game.num_players
        """Number of dice of each seat on the table in this round."""
        self.hands: dict[int, Hand] = {}
        """The hands that the viewer has seen in this round, by seat."""
        self.bids: list[BidMade] = []
        """The bids of this round."""
        self.revealed: DiceRevealed | None = None
        """The end of this round; None before it."""
        self.palifico = False
        """True if no face is wild in this round, and all bids name one face."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        if isinstance(event, BidMade):  # The most frequent one.
            self.bids.append(event)
        elif isinstance(event, RoundStarted):
            # All of an earlier round is void: the dice are rolled again.
            self.round, self.dice_left, self.first = event.number, event.dice, event.first
            self.palifico = event.palifico
            self.hands, self.bids, self.revealed = {}, [], None
        elif isinstance(event, DiceRolled):
            self.hands[event.player] = event.dice
        elif isinstance(event, DiceRevealed):
            # From here on every hand is open, until the next roll.
            self.hands = {seat: hand for seat, hand in enumerate(event.hands) if hand}
            self.revealed = event

    @property
    def own(self) -> Hand:
        """The viewer's own dice; empty before the roll, and for a seat without dice."""
        return self.hands.get(self.player, ())

    @property
    def last_bid(self) -> DiceBid | None:
        """The highest bid of this round."""
        return self.bids[-1].bid if self.bids else None

    @property
    def total(self) -> int:
        """Number of dice on the table."""
        return sum(self.dice_left)

    @property
    def hidden(self) -> int:
        """Number of dice that the viewer has not seen."""
        return sum(n for seat, n in enumerate(self.dice_left) if seat not in self.hands)

    def seen_matches(self, face: int) -> int:
        """Return the number of seen dice that count as `face`."""
        return sum(self.matches(hand, face) for hand in self.hands.values())

    def matches(self, hand: Hand, face: int) -> int:
        """Return the number of dice of a hand that count as `face` in this round."""
        return self.game.matches(hand, face, self.palifico)

    @property
    def raises(self) -> list[DiceBid]:
        """The bids above the last one, lowest first."""
        return self.game.raises(self.last_bid, self.total, self.palifico)


class LiarsDiceArrays(GameArrays):
    """Observations of liar's dice as arrays."""

    game: LiarsDice

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players, dice = self.game.num_players, self.game.options.dice
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "dice": ArraySpec(shape=(players, self.game.options.faces), low=0, high=dice),
            "dice_left": ArraySpec(shape=(players,), low=0, high=dice),
            "bids": ArraySpec(shape=(players, len(self.game.bids)), low=0, high=1),
            **({"palifico": ArraySpec((1,), 0, 1)} if self.game.options.palifico else {}),
        }

    @cached_property
    def _columns(self) -> dict[tuple[int, int], int]:
        """The column of each bid, by quantity and face."""
        return {(bid.quantity, bid.face): n for n, bid in enumerate(self.game.bids)}

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays of this round; rows are players from the observer on.

        `player` has the seat, `dice` the number of seen dice of each face, `bids` the bids that
        each player made, lowest bid first, `palifico` a 1 in such a round.
        """
        notes, me, at, columns = observation.notes, observation.player, self._offsets, self._columns
        assert isinstance(notes, DiceNotes)
        players, block = self.game.num_players, bytearray(self._seat_blocks[me])
        dice, left, bids = at["dice"] - 1, at["dice_left"], at["bids"]
        # The observer is always row 0, so that a network need not learn each seat.
        for seat, hand in notes.hands.items():
            row = dice + (seat - me) % players * self.game.options.faces
            # Counts per face from 1, since the order of dice does not matter.
            for die in hand:
                block[row + die] += 1
        block[left : left + players] = (*notes.dice_left[me:], *notes.dice_left[:me])
        for made in notes.bids:
            row = bids + (made.player - me) % players * len(columns)
            block[row + columns[made.quantity, made.face]] = 1
        if notes.palifico:
            block[at["palifico"]] = 1
        return self._from_block(block)


# Exact knowledge


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


def match_chance(game: LiarsDice, face: int, palifico: bool = False) -> float:
    """Return p, the probability that a hidden die counts as `face`."""
    # The wild face itself is counted once; each other face also counts the wild ones.
    counting = 1 if palifico or game.wild_face in (None, face) else 2
    return counting / game.options.faces


def bid_probability(notes: DiceNotes, bid: DiceBid) -> float:
    """Return the exact probability that a bid is true, given the dice that the viewer has seen."""
    # Own dice are certain; only the rest of the bid depends on hidden dice.
    needed = bid.quantity - notes.seen_matches(bid.face)
    return tail(notes.hidden, match_chance(notes.game, bid.face, notes.palifico), needed)


def exact_probability(notes: DiceNotes, bid: DiceBid) -> float:
    """Return the probability that a bid names the exact number, given the dice that were seen."""
    more = DiceBid(bid.quantity + 1, bid.face)
    # P(K = q) = P(K >= q) - P(K >= q + 1).
    return bid_probability(notes, bid) - bid_probability(notes, more)


class LiarsDiceKnowledge:
    """Exact knowledge of one seat: the dice that it has seen, and nothing about the others.

    Args:
        game: The game that is played.
        player: The seat.

    Example:
        >>> from games.liars_dice.game import LiarsDice
        >>> from games.liars_dice.moves import DiceRolled, RoundStarted
        >>> knowledge = LiarsDiceKnowledge(LiarsDice(players=2, dice=1), 0)
        >>> knowledge.update(RoundStarted(1, (1, 1), 0))
        >>> knowledge.update(DiceRolled(0, (6,)))
        >>> knowledge.world_count()
        6
        >>> knowledge.count_probabilities(5)  # None or one of the hidden dice: 5 or wild 6.
        [0.6666666666666667, 0.3333333333333333]
    """

    def __init__(self, game: LiarsDice, player: int) -> None:
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
        hidden, chance = sum(self._hidden_hands()), self._chance(face)
        # Dice that a challenge has shown are certain; the binomial is shifted by their matches.
        shown = notes.seen_matches(face) - notes.matches(notes.own, face)
        found = [0.0] * (others + 1)
        for k in range(hidden + 1):
            found[shown + k] = math.comb(hidden, k) * chance**k * (1 - chance) ** (hidden - k)
        return found

    def _chance(self, face: int) -> float:
        return match_chance(self.notes.game, face, self.notes.palifico)

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


class LiarsDiceTalk(GameTalk):
    """Bids as statements. A bid that is more probably false than true is a bluff."""

    game: LiarsDice
    bluff_below = 0.5

    def statements(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Action]:
        """Return a bid."""
        return (action,) if isinstance(action, DiceBid) else ()

    def probability(self, statement: Action, speaker: int, knowledge: Knowledge) -> float | None:
        """Return the probability that a bid is true, given the bidder's own dice."""
        assert isinstance(knowledge, LiarsDiceKnowledge) and isinstance(statement, DiceBid)
        return knowledge.probability(statement)
