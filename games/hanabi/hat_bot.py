"""Bot of Hanabi that gives and reads hints by the code of `games.hanabi.hats`."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Action, ActionSet, Decision, Observation, Seat
from games.hanabi.game import Hanabi
from games.hanabi.hats import HatTable
from games.hanabi.moves import (
    DiscardSlot,
    HanabiHint,
    HintColour,
    HintRank,
    Kinds,
    PlaySlot,
    as_kinds,
)


class HanabiHats:
    """Bot that gives and reads hints by hat guessing; all seats must be of this kind.

    In this order: it plays a card that fits for certain; gives a hint while there are `PLENTY`
    tokens, or if the hint lets a player without a card to play play one; discards a useless card
    while there is time to play all others; gives any hint when there is none; gambles in the last
    round; discards the card that the team is least expected to miss.

    Mean scores in 200 games of the standard rules with 95 % intervals (`arena reproduce hanabi`):
    24.75 [24.65, 24.84] with 3 players, 24.78 [24.70, 24.86] with 4, 24.80 [24.71, 24.88] with 5.
    With 2 players one hint has one reader, and it scores about 21.
    """

    PLENTY = 3
    """Tokens with which a hint is always better than a discard."""

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Hanabi)
        self.player = seat.player
        self.table = HatTable(seat.game, seat.player)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        for event in observation.events_since(self._read):
            self.table.update(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    def _choose(self, legal: ActionSet) -> Action:
        table, value = self.table, self.table.value
        # Of its own hand the player also knows that kinds are used up which it sees elsewhere.
        left = as_kinds(copies > 0 for copies in table.unseen)
        own = [kinds & left or kinds for kinds in table.known[self.player]]
        plays = [place for place, kinds in enumerate(own) if not kinds & ~value.fitting]
        if plays:
            # Low cards let others be played.
            return PlaySlot(min(plays, key=lambda place: self._lowest_rank(own[place])) + 1)
        hint = self._hint(legal)
        if hint and (table.tokens >= self.PLENTY or self._lets_play()):
            return hint
        if legal.of(DiscardSlot) and self._has_time:
            useless = [place for place, kinds in enumerate(own) if not kinds & ~value.useless]
            return DiscardSlot((useless or [self._least_missed(own)])[0] + 1)
        return hint or self._gamble() or self._any_move(legal, own)

    @property
    def _has_time(self) -> bool:
        """Whether a discard leaves enough turns to play all cards."""
        table = self.table
        turns = table.deck + table.game.num_players
        return sum(table.fireworks) + turns > len(table.game.deck.kinds)

    def _lets_play(self) -> bool:
        """Return whether a hint shows a player without a card to play that it has one."""
        table, unfit = self.table, ~self.table.value.fitting
        return any(
            any(not kinds & unfit for kinds in table.answer(player)[1])
            and all(kinds & unfit for kinds in table.known[player])
            for player in table.game.others(self.player)
        )

    def _lowest_rank(self, kinds: Kinds) -> int:
        ranks = self.table.game.deck.ranks
        return min(kind % ranks for kind in range(kinds.bit_length()) if kinds >> kind & 1)

    def _least_missed(self, own: Sequence[Kinds]) -> int:
        """Return the place of the own card that the team is least expected to miss."""
        return min(range(len(own)), key=lambda place: self._loss(own[place]))

    def _loss(self, kinds: Kinds) -> float:
        """Return how much the team is expected to miss a card that may have some kinds.

        The values are chosen by judgement. A last copy ends its firework, the earlier the worse.
        """
        table, deck, total, loss = self.table, self.table.game.deck, 0, 0.0
        for kind, copies in enumerate(table.unseen):
            if not (kinds >> kind & 1 and copies):
                continue
            total += copies
            above = deck.ranks - kind % deck.ranks
            if table.value.last_copies >> kind & 1:
                loss += copies * (10 + above)
            elif not table.value.useless >> kind & 1 and not self._is_seen(deck.kinds[kind]):
                loss += copies * (1 + 0.2 * above)
        return loss / total if total else 0.0

    def _is_seen(self, card: str) -> bool:
        """Return whether another player holds a copy of a card."""
        others = self.table.game.others(self.player)
        return any(held.card == card for player in others for held in self.table.hands[player])

    def _gamble(self) -> Action | None:
        """Return a play that may fit, if nothing can be lost: in the last round, with a life left.

        Discards and hints have no use for this player any more.
        """
        if self.table.deck or self.table.lives == 1:
            return None
        play, chance = self._likeliest_play()
        return play if chance > 0 else None

    def _likeliest_play(self) -> tuple[Action, float]:
        """Return the play that most probably fits, and the probability."""
        fits = self.table.posterior().marginals() @ self.table.playable
        return PlaySlot(int(fits.argmax()) + 1), float(fits.max())

    def _any_move(self, legal: ActionSet, own: Sequence[Kinds]) -> Action:
        """Return a discard; with all tokens a play: a hint of another meaning misleads all."""
        if legal.of(DiscardSlot):
            return DiscardSlot(self._least_missed(own) + 1)
        return self._likeliest_play()[0]

    def _hint(self, legal: ActionSet) -> HanabiHint | None:
        """Return the hint with the meaning that the others' hands need, if there is one."""
        hints: tuple[HanabiHint, ...] = (*legal.of(HintColour), *legal.of(HintRank))
        if not hints:
            return None
        table, wanted = self.table, self.table.wanted()
        for hint in hints:
            hand = [held.card for held in table.hands[hint.target]]
            event = table.game.deck.hint_given(self.player, hint, hand, table.tokens - 1)
            if table.meaning(event) == wanted:
                return hint
        return None
