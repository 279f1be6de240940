"""Liar's dice: hidden dice, rising bids and challenges.

The rules are those of OpenSpiel's `liars_dice` (two players, one challenge, the highest face is
wild), extended to 2-6 players, to games until one player has dice left, and to other wild faces.
C. P. Ferguson and T. S. Ferguson, "Models for the game of liar's dice", Stochastic Games and
Related Topics (1991), 15-28, treat the game with one die of the bidder.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import Literal

from pydantic import Field

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ChanceOutcome,
    Event,
    Game,
    Observation,
    ReturnScale,
    State,
)
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions

Hand = tuple[int, ...]
"""The dice of one player, in ascending order; faces are numbered from 1."""

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
"""Names of the faces, from 1."""


class LiarsDiceOptions(SeatOptions):
    """Options of `liars_dice`; the defaults of the rules are those of OpenSpiel."""

    players: int = Field(2, ge=2, le=6, description="Number of seats.")
    dice: int = Field(2, ge=1, le=6, description="Dice of each player at the start.")
    faces: int = Field(6, ge=2, le=len(NUMBERS), description="Faces of a die.")
    wild: Literal["highest", "ones", "none"] = Field(
        "highest", description="Face that counts as every other face: 'highest', 'ones' or 'none'."
    )
    rounds: Literal["single", "last_standing"] = Field(
        "single",
        description="'single': the first challenge ends the game. 'last_standing': the loser of a "
        "challenge loses a die, until one player has dice left.",
    )


@dataclass(frozen=True, slots=True)
class RollHand(Action):
    """Chance: roll the dice of the next player. The order of the dice does not count."""

    dice: Hand

    def __str__(self) -> str:
        return f"roll {' '.join(map(str, self.dice))}"


@dataclass(frozen=True, slots=True)
class DiceBid(Action, template="bid {self.claim}"):
    """Claim that at least `quantity` dice on the table count as `face`."""

    quantity: int
    face: int

    @property
    def claim(self) -> str:
        """The bid without its verb, e.g. `3 fives`."""
        return f"{self.quantity} {face_name(self.face, self.quantity)}"


@dataclass(frozen=True, slots=True)
class Challenge(Action, template="challenge"):
    """Doubt the last bid: all dice are shown, and the bidder or the challenger loses."""


CHALLENGE = Challenge()


def face_name(face: int, quantity: int = 2) -> str:
    """Return the name of a face, e.g. `fives`; singular for one die."""
    name = NUMBERS[face - 1]
    if quantity == 1:
        return name
    return "sixes" if name == "six" else f"{name}s"


@dataclass(frozen=True, slots=True)
class RoundStarted(Event):
    """Public: the players roll their dice."""

    number: int
    dice: tuple[int, ...]
    """Number of dice of each player."""
    first: int
    """The player who bids first."""


@dataclass(frozen=True, slots=True)
class DiceRolled(PrivateEvent):
    """Private: the dice of one player."""

    dice: Hand


@dataclass(frozen=True, slots=True)
class BidMade(Event):
    """Public: a player bids."""

    player: int
    quantity: int
    face: int

    @property
    def bid(self) -> DiceBid:
        """The bid as an action."""
        return DiceBid(self.quantity, self.face)


@dataclass(frozen=True, slots=True)
class DiceRevealed(Event):
    """Public: a challenge, all dice on the table, and who loses."""

    challenger: int
    bidder: int
    quantity: int
    face: int
    count: int
    """Dice on the table that count as `face`."""
    loser: int
    hands: tuple[Hand, ...]

    @property
    def bid(self) -> DiceBid:
        """The bid that was challenged."""
        return DiceBid(self.quantity, self.face)

    @property
    def verdict(self) -> str:
        """The truth of the bid: `true` or `false`."""
        return "false" if self.loser == self.bidder else "true"


class LiarsDice(Game):
    """Liar's dice; `LiarsDiceOptions` lists the options.

    Example:
        >>> game = LiarsDice(players=2, dice=1)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, RollHand((5,)))
        >>> state.apply(CHANCE, RollHand((2,)))
        >>> state.apply(0, DiceBid(1, 5))
        >>> state.apply(1, CHALLENGE)
        >>> state.returns()
        (1.0, -1.0)
    """

    Text = "games.liars_dice.text:LiarsDiceText"
    Analysis = "games.liars_dice.knowledge:LiarsDiceAnalysis"
    View = "games.liars_dice.text:LiarsDiceView"
    Talk = "games.liars_dice.knowledge:LiarsDiceTalk"
    default_bots = ("reader", "counter")
    level_bots = ("easy", "counter", "reader")

    name = "liars_dice"
    title = "Liar's dice"
    summary = "bid on hidden dice, or challenge the last bid"
    Options = LiarsDiceOptions
    options: LiarsDiceOptions
    return_scale = ReturnScale("score", "", -1.0, 1.0)

    @cached_property
    def wild_face(self) -> int | None:
        """The face that counts as every face; None if there is none."""
        # OpenSpiel's `liars_dice` has the highest face wild; the game of pubs has the ones.
        return {"highest": self.options.faces, "ones": 1, "none": None}[self.options.wild]

    @property
    def faces(self) -> range:
        """All faces of a die."""
        return range(1, self.options.faces + 1)

    @property
    def total_dice(self) -> int:
        """Number of dice on the table at the start."""
        return self.options.players * self.options.dice

    @cached_property
    def bids(self) -> tuple[DiceBid, ...]:
        """All bids, lowest first."""
        numbers = range(1, self.total_dice + 1)
        return tuple(DiceBid(quantity, face) for quantity in numbers for face in self.faces)

    @property
    def turn_bound(self) -> int:
        """All bids and a challenge in each round, which costs a die."""
        rounds = 1 if self.options.rounds == "single" else self.total_dice - 1
        return rounds * (len(self.bids) + 1)

    def _all_actions(self) -> Iterable[Action]:
        return (*self.bids, CHALLENGE)

    def raises(self, last: DiceBid | None, total: int) -> Sequence[DiceBid]:
        """Return the bids above `last` of at most `total` dice, lowest first."""
        # Bids are numbered in ascending order: by their quantity, then by their face.
        start = 0 if last is None else self.actions.index[last] + 1
        return self.bids[start : total * self.options.faces]

    @cached_property
    def _legal_sets(self) -> dict[tuple[DiceBid | None, int], ActionSet]:
        return {}

    def legal_after(self, last: DiceBid | None, total: int) -> ActionSet:
        """Return the legal actions after a bid (None: before the first) with `total` dice left.

        The sets are kept: their keys are public, and complete sets do not show who used them.
        """
        known = self._legal_sets.get((last, total))
        if known is None:
            raises = self.raises(last, total)
            actions = self.actions.subset(raises if last is None else (*raises, CHALLENGE))
            known = self._legal_sets[last, total] = actions.complete()
        return known

    def matches(self, hand: Iterable[int], face: int) -> int:
        """Return the number of dice that count as `face`."""
        counting = (face, self.wild_face)
        return sum(die in counting for die in hand)

    def initial_state(self) -> LiarsDiceState:
        return LiarsDiceState(self)

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action ends the round."""
        return action == CHALLENGE

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the legal actions without bids that the player's own dice show to be false."""
        notes = observation.notes
        hidden = sum(notes.hidden.values())
        possible = [
            action
            for action in observation.legal_actions
            if not isinstance(action, DiceBid)
            or action.quantity <= notes.seen_matches(action.face) + hidden
        ]
        # With none left, the player can only lose, whatever is drawn.
        return possible or observation.legal_actions


@lru_cache(maxsize=64)
def hand_distribution(dice: int, faces: int) -> tuple[tuple[Hand, float], ...]:
    """Return all hands of some dice in ascending order, each with its probability.

    A hand with c[k] dice of face k is one of n! / (c[1]! ... c[faces]!) ordered throws of n dice,
    and each ordered throw has the probability faces^-n.
    """
    found = []
    for hand in combinations_with_replacement(range(1, faces + 1), dice):
        # Orders of equal dice are the same throw.
        same = math.prod(map(math.factorial, Counter(hand).values()))
        found.append((hand, math.factorial(dice) // same / faces**dice))
    return tuple(found)


@lru_cache(maxsize=64)
def rolls(dice: int, faces: int) -> Mapping[Action, ChanceOutcome]:
    """Return the outcomes of one player's roll, by action."""
    # Only public numbers enter the cache.
    outcomes = (ChanceOutcome(RollHand(h), p) for h, p in hand_distribution(dice, faces))
    return {outcome.action: outcome for outcome in outcomes}


class LiarsDiceState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: LiarsDice

    def __init__(self, game: LiarsDice) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.round = 0
        self.first = 0
        self.dice_left = (game.options.dice,) * game.num_players
        self.hands: tuple[Hand, ...] = ((),) * game.num_players
        self.last: BidMade | None = None
        self.revealed: DiceRevealed | None = None

    @property
    def roller(self) -> int | None:
        """The next seat that rolls its dice; None if all have rolled."""
        for seat, dice in enumerate(self.dice_left):
            if dice and not self.hands[seat]:
                return seat
        return None

    def is_out(self, player: int) -> bool:
        return super().is_out(player) or not self.dice_left[player]

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return all hands of the next seat that rolls."""
        return list(self._rolls.values())

    @property
    def _rolls(self) -> Mapping[Action, ChanceOutcome]:
        seat = self.roller
        assert seat is not None
        return rolls(self.dice_left[seat], self.game.options.faces)

    def _is_possible(self, action: Action) -> bool:
        # A look-up instead of a search: six dice of ten faces have 5005 hands.
        return action in self._rolls

    def _legal_actions(self, player: int) -> ActionSet:
        """Return the higher bids of a possible quantity, then the challenge if there is a bid."""
        return self.game.legal_after(self.last.bid if self.last else None, sum(self.dice_left))

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case DiceBid(quantity, face):
                self.last = BidMade(player, quantity, face)
                self.log.append(self.last)
                self._begin_turn(self._next_seat(player))
            case RollHand(dice):
                self._roll(dice)
            case Challenge():
                self._challenge(player)

    def _roll(self, dice: Hand) -> None:
        seat = self.roller
        assert seat is not None
        # The first roll of a round announces it. Events before the first move reach no replay.
        if not any(self.hands):
            self.round += 1
            self.log.append(RoundStarted(self.round, self.dice_left, self.first))
        self.hands = (*self.hands[:seat], dice, *self.hands[seat + 1 :])
        # Private: the log shows it to this seat only.
        self.log.append(DiceRolled(seat, dice))
        if self.roller is None:
            self._begin_turn(self.first)

    def _next_seat(self, player: int) -> int:
        """Return the next seat with dice, in ascending order around the table."""
        seats: list[int] = [*range(player + 1, len(self.dice_left)), *range(player + 1)]
        return next(seat for seat in seats if self.dice_left[seat])

    def _challenge(self, player: int) -> None:
        """Show all dice and find the loser; start the next round unless one player has all dice."""
        assert self.last is not None
        bidder, quantity, face = self.last.player, self.last.quantity, self.last.face
        count = sum(self.game.matches(hand, face) for hand in self.hands)
        # "At least": a bid that is exactly met is true.
        loser = bidder if count < quantity else player
        self.revealed = DiceRevealed(player, bidder, quantity, face, count, loser, self.hands)
        self.log.append(self.revealed)
        self.to_act = ()
        if self.game.options.rounds == "last_standing":
            left = self.dice_left[loser] - 1
            self.dice_left = (*self.dice_left[:loser], left, *self.dice_left[loser + 1 :])
            self.last, self.hands = None, ((),) * self.game.num_players
            # The loser bids first in the next round, or the one after it if it has no dice.
            self.first = loser if left else self._next_seat(loser)
            if sum(n > 0 for n in self.dice_left) > 1:
                self.to_act = (CHANCE,)

    def returns(self) -> tuple[float, ...]:
        """Return 0 for all until the end of the game.

        Of a single round: 1 for the winner of the challenge, -1 for its loser, 0 for the others, as
        in OpenSpiel. Of a game until one is left: 1 for that player, -1 shared by the others.
        """
        seats, end = range(len(self.dice_left)), self.revealed
        if self.to_act or end is None:
            return (0.0,) * len(seats)
        if self.game.options.rounds == "last_standing":
            # The sum of all returns is 0.
            rest = -1 / (len(seats) - 1)
            return tuple(1.0 if self.dice_left[seat] else rest for seat in seats)
        # Of the challenger and the bidder, the winner is the one who does not lose.
        winner = end.bidder if end.loser == end.challenger else end.challenger
        return tuple(float(seat == winner) - float(seat == end.loser) for seat in seats)

    def reason(self) -> str:
        assert self.revealed is not None
        names, end = self.game.seat_names, self.revealed
        if self.game.options.rounds == "last_standing":
            return f"only {names[self.first]} has dice left"
        return f"{names[end.challenger]} challenged {end.bid.claim}, which was {end.verdict}"
