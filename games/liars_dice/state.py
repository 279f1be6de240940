"""Positions of liar's dice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement

from arena import CHANCE, Action, ActionSet, ChanceOutcome, State
from games.liars_dice.base import (
    BidMade,
    DiceBid,
    DiceRevealed,
    DiceRolled,
    Hand,
    LiarsDiceBase,
    RollHand,
    RoundStarted,
)


@lru_cache(maxsize=64)
def hand_distribution(dice: int, faces: int) -> tuple[tuple[Hand, float], ...]:
    """Return all hands of some dice in ascending order, each with its probability.

    A hand with c[k] dice of face k is one of n! / (c[1]! ... c[faces]!) ordered throws of n dice,
    and each ordered throw has the probability faces^-n.
    """
    found = []
    for hand in combinations_with_replacement(range(1, faces + 1), dice):
        orders = math.factorial(dice)
        # Orders of equal dice are the same throw.
        for count in Counter(hand).values():
            orders //= math.factorial(count)
        found.append((hand, orders / faces**dice))
    return tuple(found)


@lru_cache(maxsize=64)
def roll_outcomes(dice: int, faces: int) -> dict[Action, ChanceOutcome]:
    """Return the outcomes of one player's roll, by action. Only public numbers enter the cache."""
    outcomes = (ChanceOutcome(RollHand(h), p) for h, p in hand_distribution(dice, faces))
    return {outcome.action: outcome for outcome in outcomes}


class LiarsDiceState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: LiarsDiceBase

    def __init__(self, game: LiarsDiceBase) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.round = 0
        self.first = 0
        self.dice_left = (game.options.dice,) * game.num_players
        self.hands: tuple[Hand, ...] = ((),) * game.num_players
        self.last: BidMade | None = None
        self.revealed: DiceRevealed | None = None

    @property
    def total(self) -> int:
        """Number of dice on the table."""
        return sum(self.dice_left)

    @property
    def roller(self) -> int | None:
        """The next seat that rolls its dice; None if all have rolled."""
        for seat, dice in enumerate(self.dice_left):
            if dice and not self.hands[seat]:
                return seat
        return None

    def _rolls(self) -> dict[Action, ChanceOutcome]:
        assert self.roller is not None
        return roll_outcomes(self.dice_left[self.roller], self.game.options.faces)

    def is_out(self, player: int) -> bool:
        return super().is_out(player) or not self.dice_left[player]

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return all hands of the next seat that rolls."""
        return list(self._rolls().values())

    def _is_possible(self, action: Action) -> bool:
        # A look-up instead of a search: six dice of ten faces have 5005 hands.
        return action in self._rolls()

    def _legal_actions(self, player: int) -> ActionSet:
        """Return the higher bids of a possible quantity, then the challenge if there is a bid."""
        return self.game.legal_after(self.last.bid if self.last else None, self.total)

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case RollHand(dice):
                self._roll(dice)
            case DiceBid(quantity, face):
                self.last = BidMade(player, quantity, face)
                self.log.append(self.last)
                self._set_player(self._next_seat(player))
            case _:
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
            self._set_player(self.first)

    def _set_player(self, player: int) -> None:
        self.to_act = (player,)
        self.turn += 1

    def _next_seat(self, player: int) -> int:
        """Return the next seat with dice, in ascending order around the table."""
        seats = self.game.num_players
        order = ((player + step) % seats for step in range(1, seats + 1))
        return next(seat for seat in order if self.dice_left[seat])

    def _challenge(self, player: int) -> None:
        assert self.last is not None
        bid = self.last.bid
        count = sum(self.game.matches(hand, bid.face) for hand in self.hands)
        # "At least": a bid that is exactly met is true.
        loser = player if count >= bid.quantity else self.last.player
        self.revealed = DiceRevealed(
            player, self.last.player, bid.quantity, bid.face, count, loser, self.hands
        )
        self.log.append(self.revealed)
        if self.game.options.rounds == "single":
            self.to_act = ()
        else:
            self._remove_die(loser)

    def _remove_die(self, loser: int) -> None:
        """Take a die from the loser; start the next round unless one player has all dice."""
        self.dice_left = tuple(n - (seat == loser) for seat, n in enumerate(self.dice_left))
        self.last, self.hands = None, ((),) * self.game.num_players
        # The loser bids first in the next round, or the seat after a loser without dice.
        self.first = loser if self.dice_left[loser] else self._next_seat(loser)
        # The event of the challenge is the last one of its round.
        standing = sum(n > 0 for n in self.dice_left)
        self.to_act = (CHANCE,) if standing > 1 else ()

    def returns(self) -> tuple[float, ...]:
        """Return 0 for all until the end of the game.

        Of a single round: 1 for the winner of the challenge, -1 for its loser, 0 for the others, as
        in OpenSpiel. Of a game until one is left: 1 for that player, -1 shared by the others.
        """
        seats = range(self.game.num_players)
        if not self.is_terminal or self.revealed is None:
            return (0.0,) * len(seats)
        if self.game.options.rounds == "last_standing":
            # The sum of all returns is 0.
            rest = -1 / (len(seats) - 1)
            return tuple(1.0 if self.dice_left[seat] else rest for seat in seats)
        end = self.revealed
        # Of the two in the challenge, the winner is the one who does not lose.
        winner = end.bidder if end.loser == end.challenger else end.challenger
        return tuple(float(seat == winner) - float(seat == end.loser) for seat in seats)

    def reason(self) -> str:
        assert self.revealed is not None
        names, end = self.game.seat_names, self.revealed
        if self.game.options.rounds == "last_standing":
            return f"only {names[self.first]} has dice left"
        found = "true" if end.loser == end.challenger else "false"
        return f"{names[end.challenger]} challenged {end.bid.claim}, which was {found}"
