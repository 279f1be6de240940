"""Bots of Hanabi. They use their own observation only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arena import Action, ActionSet, Decision, Observation, Seat
from games.hanabi.base import HanabiBase
from games.hanabi.conventions import ConventionTable, Kinds, as_kinds
from games.hanabi.hint_values import LAST_COPY_AT_RISK, ConsideredHint, considered_hints
from games.hanabi.moves import DiscardSlot, HintColour, HintRank, PlaySlot
from games.hanabi.posterior import CERTAIN
from games.hanabi.table import HanabiTable


class HanabiCareful:
    """Bot without conventions: it plays what surely fits, hints at random, discards the oldest.

    Its knowledge is exact. It gives a hint in half of the turns in which it may also discard. With
    2 players and itself in both seats its mean score is 6.54 [6.27, 6.81] in 200 games:
    `arena eval hanabi --player bot:careful --against bot:careful --games 200 --seed 1`.
    """

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, HanabiBase)
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
        assert isinstance(seat.game, HanabiBase)
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
