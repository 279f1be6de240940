"""Actions and events of Leduc hold'em, and what one viewer has read from its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arena import Action, ArraySpec, Event, GameArrays, Notes, Observation
from arena.core.observation import ObservedGame
from games.leduc_poker.betting import CARDS, MOST_CHIPS, LeducBetting

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DealHoleCards(Action):
    """Chance: deal a card to each player, face down."""

    cards: tuple[str, ...]

    def __str__(self) -> str:
        return f"deal {', '.join(self.cards)}"


@dataclass(frozen=True, slots=True)
class DealBoardCard(Action):
    """Chance: deal the card that both players use."""

    card: str

    def __str__(self) -> str:
        return f"board {self.card}"


@dataclass(frozen=True, slots=True)
class Fold(Action):
    """Give up the pot."""

    def __str__(self) -> str:
        return "fold"


@dataclass(frozen=True, slots=True)
class CheckCall(Action):
    """Match the chips of the other player; without a raise this costs nothing."""

    def __str__(self) -> str:
        return "call"


@dataclass(frozen=True, slots=True)
class Raise(Action):
    """Match the chips of the other player and add the raise of this round."""

    def __str__(self) -> str:
        return "raise"


MOVES: dict[str, Action] = {"f": Fold(), "c": CheckCall(), "r": Raise()}
"""The actions of the players, by the letters of `betting`."""
MOST_MOVES = 4
"""Moves in one round: check, raise, raise, call."""

LETTERS = {action: letter for letter, action in MOVES.items()}


@dataclass(frozen=True, slots=True)
class HoleCardDealt(Event):
    """Private: the card of one player."""

    player: int
    card: str

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class BoardCardDealt(Event):
    """Public: the card that both players use."""

    card: str


@dataclass(frozen=True, slots=True)
class LeducMoved(Event):
    """Public: a player folds, calls or raises."""

    player: int
    move: str
    """The text of the action."""
    chips: int
    """Chips that the player added to the pot."""


@dataclass(frozen=True, slots=True)
class LeducShowdown(Event):
    """Public: both cards, after a hand without a fold."""

    cards: tuple[str, ...]


class LeducNotes(Notes):
    """The table as one viewer sees it. Texts, arrays, bots and views read it.

    Args:
        game: The game that is played.
        player: The seat of the viewer; -1 for a viewer who sees everything.
    """

    def __init__(self, game: ObservedGame, player: int) -> None:
        super().__init__(game, player)
        self.cards: dict[int, str] = {}
        """The cards that the viewer has seen, by seat."""
        self.board = ""
        """The board card; empty before it is dealt."""
        self.betting = LeducBetting()
        self.is_shown = False
        """Whether both cards were shown at the end."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        match event:
            case HoleCardDealt(player, card):
                self.cards[player] = card
            case BoardCardDealt(card):
                self.board = card
                self.betting = self.betting.next_round()
            case LeducMoved(move=move):
                self.betting = self.betting.after(move[0])
            case LeducShowdown(cards):
                self.cards = dict(enumerate(cards))
                self.is_shown = True

    @property
    def own(self) -> str:
        """The viewer's own card; empty before the deal."""
        return self.cards.get(self.player, "")


class LeducArrays(GameArrays):
    """Observations of Leduc hold'em as arrays."""

    @property
    def specs(self) -> Mapping[str, ArraySpec]:
        return {
            "player": ArraySpec(shape=(2,), low=0, high=1),
            "cards": ArraySpec(shape=(2, len(CARDS)), low=0, high=1),
            "board": ArraySpec(shape=(len(CARDS),), low=0, high=1),
            "moves": ArraySpec(shape=(2, MOST_MOVES, len(MOVES)), low=0, high=1),
            "chips": ArraySpec(shape=(2,), low=0, high=MOST_CHIPS),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return one-hot rows: seat, known cards by seat, board, moves by round; and the chips."""
        import numpy as np  # Imported late: listing the games must stay fast.

        notes = observation.notes
        assert isinstance(notes, LeducNotes)
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.specs.items()}
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
