"""Rules of Hanabi: actions, events, positions.

They follow the Hanabi Learning Environment: N. Bard et al., "The Hanabi Challenge: A New Frontier
for AI Research", Artificial Intelligence 280 (2020), arXiv:1902.00506.

Slots are numbered from 1, the oldest card first. When a card leaves a hand, the newer ones move
down by one, and the new card gets the highest number.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

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
from games.hanabi.deck import HanabiDeck, HanabiOptions


@dataclass(frozen=True, slots=True)
class HanabiDeal(Action):
    """Chance: deal the first hands."""

    hands: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "deal " + " | ".join(" ".join(hand) for hand in self.hands)


@dataclass(frozen=True, slots=True)
class DrawCard(Action, template="draw {self.card}"):
    """Chance: the player who has played or discarded draws a card."""

    card: str


@dataclass(frozen=True, slots=True)
class PlaySlot(Action, template="play slot {self.slot}"):
    """Play a card of the own hand, without having seen it."""

    slot: int


@dataclass(frozen=True, slots=True)
class DiscardSlot(Action, template="discard slot {self.slot}"):
    """Discard a card of the own hand; this recovers a hint token."""

    slot: int


@dataclass(frozen=True, slots=True)
class Hint(Action, template="hint Player {self.target} {self.value}"):
    """Show another player all its cards of one colour or rank."""

    target: int
    value: str
    """The colour or rank, as in `HanabiDeck.hints`: `red`, `rank 2`. In a function call, `name` is
    the name of the action."""


@dataclass(frozen=True, slots=True)
class HandsDealt(Event):
    """Public: each player has its first hand."""

    hand_size: int
    deck: int
    """Cards left in the deck."""


@dataclass(frozen=True, slots=True)
class HandSeen(Event):
    """Private: the first hand of a player, for all others."""

    player: int
    cards: tuple[str, ...]
    viewers: tuple[int, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return self.viewers


@dataclass(frozen=True, slots=True)
class CardDrawn(Event):
    """Private: the card that a player has drawn, for all others."""

    player: int
    card: str
    deck: int
    """Cards left in the deck."""
    viewers: tuple[int, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return self.viewers


@dataclass(frozen=True, slots=True)
class UnseenCardDrawn(PrivateEvent):
    """Private: for the player who has drawn a card and does not see it."""

    is_partial: ClassVar[bool] = True

    deck: int
    """Cards left in the deck."""


@dataclass(frozen=True, slots=True)
class CardPlayed(Event):
    """Public: a card is played; it fits, or a life is lost."""

    player: int
    slot: int
    card: str
    fits: bool
    lives: int
    """Lives left."""
    tokens: int
    """Hint tokens left."""


@dataclass(frozen=True, slots=True)
class CardDiscarded(Event):
    """Public: a card is discarded."""

    player: int
    slot: int
    card: str
    tokens: int
    """Hint tokens left."""


@dataclass(frozen=True, slots=True)
class HintGiven(Event):
    """Public: a hint. All slots with the colour or rank are named, and no others."""

    player: int
    target: int
    value: str
    """The colour or rank, as in `HanabiDeck.hints`."""
    slots: tuple[int, ...]
    tokens: int
    """Hint tokens left."""


@cache
def places(bits: int, first: int) -> tuple[int, ...]:
    """Return the places of the bits that are set, counted from `first`."""
    return tuple(first + n for n in range(bits.bit_length()) if bits >> n & 1)


class Hanabi(Game):
    """Two to five players build fireworks together from cards that their owners do not see.

    `HanabiOptions` lists the options. The return of each seat is the common score.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> game = Hanabi(players=2)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> [str(action) for action in state.legal_actions(0)][:2]
        ['play slot 1', 'play slot 2']
    """

    Text = "games.hanabi.text:HanabiText"
    Analysis = "games.hanabi.knowledge:HanabiAnalysis"
    View = "games.hanabi.text:HanabiView"
    default_bots = ("conventions", "conventions")

    name = "hanabi"
    summary = "build fireworks together; you see all hands but your own"
    Options = HanabiOptions
    options: HanabiOptions

    @cached_property
    def deck(self) -> HanabiDeck:
        """The cards of this game."""
        return HanabiDeck(self.options.colours, self.options.ranks)

    @cached_property
    def hand_size(self) -> int:
        """Cards in a full hand."""
        return self.options.cards_per_hand

    @property
    def turn_bound(self) -> int:
        """A turn for each card that is drawn, for each hint, and for each player at the end."""
        # Each token for a hint is there at the start or recovered by a card that leaves a hand.
        drawn = self.deck.size - self.num_players * self.hand_size
        return 2 * drawn + self.options.hint_tokens + 2 * self.num_players

    def score(self, fireworks: Sequence[int], lives: int) -> int:
        """Return the cards in the fireworks; 0 after the last life (Bard et al. 2020)."""
        return sum(fireworks) if lives else 0

    @cached_property
    def others(self) -> tuple[tuple[int, ...], ...]:
        """The other seats of each seat, in turn order from its left."""
        seats = range(self.num_players)
        return tuple((*seats[player + 1 :], *seats[:player]) for player in seats)

    def _all_actions(self) -> Iterable[Action]:
        # A hint to oneself is never legal, but one table serves all seats.
        slots = range(1, self.hand_size + 1)
        yield from map(PlaySlot, slots)
        yield from map(DiscardSlot, slots)
        for target in range(self.num_players):
            yield from (Hint(target, name) for name in self.deck.hints)

    @property
    def return_scale(self) -> ReturnScale:
        """The common score: a point for each kind, since each is played once at most."""
        return ReturnScale("score", "points", 0.0, float(len(self.deck.kinds)), has_winner=False)

    def hint_given(
        self, player: int, hint: Hint, hand: Sequence[str | None], tokens: int
    ) -> HintGiven:
        """Return the event of a player's hint to this hand; `tokens` are left after it."""
        named, index = self.deck.named_by[hint.value], self.deck.index
        slots = [n for n, card in enumerate(hand, 1) if card and named >> index[card] & 1]
        return HintGiven(player, hint.target, hint.value, tuple(slots), tokens)

    def initial_state(self) -> HanabiState:
        """Return the position before the deal."""
        return HanabiState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the oldest card's discard, else the hints: a wrong play costs a life."""
        legal = observation.legal_actions
        # A hint costs a token only, and the oldest card is the one that players discard anyway.
        return legal.of(DiscardSlot)[:1] or legal.of(Hint) or legal


class HanabiState(State):
    """A position."""

    game: Hanabi

    def __init__(self, game: Hanabi) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.player = 0
        """The player in turn, also while chance draws a card for it."""
        self.deck = list(game.deck.copies)
        """Copies of each kind in the deck."""
        self.hands = [list[str]() for _ in range(game.num_players)]
        """The oldest card of each hand is the first."""
        self.fireworks = [0] * game.deck.colours
        """The highest rank in each colour."""
        self.tokens = game.options.hint_tokens
        self.lives = game.options.lives
        self.turns_left = game.num_players
        """Turns that follow once the deck is empty: one for each player."""

    def clone(self) -> HanabiState:
        twin = super().clone()
        twin.deck, twin.fireworks = self.deck.copy(), self.fireworks.copy()
        twin.hands = [hand.copy() for hand in self.hands]
        return twin

    def teams(self) -> tuple[int, ...]:
        """Return the team of each seat: all play together."""
        return (0,) * self.game.num_players

    def returns(self) -> tuple[float, ...]:
        """Return the common score, for each player."""
        return (float(self.game.score(self.fireworks, self.lives)),) * self.game.num_players

    def reason(self) -> str:
        if self.lives == 0:
            why = "all lives are lost"
        elif self._is_complete():
            why = "all fireworks are complete"
        else:
            why = "the deck is empty and the last round is over"
        return f"{why}; score {self.returns()[0]:.0f} of {len(self.game.deck.kinds)}"

    # Chance

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return the cards that may be drawn; the first deal has too many results to list."""
        if self.turn == 0:
            return super().chance_outcomes()
        left, draws = sum(self.deck), zip(self.game.deck.kinds, self.deck, strict=True)
        return [ChanceOutcome(DrawCard(card), copies / left) for card, copies in draws if copies]

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw the first hands, or one card.

        The order of the cards in the deck depends on the generator only, not on the play. So games
        with one seed have the same deck.
        """
        if self.turn:
            return DrawCard(rng.choices(self.game.deck.kinds, self.deck)[0])
        size, players = self.game.hand_size, self.game.num_players
        # Without replacement, each copy of a card for itself.
        cards = rng.sample(self.game.deck.kinds, size * players, counts=self.deck)
        return HanabiDeal(tuple(tuple(cards[n * size : (n + 1) * size]) for n in range(players)))

    def _is_possible(self, action: Action) -> bool:
        index = self.game.deck.index
        if self.turn:
            # A look-up: a list of all outcomes would take longer than the rest of the move.
            drawn = index.get(action.card) if isinstance(action, DrawCard) else None
            return drawn is not None and self.deck[drawn] > 0
        if not isinstance(action, HanabiDeal):
            return False
        # A replay from an unknown source may contain any deal.
        sizes = [len(hand) for hand in action.hands]
        cards = [card for hand in action.hands for card in hand]
        return sizes == [self.game.hand_size] * self.game.num_players and all(
            card in index and cards.count(card) <= self.deck[index[card]] for card in cards
        )

    def _read_chance(self, text: str) -> Action | None:
        if self.turn:
            return super()._read_chance(text)
        return HanabiDeal(tuple(tuple(hand.split()) for hand in text[5:].split("|")))

    # Moves of players

    def _legal_actions(self, player: int) -> ActionSet:
        game, deck, slots = self.game, self.game.deck, len(self.hands[player])
        # Playing is always legal: no player in turn has an empty hand.
        numbers = [*range(slots)]
        if self.tokens < game.options.hint_tokens:
            numbers += range(game.hand_size, game.hand_size + slots)
        for target in game.others[player] if self.tokens else ():
            # A hint must name at least one card.
            hints = 0
            for card in self.hands[target]:
                hints |= deck.hint_bits[card]
            numbers += places(hints, 2 * game.hand_size + target * len(deck.hints))
        return game.actions.numbered(numbers)

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, HanabiDeal):
            self._deal(action.hands)
        elif isinstance(action, DrawCard):
            self._draw(action.card)
        else:
            # Counted before the move: the move that empties the deck is followed by a full round.
            self.turns_left -= not any(self.deck)
            self._move(player, action)

    def _deal(self, hands: tuple[tuple[str, ...], ...]) -> None:
        for player, hand in enumerate(hands):
            for card in hand:
                self._take(player, card)
        self.log.append(HandsDealt(self.game.hand_size, sum(self.deck)))
        for player, hand in enumerate(hands):
            self.log.append(HandSeen(player, hand, self.game.others[player]))
        self._begin_turn(0)

    def _draw(self, card: str) -> None:
        player = self.player
        self._take(player, card)
        left = sum(self.deck)
        self.log.append(CardDrawn(player, card, left, self.game.others[player]))
        self.log.append(UnseenCardDrawn(player, left))
        self._next_turn()

    def _take(self, player: int, card: str) -> None:
        """Move a card from the deck to the hand of a player."""
        self.deck[self.game.deck.index[card]] -= 1
        self.hands[player].append(card)

    def _move(self, player: int, action: Action) -> None:
        match action:
            case PlaySlot(slot):
                self._play(player, slot)
            case DiscardSlot(slot):
                self._recover_token()
                card = self.hands[player].pop(slot - 1)
                self.log.append(CardDiscarded(player, slot, card, self.tokens))
            case Hint(target):
                self.tokens -= 1
                hand = self.hands[target]
                self.log.append(self.game.hint_given(player, action, hand, self.tokens))
        # As in the Hanabi Learning Environment, no card is drawn after the last move.
        if self.lives == 0 or self._is_complete() or self.turns_left == 0:
            self.to_act = ()
        elif isinstance(action, PlaySlot | DiscardSlot) and any(self.deck):
            self.to_act = (CHANCE,)
        else:
            self._next_turn()

    def _play(self, player: int, slot: int) -> None:
        card, deck = self.hands[player].pop(slot - 1), self.game.deck
        colour, rank = deck.colour(card), deck.rank(card)
        # A card that does not fit is out of the game, as if it were discarded.
        fits = self.fireworks[colour] == rank - 1
        if fits:
            self.fireworks[colour] = rank
            if rank == deck.ranks:  # A complete firework recovers a hint token.
                self._recover_token()
        else:
            self.lives -= 1
        self.log.append(CardPlayed(player, slot, card, fits, self.lives, self.tokens))

    def _recover_token(self) -> None:
        self.tokens = min(self.tokens + 1, self.game.options.hint_tokens)

    def _is_complete(self) -> bool:
        # Each firework has all ranks exactly if their sum is the number of kinds.
        return sum(self.fireworks) == len(self.game.deck.kinds)

    def _next_turn(self) -> None:
        self.player = (self.player + 1) % self.game.num_players
        self._begin_turn(self.player)
