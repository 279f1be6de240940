"""Leduc hold'em: two cards of each rank, two rounds of betting and a board card.

F. Southey, M. Bowling, B. Larson, C. Piccione, N. Burch, D. Billings and C. Rayner, "Bayes' bluff:
opponent modelling in poker", UAI 2005. Between optimal players it is worth -0.0856 chips to
player 0. Suits do not matter, so cards are named by their rank and chance counts the copies. The
game of three and more players is that of OpenSpiel's `leduc_poker`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import product

from arena import CHANCE, Action, ActionSet, ChanceOutcome, Game, ReturnScale, State
from games.leduc_poker.betting import (
    ANTE,
    LETTERS,
    MOVES,
    RAISES,
    RANKS,
    BoardCardDealt,
    DealBoardCard,
    DealHoleCards,
    HoleCardDealt,
    LeducBetting,
    LeducMoved,
    LeducOptions,
    LeducShowdown,
    card_chances,
    chips_won,
    winners,
)


@cache
def hole_outcomes(players: int, deck: tuple[str, ...]) -> tuple[ChanceOutcome, ...]:
    """Return all hole cards of the players, with their probabilities."""
    found = []
    for cards in product(deck, repeat=players):
        draws = (card_chances(cards[:n], deck).get(card, 0.0) for n, card in enumerate(cards))
        if chance := math.prod(draws):
            found.append(ChanceOutcome(DealHoleCards(cards), chance))
    return tuple(found)


@cache
def board_outcomes(cards: tuple[str, ...], deck: tuple[str, ...]) -> tuple[ChanceOutcome, ...]:
    """Return all board cards after these hole cards, with their probabilities."""
    chances = card_chances(cards, deck).items()
    return tuple(ChanceOutcome(DealBoardCard(card), p) for card, p in chances)


class LeducPoker(Game):
    """A hidden card for each player, and a board card between the rounds.

    `LeducOptions` lists the options.

    Example:
        >>> from games.leduc_poker.betting import DealHoleCards, Fold, Raise
        >>> state = LeducPoker().initial_state()
        >>> state.apply(CHANCE, DealHoleCards(("King", "Queen")))
        >>> state.apply(0, Raise())
        >>> state.apply(1, Fold())
        >>> state.returns()
        (1.0, -1.0)
    """

    Text = "games.leduc_poker.text:LeducText"
    Analysis = "games.leduc_poker.assessor:LeducAnalysis"
    Arrays = "games.leduc_poker.notes:LeducArrays"
    View = "games.leduc_poker.text:LeducView"
    name = "leduc_poker"
    summary = "poker with six cards and two rounds"
    Options = LeducOptions
    options: LeducOptions

    @property
    def default_bots(self) -> tuple[str, ...]:
        return ("equilibrium", "odds") if self.is_solved else ("odds", "odds")

    @property
    def level_bots(self) -> tuple[str, str, str]:
        return ("random", "odds", self.default_bots[0])

    @property
    def turn_bound(self) -> int:
        """In each of two rounds all players move, and all others again after each raise."""
        return 2 * (self.num_players + self.options.raises * (self.num_players - 1))

    @cached_property
    def is_solved(self) -> bool:
        """Whether an equilibrium is bundled: for the default options."""
        return not self.options.model_dump(exclude_defaults=True)

    @cached_property
    def deck(self) -> tuple[str, ...]:
        """The ranks of this game, lowest first."""
        return RANKS[-self.options.ranks :]

    @cached_property
    def first_betting(self) -> LeducBetting:
        """The betting before the first move."""
        return LeducBetting.start(self.options)

    @property
    def most_chips(self) -> int:
        """Chips that a player can lose."""
        return ANTE + self.options.raises * sum(RAISES)

    @property
    def return_scale(self) -> ReturnScale:
        most = float(self.most_chips)
        return ReturnScale("return", "chips", -most, most * (self.num_players - 1))

    def _all_actions(self) -> Iterable[Action]:
        return MOVES.values()

    @cached_property
    def legal_sets(self) -> Mapping[str, ActionSet]:
        """The sets of legal actions that occur, by the letters of the moves."""
        # All of them at once, so that the cache does not show which ones were used.
        return {
            legal: self.actions.subset(MOVES[move] for move in legal).complete()
            for legal in ("cr", "fcr", "fc")
        }

    def initial_state(self) -> LeducState:
        return LeducState(self)


class LeducState(State):
    """A position: the cards and the betting. All values are immutable."""

    game: LeducPoker

    def __init__(self, game: LeducPoker) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.cards: tuple[str, ...] = ()
        self.board = ""
        self.betting = game.first_betting

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return the deals by rank, each with the probability of all its pairs of copies."""
        deck = self.game.deck
        if self.cards:
            return board_outcomes(self.cards, deck)
        return hole_outcomes(self.game.num_players, deck)

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.legal_sets[self.betting.legal]

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, DealHoleCards):
            self.cards = action.cards
            for seat, card in enumerate(action.cards):
                self.log.append(HoleCardDealt(seat, card))
            self._continue()
        elif isinstance(action, DealBoardCard):
            self.board, self.betting = action.card, self.betting.next_round()
            self.log.append(BoardCardDealt(action.card))
            self._continue()
        else:
            self._move(player, action)

    def _move(self, player: int, action: Action) -> None:
        # The event has the chips that were added: everybody sees them move.
        before = self.betting.chips[player]
        self.betting = self.betting.after(LETTERS[action])
        self.log.append(LeducMoved(player, str(action), self.betting.chips[player] - before))
        self._continue()

    def _continue(self) -> None:
        """Set who acts next; at the end show the cards of the players left, if there are two."""
        # The last player left shows nothing.
        if self.betting.is_over:
            self.to_act, left = (), self.betting.left
            if len(left) > 1:
                shown = (card if seat in left else "" for seat, card in enumerate(self.cards))
                self.log.append(LeducShowdown(tuple(shown)))
        elif self.betting.awaits_board:
            self.to_act = (CHANCE,)
        else:
            self._begin_turn(self.betting.player)

    def returns(self) -> tuple[float, ...]:
        """Return the chips won or lost; 0 for all before the end."""
        if not self.is_terminal:
            return (0.0,) * self.game.num_players
        return chips_won(self.betting, self.cards, self.board)

    def reason(self) -> str:
        names, left = self.game.seat_names, self.betting.left
        if len(left) == 1:
            return self.betting.folds(names)
        best = winners(left, self.cards, self.board)
        if len(best) > 1:
            if len(names) == 2:
                return "both hands are equal"
            return f"{' and '.join(names[seat] for seat in best)} have equal hands"
        hand = "a pair" if self.cards[best[0]] == self.board else "the higher card"
        return f"{names[best[0]]} has {hand}"
