"""Leduc hold'em: six cards, two rounds of betting and a board card.

F. Southey, M. Bowling, B. Larson, C. Piccione, N. Burch, D. Billings and C. Rayner, "Bayes' bluff:
opponent modelling in poker", UAI 2005. Between optimal players it is worth -0.0856 chips to
player 0. Suits do not matter, so cards are named by their rank and chance counts the copies.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ActionValues,
    ArraySpec,
    Assessment,
    ChanceOutcome,
    Comment,
    Event,
    Game,
    Observation,
    ReturnScale,
    State,
    Step,
    TextLevel,
)
from games.leduc_poker import text
from games.leduc_poker.assessor import FACTS, MEASURES, LeducAssessor, comment
from games.leduc_poker.betting import (
    CARDS,
    MOST_CHIPS,
    LeducBetting,
    card_chances,
    chips_won,
    strength,
)
from games.leduc_poker.knowledge import LeducKnowledge
from games.leduc_poker.notes import (
    LETTERS,
    MOVES,
    BoardCardDealt,
    DealBoardCard,
    DealHoleCards,
    HoleCardDealt,
    LeducMoved,
    LeducNotes,
    LeducShowdown,
)
from games.leduc_poker.view import LeducView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena.core.batch.state_batch import StateBatch

MOST_MOVES = 4
"""Moves in one round: check, raise, raise, call."""


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
        >>> from games.leduc_poker.notes import DealHoleCards, Fold, Raise
        >>> state = LeducPoker().initial_state()
        >>> state.apply(CHANCE, DealHoleCards(("King", "Queen")))
        >>> state.apply(0, Raise())
        >>> state.apply(1, Fold())
        >>> state.returns()
        (1.0, -1.0)
    """

    name = "leduc_poker"
    summary = "poker with six cards and two rounds"
    num_players = 2
    default_opponent = "odds"
    default_bot = "equilibrium"
    return_scale = ReturnScale("return", "chips", -float(MOST_CHIPS), float(MOST_CHIPS))
    facts = FACTS
    measures = MEASURES

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

    def new_notes(self, player: int) -> LeducNotes:
        return LeducNotes(self, player)

    def new_view(self, seat: int | None) -> LeducView:
        return LeducView(self, seat)

    def knowledge(self, player: int) -> LeducKnowledge:
        """Return the knowledge of `player`, for whom the other one moves at random."""
        return LeducKnowledge(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> LeducAssessor:
        return LeducAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        return comment(assessment)

    def synonyms(self) -> Mapping[str, str]:
        return {"check": "call", "match": "call", "bet": "raise", "reraise": "raise"}

    def rules(self) -> str:
        return text.RULES

    def narrate(self, event: Event) -> str:
        return text.narrate(self, event)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        return text.situation(observation, level)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the other player's card again, unless a showdown has revealed it."""
        state, steps = self.initial_state(), list(history)
        for step in steps:
            state.apply(step.player, step.action)
        if steps and not any(isinstance(event, LeducShowdown) for event in state.log.events):
            # One of the copies that neither the player nor the board has.
            chances = card_chances((state.cards[player], *filter(None, (state.board,))))
            (other,) = rng.choices(list(chances), list(chances.values()))
            # Chance on the board and all moves stay as they were: they were public.
            cards = (state.cards[0], other) if player == 0 else (other, state.cards[1])
            steps[0] = Step(CHANCE, DealHoleCards(cards))
        return steps

    def action_values(self, state: State, actions: Collection[Action]) -> ActionValues:
        """Return the exact values of actions if both players decide at random from there on."""
        assert isinstance(state, LeducState)
        values = dict[Action, tuple[float, ...]]()
        for action in actions:
            # Results of chance are actions too, so that the luck of the deal is taken out.
            after = state.clone()
            after.apply(state.to_act[0], action)
            first = value_at_random(after.betting, after.cards, after.board)
            values[action] = (first, -first)
        return values

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        return {
            "player": ArraySpec(shape=(2,), low=0, high=1),
            "cards": ArraySpec(shape=(2, len(CARDS)), low=0, high=1),
            "board": ArraySpec(shape=(len(CARDS),), low=0, high=1),
            "moves": ArraySpec(shape=(2, MOST_MOVES, len(MOVES)), low=0, high=1),
            "chips": ArraySpec(shape=(2,), low=0, high=MOST_CHIPS),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return one-hot rows: seat, known cards by seat, board, moves by round; and the chips."""
        import numpy as np  # Imported late: listing the games must stay fast.

        notes = observation.notes
        assert isinstance(notes, LeducNotes)
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.array_specs.items()}
        arrays["player"][observation.player] = 1
        # Only cards that the observer has seen; the others stay zeros.
        for seat, card in notes.cards.items():
            arrays["cards"][seat, CARDS.index(card)] = 1
        if notes.board:
            arrays["board"][CARDS.index(notes.board)] = 1
        for number, moves in enumerate(notes.betting.rounds):
            for place, move in enumerate(moves):
                arrays["moves"][number, place, list(MOVES).index(move)] = 1
        arrays["chips"][:] = notes.betting.chips
        return arrays


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
