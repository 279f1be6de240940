"""Liar's dice: hidden dice, rising bids and challenges.

The rules are those of OpenSpiel's `liars_dice` (two players, one challenge, the highest face is
wild), extended to 2-6 players, to games until one player has dice left, and to other wild faces.
`spot_on` (calza) and `palifico` are those of the rules of Perudo (http://www.perudo.com): a right
call never gives more dice than at the start, and a player has one palifico round in a game. Here
only the player in turn calls, in a palifico round no player changes the face, and both rules hold
for two players, too.
C. P. Ferguson and T. S. Ferguson, "Models for the game of liar's dice", Stochastic Games and
Related Topics (1991), 15-28, treat the game with one die of the bidder.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

from arena import CHANCE, Action, ActionSet, ChanceOutcome, Game, Observation, ReturnScale, State
from games.liars_dice.moves import (
    CHALLENGE,
    SPOT_ON,
    BidMade,
    DiceBid,
    DiceRevealed,
    DiceRolled,
    Hand,
    LiarsDiceOptions,
    RollHand,
    RoundStarted,
    SpotOn,
    hand_distribution,
)


class LiarsDice(Game):
    """Liar's dice; `LiarsDiceOptions` lists the options.

    Example:
        >>> from arena import CHANCE
        >>> from games.liars_dice.moves import Challenge, DiceBid, RollHand
        >>> game = LiarsDice(players=2, dice=1)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, RollHand((5,)))
        >>> state.apply(CHANCE, RollHand((2,)))
        >>> state.apply(0, DiceBid(1, 5))
        >>> state.apply(1, Challenge())
        >>> state.returns()
        (1.0, -1.0)
    """

    Text = "games.liars_dice.text:LiarsDiceText"
    Analysis = "games.liars_dice.assessor:LiarsDiceAnalysis"
    Arrays = "games.liars_dice.knowledge:LiarsDiceArrays"
    View = "games.liars_dice.text:LiarsDiceView"
    Talk = "games.liars_dice.knowledge:LiarsDiceTalk"
    default_bots = ("reader", "counter")
    level_bots = ("random", "counter", "reader")

    name = "liars_dice"
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
        bids = [DiceBid(q, face) for q in range(1, self.total_dice + 1) for face in self.faces]
        return tuple(sorted(bids, key=self._rank))

    def _rank(self, bid: DiceBid) -> tuple[int, int]:
        """Return a key by which a higher bid is greater."""
        if self.options.bidding_rule == "reset-face":
            return bid.quantity, bid.face
        return bid.face, bid.quantity

    @property
    def turn_bound(self) -> int | None:
        """All bids and a call in each round; without a bound if a round may cost no die."""
        if self.options.rounds == "single":
            return len(self.bids) + 1
        return None if self.options.spot_on else (self.total_dice - 1) * (len(self.bids) + 1)

    @property
    def default_max_turns(self) -> int | None:
        """About four times the usual length where the rules give no bound."""
        return None if self.turn_bound else 20 * self.total_dice

    def _all_actions(self) -> Iterable[Action]:
        return (*self.bids, *self.calls)

    @cached_property
    def calls(self) -> tuple[Action, ...]:
        """The answers to a bid that end a round."""
        return (CHALLENGE, SPOT_ON) if self.options.spot_on else (CHALLENGE,)

    def raises(self, last: DiceBid | None, total: int, palifico: bool = False) -> list[DiceBid]:
        """Return the bids above `last` of at most `total` dice, lowest first."""
        # Bids are numbered in ascending order, before the challenge.
        start = 0 if last is None else self.actions.index[last] + 1
        faces = self.faces if last is None or not palifico else (last.face,)
        return [bid for bid in self.bids[start:] if bid.quantity <= total and bid.face in faces]

    @cached_property
    def _legal_sets(self) -> dict[tuple[DiceBid | None, int, bool], ActionSet]:
        return {}

    def legal_after(self, last: DiceBid | None, total: int, palifico: bool) -> ActionSet:
        """Return the legal actions after a bid (None: before the first) with `total` dice left.

        The sets are kept: their keys are public, and complete sets do not show who used them.
        """
        known = self._legal_sets.get((last, total, palifico))
        if known is None:
            raises = self.raises(last, total, palifico)
            actions = self.actions.subset(raises if last is None else (*raises, *self.calls))
            known = self._legal_sets[last, total, palifico] = actions.complete()
        return known

    def matches(self, hand: Iterable[int], face: int, palifico: bool = False) -> int:
        """Return the number of dice that count as `face`, in a palifico round or another one."""
        counting = (face, None if palifico else self.wild_face)
        return sum(die in counting for die in hand)

    def initial_state(self) -> LiarsDiceState:
        return LiarsDiceState(self)

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action ends the round."""
        return action in self.calls

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the legal actions without bids that the player's own dice show to be false."""
        hand, total, palifico = Hand(), 0, False
        for event in reversed(observation.events):
            if isinstance(event, DiceRolled):  # Of the player itself: no other roll is witnessed.
                hand = event.dice
            elif isinstance(event, RoundStarted):
                total, palifico = sum(event.dice), event.palifico
                break
        possible = [
            action
            for action in observation.legal_actions
            if not isinstance(action, DiceBid)
            or action.quantity <= self.matches(hand, action.face, palifico) + total - len(hand)
        ]
        # With none left, the player can only lose, whatever is drawn.
        return possible or observation.legal_actions


@lru_cache(maxsize=64)
def roll_outcomes(dice: int, faces: int) -> dict[Action, ChanceOutcome]:
    """Return the outcomes of one player's roll, by action. Only public numbers enter the cache."""
    outcomes = (ChanceOutcome(RollHand(h), p) for h, p in hand_distribution(dice, faces))
    return {outcome.action: outcome for outcome in outcomes}


@lru_cache(maxsize=64)
def roll_sums(dice: int, faces: int) -> tuple[float, ...]:
    """Return the sums of the probabilities of `roll_outcomes`, up to each outcome."""
    return tuple(accumulate(p for _, p in hand_distribution(dice, faces)))


class LiarsDiceState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: LiarsDice

    def __init__(self, game: LiarsDice) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.round = 0
        self.first = 0
        self.palifico = False
        self.had_palifico: frozenset[int] = frozenset()
        """Seats that have had their palifico round."""
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

    def _rolled(self) -> tuple[int, int]:
        """Return the dice that the next seat rolls, and their faces."""
        seat = self.roller
        assert seat is not None
        return self.dice_left[seat], self.game.options.faces

    def is_out(self, player: int) -> bool:
        return super().is_out(player) or not self.dice_left[player]

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return all hands of the next seat that rolls."""
        return list(roll_outcomes(*self._rolled()).values())

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw a hand as `State` does, without adding up the probabilities again."""
        rolled = self._rolled()
        return rng.choices([*roll_outcomes(*rolled)], cum_weights=roll_sums(*rolled))[0]

    def _is_possible(self, action: Action) -> bool:
        # A look-up instead of a search: six dice of ten faces have 5005 hands.
        return action in roll_outcomes(*self._rolled())

    def _legal_actions(self, player: int) -> ActionSet:
        """Return the higher bids of a possible quantity, then the calls if there is a bid."""
        last = self.last.bid if self.last else None
        return self.game.legal_after(last, self.total, self.palifico)

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, DiceBid):
            self.last = BidMade(player, action.quantity, action.face)
            self.log.append(self.last)
            self._begin_turn(self._next_seat(player))
        elif isinstance(action, RollHand):
            self._roll(action.dice)
        else:
            self._call(player, spot_on=isinstance(action, SpotOn))

    def _roll(self, dice: Hand) -> None:
        seat = self.roller
        assert seat is not None
        # The first roll of a round announces it. Events before the first move reach no replay.
        if not any(self.hands):
            self.round += 1
            self.log.append(RoundStarted(self.round, self.dice_left, self.first, self.palifico))
        self.hands = (*self.hands[:seat], dice, *self.hands[seat + 1 :])
        # Private: the log shows it to this seat only.
        self.log.append(DiceRolled(seat, dice))
        if self.roller is None:
            self._begin_turn(self.first)

    def _next_seat(self, player: int) -> int:
        """Return the next seat with dice, in ascending order around the table."""
        dice = self.dice_left
        seat = (player + 1) % len(dice)
        while not dice[seat]:
            seat = (seat + 1) % len(dice)
        return seat

    def _call(self, player: int, spot_on: bool) -> None:
        """Show all dice, and decide on a challenge or a call of spot on."""
        assert self.last is not None
        bid, bidder, options = self.last.bid, self.last.player, self.game.options
        count = sum(self.game.matches(hand, bid.face, self.palifico) for hand in self.hands)
        # "At least": a bid that is exactly met is true.
        is_right = count == bid.quantity if spot_on else count < bid.quantity
        loser = bidder if is_right else player
        wins_die = is_right and spot_on and options.rounds == "last_standing"
        self.revealed = DiceRevealed(
            player,
            bidder,
            bid.quantity,
            bid.face,
            count,
            None if wins_die else loser,
            self.hands,
            spot_on,
        )
        self.log.append(self.revealed)
        if options.rounds == "single":
            self.to_act = ()
        elif wins_die:
            # The caller bids first, with one die more, but never more than at the start.
            self._end_round(player, min(self.dice_left[player] + 1, options.dice))
        else:
            self._end_round(loser, self.dice_left[loser] - 1)

    def _end_round(self, seat: int, dice: int) -> None:
        """Give a seat its new number of dice; start the next round unless one player has all."""
        # A player has one palifico round in a game, also if it wins dice back and loses them again.
        is_first = dice == 1 < self.dice_left[seat] and seat not in self.had_palifico
        self.palifico = self.game.options.palifico and is_first
        if self.palifico:
            self.had_palifico |= {seat}
        self.dice_left = (*self.dice_left[:seat], dice, *self.dice_left[seat + 1 :])
        self.last, self.hands = None, ((),) * self.game.num_players
        # That seat bids first in the next round, or the one after it if it has no dice.
        self.first = seat if dice else self._next_seat(seat)
        # The event of the call is the last one of its round.
        standing = sum(n > 0 for n in self.dice_left)
        self.to_act = (CHANCE,) if standing > 1 else ()

    def returns(self) -> tuple[float, ...]:
        """Return 0 for all until the end of the game.

        Of a single round: 1 for the winner of the call, -1 for its loser, 0 for the others, as
        in OpenSpiel. Of a game until one is left: 1 for that player, -1 shared by the others.
        """
        if self.to_act or self.revealed is None:
            return (0.0,) * len(self.dice_left)
        seats = range(len(self.dice_left))
        if self.game.options.rounds == "last_standing":
            # The sum of all returns is 0.
            rest = -1 / (len(seats) - 1)
            return tuple(1.0 if self.dice_left[seat] else rest for seat in seats)
        end = self.revealed
        # Of the caller and the bidder, the winner is the one who does not lose.
        winner = end.bidder if end.loser == end.challenger else end.challenger
        return tuple(float(seat == winner) - float(seat == end.loser) for seat in seats)

    def reason(self) -> str:
        assert self.revealed is not None
        names, end = self.game.seat_names, self.revealed
        if self.game.options.rounds == "last_standing":
            return f"only {names[self.first]} has dice left"
        if end.spot_on:
            found = "exactly right" if end.count == end.quantity else "not exactly right"
            return f"{names[end.challenger]} called spot on; {end.bid.claim} was {found}"
        found = "true" if end.loser == end.challenger else "false"
        return f"{names[end.challenger]} challenged {end.bid.claim}, which was {found}"
