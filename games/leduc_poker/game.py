"""Leduc hold'em: six cards, two rounds of betting and a board card.

F. Southey, M. Bowling, B. Larson, C. Piccione, N. Burch, D. Billings and C. Rayner, "Bayes' bluff:
opponent modelling in poker", UAI 2005. Between optimal players it is worth -0.0856 chips to
player 0. Suits do not matter, so cards are named by their rank and chance counts the copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ChanceOutcome,
    Game,
    ReturnScale,
    State,
)
from games.leduc_poker.betting import (
    CARDS,
    LETTERS,
    MOST_CHIPS,
    MOVES,
    BoardCardDealt,
    DealBoardCard,
    DealHoleCards,
    HoleCardDealt,
    LeducBetting,
    LeducMoved,
    LeducShowdown,
    card_chances,
    chips_won,
    strength,
)

if TYPE_CHECKING:
    from arena.core.batch.state_batch import StateBatch


@cache
def value_at_random(betting: LeducBetting, cards: tuple[str, ...], board: str) -> float:
    """Return the expected chips of player 0 if both players choose evenly from here on."""
    if betting.is_over:
        return chips_won(betting, cards, board)
    if betting.awaits_board:
        following = betting.next_round()
        chances = card_chances(cards).items()
        return sum(p * value_at_random(following, cards, card) for card, p in chances)
    # The mean over legal moves: each is equally likely.
    values = [value_at_random(betting.after(move), cards, board) for move in betting.legal]
    return sum(values) / len(values)


@cache
def hole_outcomes() -> tuple[ChanceOutcome, ...]:
    """Return all pairs of hole cards, with their probabilities."""
    first = card_chances(())
    return tuple(
        ChanceOutcome(DealHoleCards((a, b)), first[a] * card_chances((a,))[b])
        for a, b in product(CARDS, repeat=2)
    )


@cache
def board_outcomes(cards: tuple[str, ...]) -> tuple[ChanceOutcome, ...]:
    """Return all board cards after these hole cards, with their probabilities."""
    chances = card_chances(cards).items()
    return tuple(ChanceOutcome(DealBoardCard(card), p) for card, p in chances)


class LeducPoker(Game):
    """Two players, no options: a hidden card each, and a board card between the rounds.

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
    Arrays = "games.leduc_poker.betting:LeducArrays"
    View = "games.leduc_poker.text:LeducView"
    default_bots = ("equilibrium", "odds")

    name = "leduc_poker"
    summary = "poker with six cards and two rounds"
    num_players = 2
    return_scale = ReturnScale("return", "chips", -float(MOST_CHIPS), float(MOST_CHIPS))

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

    def new_batch(self, size: int) -> StateBatch:
        from arena.core.batch.tabulated import TabulatedBatch  # Imported late, as numpy is.

        return TabulatedBatch(self, size)


class LeducState(State):
    """A position: the cards and the betting. All values are immutable."""

    game: LeducPoker

    def __init__(self, game: LeducPoker) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.cards: tuple[str, ...] = ()
        self.board = ""
        self.betting = LeducBetting()

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return the deals by rank, each with the probability of all its pairs of copies."""
        return board_outcomes(self.cards) if self.cards else hole_outcomes()

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.legal_sets[self.betting.legal]

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case DealHoleCards(cards):
                self.cards = cards
                for seat, card in enumerate(cards):
                    self.log.append(HoleCardDealt(seat, card))
                self._continue()
            case DealBoardCard(card):
                self.board, self.betting = card, self.betting.next_round()
                self.log.append(BoardCardDealt(card))
                self._continue()
            case _:
                self._move(player, action)

    def _move(self, player: int, action: Action) -> None:
        # The event has the chips that were added: everybody sees them move.
        before = self.betting.chips[player]
        self.betting = self.betting.after(LETTERS[action])
        self.log.append(LeducMoved(player, str(action), self.betting.chips[player] - before))
        self._continue()

    def _continue(self) -> None:
        """Set who acts next; at the end show both cards, unless a player has folded."""
        # After a fold no card is shown.
        if self.betting.is_over:
            self.to_act = ()
            if self.betting.folded is None:
                self.log.append(LeducShowdown(self.cards))
        elif self.betting.awaits_board:
            self.to_act = (CHANCE,)
        else:
            self.to_act = (self.betting.player,)
            self.turn += 1

    def returns(self) -> tuple[float, ...]:
        """Return the chips won or lost; 0 for both before the end."""
        if not self.is_terminal:
            return (0.0, 0.0)
        chips = chips_won(self.betting, self.cards, self.board)
        # Subtraction from 0.0 gives 0.0 instead of -0.0 for a shared pot.
        return (chips, 0.0 - chips)

    def reason(self) -> str:
        names, folded = self.game.seat_names, self.betting.folded
        if folded is not None:
            return f"{names[folded]} folds"
        first, second = (strength(card, self.board) for card in self.cards)
        if first == second:
            return "both hands are equal"
        winner = 0 if first > second else 1
        hand = "a pair" if self.cards[winner] == self.board else "the higher card"
        return f"{names[winner]} has {hand}"
