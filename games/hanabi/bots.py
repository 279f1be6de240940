"""Bots of Hanabi. They use their own observation only.

`HanabiConventions` values a hint by what a hand is worth with what its owner believes. The values
are points of a heuristic, chosen by judgement; 10 is one card that will be played.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from arena import Action, ActionSet, Decision, Observation, Seat
from games.hanabi.conventions import ConventionTable, is_single
from games.hanabi.game import Hanabi
from games.hanabi.moves import (
    DiscardSlot,
    HanabiHint,
    HintColour,
    HintGiven,
    HintRank,
    Kinds,
    PlaySlot,
    as_kinds,
)
from games.hanabi.posterior import CERTAIN
from games.hanabi.table import HanabiNotes, HanabiTable, HeldCard

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


class HanabiPiers:
    """Bot that follows the rules of the agent Piers, with exact knowledge of its own hand.

    J. Walton-Rivers, P. R. Williams, R. Bartle, D. Perez-Liebana and S. M. Lucas, "Evaluating and
    modelling Hanabi-playing agents", IEEE Congress on Evolutionary Computation (2017),
    arXiv:1704.07069. The first rule that applies decides:

    1. Play what fits for certain; with a life to spare also what fits with 60 %, and once the deck
       is empty what may fit.
    2. Tell a player, the next one first, more about a card that fits now.
    3. With fewer than four tokens, show a player that a card of its hand is useless.
    4. Discard a useless card, else the oldest one, else give any hint.

    Mean scores in 200 games of the standard rules, with this bot in all seats and 95 % intervals:
    17.49 [17.20, 17.78] with 2 players, 17.83 [17.61, 18.05] with 3, 17.11 [16.89, 17.34] with 4,
    16.42 [16.20, 16.64] with 5. Command, with `--players` 2 to 5: `arena eval hanabi --players 2
    --player bot:piers --against bot:piers --games 200 --seed 1`.
    """

    PROBABLE = 0.6
    """Least chance of a play that may cost a life."""
    FEW_TOKENS = 4

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Hanabi)
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        assert isinstance(observation.notes, HanabiNotes)
        self._table = observation.notes.table
        return Decision(self._choose(observation.legal_actions))

    def _choose(self, legal: ActionSet) -> Action:
        table, marginals = self._table, self._table.posterior().marginals()
        fits, useless = marginals @ table.playable, marginals @ ~np.array(table.needed)
        probable = self.PROBABLE if table.deck else 0.0
        if fits.max() > (CERTAIN if table.lives == 1 else probable):
            return PlaySlot(int(fits.argmax()) + 1)
        hints: tuple[HanabiHint, ...] = (*legal.of(HintRank), *legal.of(HintColour))
        if hint := self._useful_hint(hints):
            return hint
        if discards := legal.of(DiscardSlot):
            return discards[int(useless.argmax()) if useless.max() > CERTAIN else 0]
        return self._rng.choice(hints)  # With all tokens there is a hint, and no discard.

    def _useful_hint(self, hints: Sequence[HanabiHint]) -> HanabiHint | None:
        """Return a hint about a card that fits, or one that shows a card to be useless."""
        table, deck = self._table, self._table.game.deck
        needed, shown = as_kinds(table.needed), None
        for hint, before, after in self._news(hints):
            assert after.card is not None
            if deck.fits(after.card, table.fireworks):
                return hint
            if not shown and not after.kinds & needed and before.kinds & needed:
                shown = hint
        return shown if table.tokens < self.FEW_TOKENS else None

    def _news(self, hints: Sequence[HanabiHint]) -> Iterator[tuple[HanabiHint, HeldCard, HeldCard]]:
        """Yield hints that narrow a card that they name, with the card before and after them."""
        table, deck = self._table, self._table.game.deck
        assert table.viewer is not None
        for target in table.game.others(table.viewer):
            to_target = [hint for hint in hints if hint.target == target]
            events = [_hint_event(table, hint) for hint in to_target]
            for slot, before in enumerate(table.hands[target], 1):
                for hint, event in zip(to_target, events, strict=True):
                    after = before.after_hint(deck.named_by[event.name], named=True)
                    if slot in event.slots and after.kinds != before.kinds:
                        yield hint, before, after


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


def _hint_event(table: HanabiTable, action: HanabiHint) -> HintGiven:
    """Return the event that a hint of the viewer would cause."""
    assert table.viewer is not None
    hand = [held.card for held in table.hands[action.target]]
    return table.game.deck.hint_given(table.viewer, action, hand, table.tokens - 1)


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
