"""Bots of Hanabi. They use their own observation only.

`HanabiConventions` values a hint by what a hand is worth with what its owner believes. The values
are points of a heuristic, chosen by judgement; 10 is one card that will be played.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from arena import Action, ActionSet, Decision, Observation, Seat
from games.hanabi.conventions import ConventionTable, Kinds, as_kinds, is_single
from games.hanabi.game import Hanabi
from games.hanabi.moves import DiscardSlot, HanabiHint, HintColour, HintGiven, HintRank, PlaySlot
from games.hanabi.posterior import CERTAIN
from games.hanabi.table import HanabiTable

PLAYED = 10.0
"""A card that its owner believes to fit, and that fits."""
MISPLAYED = -30.0
"""A card that its owner believes to fit, and that does not."""
KNOWN = 5.0
"""A card that its owner knows and will play later."""
USELESS_KNOWN = 1.0
"""A useless card that its owner knows to be useless."""
MISLED = -12.0
"""A needed card about which its owner believes something false."""
USELESS_KEPT = -2.0
"""A useless card or second copy that its owner keeps because of a hint."""
LAST_COPY_AT_RISK = -12.0
"""The last copy of a needed card, on the chop."""
NEEDED_AT_RISK = -1.0
"""A needed card of which there is another copy, on the chop."""
BUSY = 0.3
"""Weight of the chop's risk if its owner has a better move than to discard it."""
UNCERTAINTY = -0.2
"""Times the square root of the number of kinds that its owner believes possible."""


class HanabiCareful:
    """Bot without conventions: it plays what surely fits, hints at random, discards the oldest.

    Its knowledge is exact. It gives a hint in half of the turns in which it may also discard. With
    2 players and itself in both seats its mean score is 6.54 [6.27, 6.81] in 200 games:
    `arena eval hanabi --player bot:careful --against bot:careful --games 200 --seed 1`.
    """

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Hanabi)
        self._rng = seat.rng
        self._table = HanabiTable(seat.game, seat.player)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        for event in observation.events_since(self._read):
            self._table.update(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    def _choose(self, legal: ActionSet) -> Action:
        marginals = self._table.posterior().marginals()
        fits = marginals @ self._table.playable
        if fits.max() > CERTAIN:
            return PlaySlot(int(fits.argmax()) + 1)
        # Without conventions the best hint is not known, so any of them will do.
        hints = (*legal.of(HintColour), *legal.of(HintRank))
        discards = legal.of(DiscardSlot)
        if hints and (not discards or self._rng.random() < 0.5):
            return self._rng.choice(hints)
        # A useless card costs nothing to discard; otherwise the oldest card goes.
        useless = marginals @ ~np.array(self._table.needed)
        if discards and useless.max() > CERTAIN:
            return DiscardSlot(int(useless.argmax()) + 1)
        return discards[0] if discards else PlaySlot(int(fits.argmax()) + 1)


class HanabiConventions:
    """Bot that gives and reads hints by the conventions of `games.hanabi.conventions`.

    In this order: it saves a last copy that the next player would discard, plays a card that fits
    by convention, gives a hint that is worth its token, gambles in the last round, discards. It
    chooses the hint after which the receiver's beliefs, by the same conventions, are worth most.

    Mean scores in the games of the standard rules, with this bot in all seats and 95 % intervals:

    - 2 players: 22.54 [22.36, 22.72], 500 games
    - 3 players: 22.95 [22.70, 23.20], 200 games
    - 4 players: 22.24 [21.92, 22.54], 200 games
    - 5 players: 21.11 [20.91, 21.32], 200 games

    Command: `arena eval hanabi --players 2 --player bot:conventions --against bot:conventions
    --games 500 --seed 1`. Published scores of bots with similar conventions and 2 players are 20.8
    (HolmesBot) and 23.1 (SmartBot).
    """

    WORTH_GIVING = ((2, 6.0), (5, 3.0), (8, 1.0))
    """Least gain of a hint, by the largest number of tokens at which it holds."""

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Hanabi)
        self.player = seat.player
        self.next_player = seat.game.others(seat.player)[0]
        self.table = ConventionTable(seat.game, seat.player)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        for event in observation.events_since(self._read):
            self.table.update(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    def _choose(self, legal: ActionSet) -> Action:
        # All kinds with an unseen copy; other players cannot compute these for this hand.
        left = as_kinds(copies > 0 for copies in self.table.unseen)
        hand = range(len(self.table.hands[self.player]))
        own = [self.table.candidates(self.player, place, left) for place in hand]
        hint = max(considered_hints(self.table, legal), key=lambda h: h.gain, default=None)
        # A last copy is lost for good, while a play can wait for one turn.
        if hint and self._saves(hint):
            return hint.action
        plays = [place for place in hand if not own[place] & ~self.table.fitting]
        # A play costs no token, and it may let the others play.
        if plays:
            return PlaySlot(min(plays, key=lambda place: self._lowest_rank(own[place])) + 1)
        # The fewer tokens are left, the more a hint has to bring.
        if hint and hint.gain >= self._least_gain():
            return hint.action
        return self._gamble() or self._discard(legal, own) or (hint.action if hint else legal[0])

    def _saves(self, hint: ConsideredHint) -> bool:
        """Return whether a hint keeps the next player from discarding a needed last copy."""
        if hint.action.target != self.next_player or hint.gain < -LAST_COPY_AT_RISK / 2:
            return False
        # Only the next player acts before this one can give another hint.
        endangered = self.table.loses_last_copy(self.next_player)
        return endangered and not hint.after.loses_last_copy(self.next_player)

    def _least_gain(self) -> float:
        return next(gain for most, gain in self.WORTH_GIVING if self.table.tokens <= most)

    def _lowest_rank(self, kinds: Kinds) -> int:
        """Return the lowest rank of a set of kinds: low cards let others be played."""
        deck = self.table.game.deck
        return min(deck.rank(card) for card in deck.kinds if kinds >> deck.index[card] & 1)

    def _gamble(self) -> Action | None:
        """Return a play that may fit, if nothing can be lost: in the last round, with a life left.

        Discards and hints have no use for this player any more.
        """
        if self.table.deck or self.table.lives == 1:
            return None
        # By exact knowledge only, since a card that fits by convention would have been played.
        fits = self.table.posterior().marginals() @ self.table.playable
        return PlaySlot(int(fits.argmax()) + 1) if fits.max() > 0 else None

    def _discard(self, legal: ActionSet, own: Sequence[Kinds]) -> Action | None:
        """Return a discard: a useless card, the chop, or the card least likely to be missed."""
        if not legal.of(DiscardSlot):
            return None
        # All kinds that hints and conventions leave are useless.
        for place, kinds in enumerate(own):
            if not kinds & ~self.table.useless:
                return DiscardSlot(place + 1)
        chop = self.table.chop(self.player)
        # All cards were named by hints, so each of them may matter.
        if chop is None:
            risk = self.table.posterior().marginals() @ self.table.critical
            chop = int(risk.argmin())
        return DiscardSlot(chop + 1)


@dataclass(frozen=True, slots=True)
class ConsideredHint:
    """A legal hint, the table after it, and the value that it adds."""

    action: HanabiHint
    after: ConventionTable
    gain: float


def considered_hints(table: ConventionTable, legal: ActionSet) -> Iterator[ConsideredHint]:
    """Yield the legal hints with their values, as the table's viewer sees the other hands."""
    assert table.viewer is not None
    # The value of each hand without a hint, computed once for all hints to it.
    before = {player: hand_value(table, player) for player in table.game.others(table.viewer)}
    hints: tuple[HanabiHint, ...] = (*legal.of(HintColour), *legal.of(HintRank))
    for action in hints:
        after = table.with_hint(_hint_event(table, action))
        gain = hand_value(after, action.target) - before[action.target]
        yield ConsideredHint(action, after, gain)


def _hint_event(table: ConventionTable, action: HanabiHint) -> HintGiven:
    """Return the event that a hint of the viewer would cause."""
    by_colour = isinstance(action, HintColour)
    colour = action.colour if isinstance(action, HintColour) else None
    rank = None if isinstance(action, HintColour) else action.rank
    named = colour[0].upper() if colour else str(rank)
    slots = tuple(
        slot
        for slot, held in enumerate(table.hands[action.target], 1)
        # A card is written as the letter of its colour and its rank.
        if held.card is not None and held.card[0 if by_colour else 1] == named
    )
    assert table.viewer is not None
    return HintGiven(table.viewer, action.target, colour, rank, slots, table.tokens - 1)


def hand_value(table: ConventionTable, player: int) -> float:
    """Return the value of a visible hand, given what its owner believes by public events."""
    # Kinds that other hands will provide; a second copy is of no use.
    claimed = _claimed_kinds(table, player)
    total = sum(_risk_of_chop(table, player, claimed))
    for place, held in enumerate(table.hands[player]):
        kind = table.kind(player, place)
        total += _card_value(table, player, place, claimed)
        # The second copy in one hand is as useless as one in two hands.
        if held.hinted:
            claimed |= kind
    return total


def _card_value(table: ConventionTable, player: int, place: int, claimed: int) -> float:
    """Return the value of one card; `claimed` are the kinds of cards that were hinted before."""
    kind, believed = table.kind(player, place), table.candidates(player, place)
    # The belief is public, the kind is what the giver of the hint sees.
    is_useless, is_copy = bool(kind & table.useless), bool(kind & claimed)
    value = 0.0 if is_useless else UNCERTAINTY * believed.bit_count() ** 0.5
    # The owner will play it.
    if not believed & ~table.fitting:
        return value + (PLAYED if kind & table.fitting and not is_copy else MISPLAYED)
    # The owner will discard it.
    if not believed & ~table.useless:
        return value + (USELESS_KNOWN if is_useless else MISLED)
    # Without a hint nothing is believed; `_risk_of_chop` judges the oldest of these cards.
    if not table.hands[player][place].hinted:
        return value
    if is_useless or is_copy:
        return value + USELESS_KEPT
    # The owner takes it for another card.
    if not kind & believed:
        return value + MISLED
    return value + (KNOWN if is_single(believed) else 0.0)


def _risk_of_chop(table: ConventionTable, player: int, claimed: int) -> Iterator[float]:
    """Yield the value of the card that the player discards next, if it has one."""
    chop = table.chop(player)
    if chop is None:
        return
    # A player with a better move will not discard the chop now, but perhaps later.
    kind, weight = table.kind(player, chop), BUSY if table.is_busy(player) else 1.0
    if kind & table.last_copies:
        yield weight * LAST_COPY_AT_RISK
    elif not kind & table.useless and not kind & claimed:
        yield weight * NEEDED_AT_RISK


def _claimed_kinds(table: ConventionTable, player: int) -> int:
    """Return the kinds of hinted cards in all other hands, as far as the viewer knows them."""
    claimed = 0
    for other in table.game.others(player):
        for place, held in enumerate(table.hands[other]):
            # The viewer sees this card; of its own cards it knows what hints and conventions say.
            if held.hinted and held.card is not None:
                claimed |= table.kind(other, place)
            elif held.hinted and is_single(kinds := table.candidates(other, place)):
                claimed |= kinds
    return claimed
