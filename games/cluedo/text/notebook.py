"""Notebook of one player: the facts that it saw itself, and the arrays of its observation.

The notebook contains no conclusions. `sheet` computes those by exact knowledge on demand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec, Event, Notes
from games.cluedo.rules import board
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    Accused,
    CardShown,
    Dealt,
    DiceThrown,
    HandDealt,
    PawnMoved,
    Place,
    Refuted,
    Suggested,
    SuspectChosen,
    TurnBegan,
    Unable,
    WeaponMoved,
)

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

HISTORY = 32
"""Length of the array of suggestions."""

SHEETS = 4
"""Number of cached sheets of conclusions. A text compares the latest sheet with an earlier one."""


def array_specs(game: CluedoBase) -> Mapping[str, ArraySpec]:
    """Return the specs of an observation's arrays.

    Seats are counted from the observer's own, in turn order.

    - `hand` (cards,): 1 for own cards.
    - `notebook` (cards, seats + 1): 1 has the card, -1 does not have it, 0 unknown. Only what was
      witnessed, no conclusions. The last column is the envelope.
    - `suggestions` (32, 6), latest first: suspect, weapon, room (each from 1), suggester, refuter
      (seat + 1; 0 for none), card shown to or by the observer (from 1; 0 for unseen). Unused rows
      are 0. With `refuters="all"` (32, 4 + 2 * seats): after the suggester, for each seat 1 if it
      showed a card, then for each seat the card that it showed, if it is seen.
    - `out` (seats,): 1 after a false accusation.
    - `turn` (seats,): 1 for the player in turn.
    - With a board: `pawns` (6, 3), suspects in card order: room (from 1; 0 in a corridor), row and
      column in the corridor. `weapons` (6,): the room that each was moved to (from 1; 0 for none).
      `dice` (2,): the throw of this turn, 0 before it. `suspects` (seats,), if they are chosen: the
      suspect of each player (from 1; 0 before its choice).
    """
    cards, seats = len(game.deck.cards), game.num_players
    specs = {
        "hand": ArraySpec((cards,), 0, 1),
        "notebook": ArraySpec((cards, seats + 1), -1, 1),
        "suggestions": ArraySpec((HISTORY, _suggestion_width(game)), 0, cards),
        "out": ArraySpec((seats,), 0, 1),
        "turn": ArraySpec((seats,), 0, 1),
    }
    if game.has_board:
        specs["pawns"] = ArraySpec((6, 3), 0, max(board.ROWS, board.COLUMNS))
        specs["weapons"] = ArraySpec((6,), 0, len(game.deck.rooms))
        specs["dice"] = ArraySpec((2,), 0, 6)
    if game.options.choose_suspects:
        specs["suspects"] = ArraySpec((seats,), 0, len(game.deck.suspects))
    return specs


def _suggestion_width(game: CluedoBase) -> int:
    """Return the length of a row of the array `suggestions`."""
    return 6 if game.options.refuters == "in_turn" else 4 + 2 * game.num_players


@lru_cache(maxsize=32)
def blank_arrays(game: CluedoBase) -> dict[str, NDArray[Any]]:
    """Return the arrays before the deal, pawns on their start squares; do not change them."""
    specs = array_specs(game)
    arrays = {name: np.zeros(spec.shape, dtype=spec.dtype) for name, spec in specs.items()}
    if game.has_board:
        arrays["pawns"][:, 1:] = [divmod(start, board.COLUMNS) for start in board.STARTS]
    return arrays


class Notebook(Notes):
    """Notes of one player. Texts and bots read the public fields."""

    game: CluedoBase

    def __init__(self, game: CluedoBase, player: int) -> None:
        super().__init__(game, player)
        self.hand: tuple[str, ...] = ()
        self.open_cards: tuple[str, ...] = ()
        self.shown: dict[str, int] = {}
        """Cards that other players showed to this one -> the seat that showed each."""
        self.shown_to: dict[int, set[str]] = {}
        """Other players -> own cards that were shown to each."""
        self.pawn = ""
        """The suspect that this player plays; empty without a board, or before its choice."""
        if game.has_board and not game.options.choose_suspects:
            self.pawn = game.deck.suspects[player]
        self.places: dict[str, Place] = {}
        self.suggestion: Triple | None = None
        self.out: set[int] = set()
        self.in_turn = 0
        self.dice = (0, 0)
        self._index = game.deck.index
        self._arrays = {name: array.copy() for name, array in blank_arrays(game).items()}
        self._book = self._arrays["notebook"]
        # Suggestions are written from the end of a longer array towards its front, so that the
        # latest comes first without moving the others.
        self._past = np.zeros((4 * HISTORY, _suggestion_width(game)), dtype=np.int8)
        self._one_refuter = game.options.refuters == "in_turn"
        self._latest = 3 * HISTORY
        if game.has_board:
            self.places.update(zip(game.deck.suspects, board.STARTS, strict=True))
        self._sheets: dict[int, NDArray[np.bool_]] = {}
        self._logic_read = sys.maxsize  # The knowledge is created for the first sheet.

    @property
    def other_squares(self) -> int:
        """Set of the corridor squares that other pawns occupy, one bit per square."""
        return board.bits(
            place
            for suspect, place in self.places.items()
            if suspect != self.pawn and isinstance(place, int)
        )

    @property
    def throw(self) -> int:
        """The throw of this turn; 0 before it."""
        return sum(self.dice)

    def update(self, event: Event) -> None:
        """Record one event that the player witnessed."""
        record = _RECORDERS.get(type(event))
        if record:
            record(self, event)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of the current arrays."""
        arrays = {name: array.copy() for name, array in self._arrays.items()}
        arrays["suggestions"] = self._past[self._latest : self._latest + HISTORY].copy()
        arrays["turn"][self._column(self.in_turn)] = 1
        if self.game.has_board:
            arrays["dice"][:] = self.dice
        return arrays

    def _column(self, seat: int) -> int:
        """Return the number of a seat, counted from the observer's own."""
        return (seat - self.player) % self.game.num_players

    def _dealt(self, event: Dealt) -> None:
        self.open_cards = event.open_cards
        for card in event.open_cards:
            # An open card has no holder and is not in the envelope.
            self._book[self._index[card]] = -1

    def _hand_dealt(self, event: HandDealt) -> None:
        self.hand = event.cards
        rows = [self._index[card] for card in event.cards]
        self._arrays["hand"][rows] = 1
        # Column 0 is the observer: its hand is known completely, so all other cards are excluded.
        self._book[:, 0] = -1
        # Own cards are nowhere else; the next line sets the own column back to 1.
        self._book[rows] = -1
        self._book[rows, 0] = 1

    def _suspect_chosen(self, event: SuspectChosen) -> None:
        suspect = self.game.deck.suspects.index(event.suspect)
        self._arrays["suspects"][self._column(event.player)] = suspect + 1
        if event.player == self.player:
            self.pawn = event.suspect

    def _turn_began(self, event: TurnBegan) -> None:
        self.in_turn = event.player
        self.dice = (0, 0)

    def _dice_thrown(self, event: DiceThrown) -> None:
        self.dice = (event.first, event.second)

    def _pawn_moved(self, event: PawnMoved) -> None:
        self.places[event.suspect] = place = event.place
        row = self._arrays["pawns"][self.game.deck.suspects.index(event.suspect)]
        if isinstance(place, str):
            row[:] = (self.game.deck.rooms.index(place) + 1, 0, 0)
        else:
            row[:] = (0, *divmod(place, board.COLUMNS))

    def _weapon_moved(self, event: WeaponMoved) -> None:
        weapon = self.game.deck.weapons.index(event.weapon)
        self._arrays["weapons"][weapon] = self.game.deck.rooms.index(event.room) + 1

    def _suggested(self, event: Suggested) -> None:
        self.suggestion = event.triple
        if self._latest == 0:
            # The front is reached: the latest suggestions move to the end, once in 3 * HISTORY.
            self._past[3 * HISTORY :] = self._past[:HISTORY]
            self._latest = 3 * HISTORY
        self._latest -= 1
        index, deck = self._index, self.game.deck
        self._past[self._latest] = 0
        self._past[self._latest, :4] = (
            index[event.suspect] + 1,
            index[event.weapon] - len(deck.suspects) + 1,
            index[event.room] - len(deck.suspects) - len(deck.weapons) + 1,
            self._column(event.player),
        )

    def _unable(self, event: Unable) -> None:
        assert self.suggestion is not None
        for player in event.players:
            column = self._column(player)
            for card in self.suggestion:
                # A seat that cannot refute holds none of the three cards.
                self._book[self._index[card], column] = -1

    def _refuted(self, event: Refuted) -> None:
        column = self._column(event.player)
        if self._one_refuter:
            self._past[self._latest, 4] = column + 1
        else:
            self._past[self._latest, 4 + column] = 1

    def _card_shown(self, event: CardShown) -> None:
        # One refuter: the last place of the row. Else the second place of that seat.
        seats = self.game.num_players
        place = 5 if self._one_refuter else 4 + seats + self._column(event.player)
        self._past[self._latest, place] = self._index[event.card] + 1
        if event.suggester == self.player:
            self.shown[event.card] = event.player
            row = self._book[self._index[event.card]]
            # The place of a card excludes all other places.
            row[:] = -1
            row[self._column(event.player)] = 1
        else:
            self.shown_to.setdefault(event.suggester, set()).add(event.card)

    def _accused(self, event: Accused) -> None:
        if not event.correct:
            self.out.add(event.player)
            self._arrays["out"][self._column(event.player)] = 1

    # Seen cards and conclusions

    def seen(self, card: str) -> bool:
        """Return whether this player has seen the card: its own, shown to it, or open."""
        return card in self.hand or card in self.shown or card in self.open_cards

    def sheet(self, events: tuple[Event, ...], count: int) -> NDArray[np.bool_]:
        """Return which holders can have each card after the first `count` of `events`.

        Shape (cards, seats + 1), as `CluedoKnowledge.possible`; seats by their own numbers, not
        counted from the observer. Some sheets are cached. With ascending `count` each event is
        processed once.
        """
        if count not in self._sheets:
            # Knowledge cannot go back, so an earlier sheet needs a new one from the first event.
            if count < self._logic_read:
                # Imported here, because bots without conclusions need no exact knowledge.
                from games.cluedo.inference.knowledge import CluedoKnowledge

                self._logic = CluedoKnowledge(self.game, self.player, "logic")
                self._logic_read = 0
            for event in events[self._logic_read : count]:
                self._logic.update(event)
            self._logic_read = count
            self._sheets[count] = self._logic.possible()
            # A dict keeps the order of insertion, so the oldest sheet goes first.
            while len(self._sheets) > SHEETS:
                del self._sheets[next(iter(self._sheets))]
        return self._sheets[count]


_RECORDERS: dict[type[Event], Callable[[Notebook, Any], None]] = {
    Dealt: Notebook._dealt,
    HandDealt: Notebook._hand_dealt,
    SuspectChosen: Notebook._suspect_chosen,
    TurnBegan: Notebook._turn_began,
    DiceThrown: Notebook._dice_thrown,
    PawnMoved: Notebook._pawn_moved,
    WeaponMoved: Notebook._weapon_moved,
    Suggested: Notebook._suggested,
    Unable: Notebook._unable,
    Refuted: Notebook._refuted,
    CardShown: Notebook._card_shown,
    Accused: Notebook._accused,
}
