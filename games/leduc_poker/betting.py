"""Cards, betting, actions and events of Leduc hold'em, and what one viewer has read of them.

Moves of the betting are written as letters: f(old), c(all) and r(aise). To call without a raise is
to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from arena import Action, ArraySpec, Event, GameArrays, Notes, Observation
from arena.core.observation import ObservedGame

if TYPE_CHECKING:
    from numpy.typing import NDArray


CARDS = ("Jack", "Queen", "King")
"""From the lowest to the highest; the deck has two of each."""
ANTE = 1
RAISES = (2, 4)
"""Chips that a raise adds to the call, in the first and in the second round."""
MOST_RAISES = 2
"""Raises in one round, of both players together."""
MOST_CHIPS = ANTE + MOST_RAISES * sum(RAISES)
"""Chips that a player can lose."""


@dataclass(frozen=True, slots=True)
class LeducBetting:
    """All moves so far, and the chips that each player has put into the pot."""

    rounds: tuple[str, ...] = ("",)
    """The moves of each round, e.g. `("crc", "r")`."""
    chips: tuple[int, int] = (ANTE, ANTE)

    @property
    def _latest(self) -> str:
        return self.rounds[-1]

    @property
    def player(self) -> int:
        """The player who moves next; player 0 begins each round."""
        return len(self._latest) % 2

    @property
    def price(self) -> int:
        """Chips that a call costs the player who moves next."""
        return max(self.chips) - self.chips[self.player]

    @property
    def pot(self) -> int:
        """Chips in the pot."""
        return sum(self.chips)

    @property
    def legal(self) -> str:
        """The legal moves. Nothing to call means nothing to fold to."""
        # Two raises per round, of both players together.
        can_raise = self._latest.count("r") < MOST_RAISES
        return ("f" if self.price else "") + "c" + ("r" if can_raise else "")

    @property
    def folded(self) -> int | None:
        """The player who has folded, if one has."""
        return (len(self._latest) - 1) % 2 if self._latest.endswith("f") else None

    @property
    def awaits_board(self) -> bool:
        """True if the first round is over, so that the board card comes next."""
        return len(self.rounds) == 1 and self._is_called

    @property
    def is_over(self) -> bool:
        """True if no move follows: after a fold, or at the end of the second round."""
        return self.folded is not None or (len(self.rounds) == 2 and self._is_called)

    @property
    def _is_called(self) -> bool:
        # The first call of a round is a check, which leaves the other player to move.
        return self._latest.endswith("c") and len(self._latest) > 1

    def after(self, move: str) -> LeducBetting:
        """Return the betting after a legal move."""
        # A fold adds nothing; a call matches the other player; a raise adds its amount on top.
        chips = list(self.chips)
        if move != "f":
            added = RAISES[len(self.rounds) - 1] if move == "r" else 0
            chips[self.player] = max(chips) + added
        return LeducBetting((*self.rounds[:-1], self._latest + move), (chips[0], chips[1]))

    def next_round(self) -> LeducBetting:
        """Return the betting after the board card."""
        return LeducBetting((*self.rounds, ""), self.chips)

    def __str__(self) -> str:
        return "/".join(self.rounds)


def strength(card: str, board: str) -> int:
    """Return a number that is greater for a better hand: a pair, else the higher card."""
    # A pair beats every single card; two players cannot both have one.
    return len(CARDS) if card == board else CARDS.index(card)


def chips_won(betting: LeducBetting, cards: tuple[str, ...], board: str) -> float:
    """Return what player 0 wins in a finished hand; equal hands share the pot."""
    if betting.folded is not None:
        # Only the folder's own chips change hands.
        return float(betting.chips[betting.folded] * (1 if betting.folded == 1 else -1))
    first, second = (strength(card, board) for card in cards)
    # Before a showdown both have put in the same.
    return float(betting.chips[1] * ((first > second) - (first < second)))


def copies_left(card: str, seen: tuple[str, ...]) -> int:
    """Return how many of the two copies of a card are not among the seen cards."""
    return 2 - seen.count(card)


@cache
def card_chances(seen: tuple[str, ...]) -> Mapping[str, float]:
    """Return the probability of each card to be the next one of the deck."""
    left = {card: copies_left(card, seen) for card in CARDS}
    # Read-only, because all callers share it.
    return MappingProxyType({card: n / sum(left.values()) for card, n in left.items() if n})


# Actions, events and notes


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
