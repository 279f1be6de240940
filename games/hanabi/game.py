"""Hanabi as a `Game`, and its positions.

The rules follow the Hanabi Learning Environment: N. Bard et al., "The Hanabi Challenge: A New
Frontier for AI Research", Artificial Intelligence 280 (2020), arXiv:1902.00506. The options
`rainbow` and `empty_hints` are the variant with multicoloured cards that count as every colour, of
the rules of the card game (A. Bauza, 2010), and the clues to no card of hanab.live's variants.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache, cached_property

from arena import CHANCE, Action, ActionSet, ChanceOutcome, Game, Observation, ReturnScale, State
from games.hanabi.moves import (
    CardDiscarded,
    CardDrawn,
    CardPlayed,
    DiscardSlot,
    DrawCard,
    HanabiDeal,
    HanabiDeck,
    HanabiOptions,
    HandsDealt,
    HandSeen,
    HintColour,
    HintRank,
    PlaySlot,
    UnseenCardDrawn,
)


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
        >>> state.teams()
        (0, 0)
        >>> [str(action) for action in state.legal_actions(0)][:2]
        ['play slot 1', 'play slot 2']
    """

    Text = "games.hanabi.text:HanabiText"
    Analysis = "games.hanabi.assessor:HanabiAnalysis"
    Arrays = "games.hanabi.table:HanabiArrays"
    View = "games.hanabi.view:HanabiView"
    default_bots = ("conventions", "conventions")
    level_bots = ("piers", "piers", "conventions")

    name = "hanabi"
    summary = "build fireworks together; you see all hands but your own"
    Options = HanabiOptions
    options: HanabiOptions

    @cached_property
    def deck(self) -> HanabiDeck:
        """The cards of this game."""
        return self.options.deck

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

    def score(self, fireworks: tuple[int, ...], lives: int) -> int:
        """Return the cards in the fireworks; 0 after the last life.

        Args:
            fireworks: The highest rank played so far in each colour.
            lives: Lives left.
        """
        # Bard et al. (2020): a team that loses its last life scores 0.
        return sum(fireworks) if lives else 0

    def others(self, player: int) -> tuple[int, ...]:
        """Return all seats but one, in turn order from its left."""
        return self._others[player]

    @cached_property
    def _others(self) -> tuple[tuple[int, ...], ...]:
        seats = range(self.num_players)
        return tuple((*seats[player + 1 :], *seats[:player]) for player in seats)

    def _all_actions(self) -> Iterable[Action]:
        # A hint to oneself is never legal, but one table serves all seats.
        slots = range(1, self.hand_size + 1)
        yield from map(PlaySlot, slots)
        yield from map(DiscardSlot, slots)
        for target in range(self.num_players):
            for name in self.deck.hints:
                yield HintColour(target, name) if isinstance(name, str) else HintRank(target, name)

    @property
    def return_scale(self) -> ReturnScale:
        """The common score, from 0 to the number of kinds of cards."""
        # One point for each kind, since each kind is played once at most.
        return ReturnScale("score", "points", 0.0, float(len(self.deck.kinds)), has_winner=False)

    def initial_state(self) -> HanabiState:
        """Return the position before the deal."""
        return HanabiState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the oldest card's discard, else the hints: a wrong play costs a life."""
        legal = observation.legal_actions
        # A hint costs a token only, and the oldest card is the one that players discard anyway.
        hints = (*legal.of(HintColour), *legal.of(HintRank))
        return legal.of(DiscardSlot)[:1] or hints or legal


class HanabiState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Hanabi

    def __init__(self, game: Hanabi) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.player = 0
        """The player in turn, also while chance draws a card for it."""
        self.deck = game.deck.copies
        """Copies of each kind in the deck."""
        self.hands: tuple[tuple[str, ...], ...] = ((),) * game.num_players
        """The oldest card of each hand is the first."""
        self.fireworks = (0,) * game.deck.colours
        self.tokens = game.options.hint_tokens
        self.lives = game.options.lives
        self.turns_left = game.num_players
        """Turns that follow once the deck is empty: one for each player."""

    def teams(self) -> tuple[int, ...]:
        """Return the team of each seat: all play together."""
        return (0,) * self.game.num_players

    @property
    def score(self) -> int:
        """The common score so far."""
        return self.game.score(self.fireworks, self.lives)

    def returns(self) -> tuple[float, ...]:
        """Return the common score, for each player."""
        return (float(self.score),) * self.game.num_players

    def reason(self) -> str:
        if self.lives == 0:
            why = "all lives are lost"
        elif sum(self.fireworks) == len(self.game.deck.kinds):
            why = "all fireworks are complete"
        else:
            why = "the deck is empty and the last round is over"
        return f"{why}; score {self.score} of {len(self.game.deck.kinds)}"

    # Chance

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return the cards that may be drawn; the first deal has too many results to list."""
        if self.turn == 0:
            return super().chance_outcomes()
        left = sum(self.deck)
        return [
            ChanceOutcome(DrawCard(card), copies / left)
            for card, copies in zip(self.game.deck.kinds, self.deck, strict=True)
            if copies
        ]

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
        numbers = (*range(slots),)
        if self.tokens < game.options.hint_tokens:
            numbers += (*range(game.hand_size, game.hand_size + slots),)
        for target in game.others(player) if self.tokens else ():
            # A hint must name at least one card, unless the option allows it to name none.
            hints = (1 << len(deck.hints)) - 1 if game.options.empty_hints else 0
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
        deck = list(self.deck)
        for hand in hands:
            for card in hand:
                deck[self.game.deck.index[card]] -= 1
        self.deck, self.hands = tuple(deck), hands
        self.log.append(HandsDealt(self.game.hand_size, sum(deck)))
        for player, hand in enumerate(hands):
            self.log.append(HandSeen(player, hand, self.game.others(player)))
        self.turn, self.to_act = 1, (0,)

    def _draw(self, card: str) -> None:
        player, others = self.player, self.game.others(self.player)
        kind = self.game.deck.index[card]
        # A new tuple, because clones share the old one.
        self.deck = (*self.deck[:kind], self.deck[kind] - 1, *self.deck[kind + 1 :])
        self._set_hand((*self.hands[player], card))
        left = sum(self.deck)
        self.log.append(CardDrawn(player, card, left, others))
        self.log.append(UnseenCardDrawn(player, left))
        self._next_turn()

    def _move(self, player: int, action: Action) -> None:
        match action:
            case PlaySlot(slot):
                self._play(player, slot)
            case DiscardSlot(slot):
                self._recover_token()
                card = self._leave_hand(slot)
                self.log.append(CardDiscarded(player, slot, card, self.tokens))
            case HintColour() | HintRank():
                self.tokens -= 1
                hand = self.hands[action.target]
                self.log.append(self.game.deck.hint_given(player, action, hand, self.tokens))
        # As in the Hanabi Learning Environment, no card is drawn after the last move.
        if self._is_over():
            self.to_act = ()
        elif isinstance(action, PlaySlot | DiscardSlot) and any(self.deck):
            self.to_act = (CHANCE,)
        else:
            self._next_turn()

    def _play(self, player: int, slot: int) -> None:
        card, deck = self._leave_hand(slot), self.game.deck
        # A card that does not fit is out of the game, as if it were discarded.
        fits = deck.fits(card, self.fireworks)
        if fits:
            colour, rank = deck.colour(card), deck.rank(card)
            self.fireworks = (*self.fireworks[:colour], rank, *self.fireworks[colour + 1 :])
            if rank == deck.ranks:  # A complete firework recovers a hint token.
                self._recover_token()
        else:
            self.lives -= 1
        self.log.append(CardPlayed(player, slot, card, fits, self.lives, self.tokens))

    def _recover_token(self) -> None:
        self.tokens = min(self.tokens + 1, self.game.options.hint_tokens)

    def _leave_hand(self, slot: int) -> str:
        hand = self.hands[self.player]
        self._set_hand((*hand[: slot - 1], *hand[slot:]))
        return hand[slot - 1]

    def _set_hand(self, hand: tuple[str, ...]) -> None:
        self.hands = (*self.hands[: self.player], hand, *self.hands[self.player + 1 :])

    def _is_over(self) -> bool:
        # Each firework has all ranks exactly if their sum is the number of kinds.
        complete = sum(self.fireworks) == len(self.game.deck.kinds)
        return self.lives == 0 or complete or self.turns_left == 0

    def _next_turn(self) -> None:
        self.player = (self.player + 1) % self.game.num_players
        self._begin_turn(self.player)
