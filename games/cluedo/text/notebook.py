"""Notebook of one player: what it saw itself, and the arrays of its observation.

The notebook contains no conclusions. `sheet` computes those by exact knowledge on demand.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.cluedo.rules import board
from games.cluedo.rules.cards import Deck, Triple
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
    TurnBegan,
    Unable,
    WeaponMoved,
)
from games.cluedo.rules.setting import CluedoSetting

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


HISTORY, ROW = 32, 6
"""Shape of the array of suggestions."""


def array_specs(game: CluedoSetting) -> Mapping[str, ArraySpec]:
    """Return the specs of an observation's arrays.

    Seats are counted from the observer's own, in turn order.

    - `hand` (cards,): 1 for own cards.
    - `notebook` (cards, seats + 1): 1 has the card, -1 does not have it, 0 unknown. Only what was
      witnessed, no conclusions. The last column is the envelope.
    - `suggestions` (32, 6), latest first: suspect, weapon, room (each from 1), suggester, refuter
      (seat + 1; 0 for none), card shown to or by the observer (from 1; 0 for unseen). Unused rows
      are 0.
    - `out` (seats,): 1 after a false accusation.
    - `turn` (seats,): 1 for the player in turn.
    - With a board: `pawns` (6, 3), suspects in card order: room (from 1; 0 in a corridor), row and
      column in the corridor. `weapons` (6,): the room that each was moved to (from 1; 0 for none).
      `dice` (2,): the throw of this turn, 0 before it.
    """
    cards, seats = len(game.deck.cards), game.num_players
    specs = {
        "hand": ArraySpec((cards,), 0, 1),
        "notebook": ArraySpec((cards, seats + 1), -1, 1),
        "suggestions": ArraySpec((HISTORY, ROW), 0, cards),
        "out": ArraySpec((seats,), 0, 1),
        "turn": ArraySpec((seats,), 0, 1),
    }
    if game.has_board:
        specs["pawns"] = ArraySpec((6, 3), 0, max(board.ROWS, board.COLUMNS))
        specs["weapons"] = ArraySpec((6,), 0, len(game.deck.rooms))
        specs["dice"] = ArraySpec((2,), 0, 6)
    return specs


HAS_NOT = b"\xff"
"""The byte of -1."""


class ArrayLayout:
    """Places of the arrays of one game's observations in a block of bytes.

    Attributes:
        blanks: Per observer, the block before the first event.
        columns: Per observer, the column of each seat: the number counted from the observer.
        rows: The first byte of each card's row in the notebook.
        has_card: Per column, a row of the notebook that places a card there and nowhere else.
        nowhere: The row of a card that is in no column.
        numbers: The number of each card in its category, from 1.
        pawns: The row of a pawn in each place: room, row and column.

    Args:
        specs: The arrays, all of them of the dtype int8.
        offsets: The first byte of each array.
        size: Length of a block.
        deck: The cards.
    """

    def __init__(
        self, specs: Mapping[str, ArraySpec], offsets: Mapping[str, int], size: int, deck: Deck
    ) -> None:
        self.offsets = offsets
        seats = specs["out"].shape[0]
        self.columns = [
            [(seat - player) % seats for seat in range(seats)] for player in range(seats)
        ]
        width = seats + 1
        self.rows = {
            card: self.offsets["notebook"] + number * width for card, number in deck.index.items()
        }
        self.nowhere = HAS_NOT * width
        self.has_card = [
            HAS_NOT * column + b"\1" + HAS_NOT * (width - column - 1) for column in range(width)
        ]
        self.numbers = {
            card: number for cards in deck.categories for number, card in enumerate(cards, start=1)
        }
        self.pawns: dict[Place, bytes] = {
            square: bytes((0, *divmod(square, board.COLUMNS))) for square in board.CORRIDOR
        }
        self.pawns |= {room: bytes((self.numbers[room], 0, 0)) for room in deck.rooms}
        self.blanks = [self._blank(specs, size, columns) for columns in self.columns]

    def _blank(self, specs: Mapping[str, ArraySpec], size: int, columns: list[int]) -> bytes:
        """Return the block of an observer before the first event."""
        block = bytearray(size)
        # Until the first turn begins, seat 0 counts as the one in turn.
        block[self.offsets["turn"] + columns[0]] = 1
        if "pawns" in specs:
            places = b"".join(map(self.pawns.__getitem__, board.STARTS))
            start = self.offsets["pawns"]
            block[start : start + len(places)] = places
        return bytes(block)


SHEETS = 4
"""Number of cached sheets of conclusions. A text compares the latest sheet with an earlier one."""


class Notebook(Notes):
    """Notes of one player. Texts and bots read the public fields.

    The arrays are kept as bytes, because single bytes are written many times faster than elements
    of an array.
    """

    game: CluedoSetting
    hand: tuple[str, ...] = ()
    open_cards: tuple[str, ...] = ()
    suggestion: Triple | None = None
    """The latest suggestion."""
    in_turn = 0
    dice = (0, 0)

    def __init__(self, game: CluedoSetting, player: int) -> None:
        super().__init__(game, player)
        self.shown: dict[str, int] = {}
        """Cards that other players showed to this one -> the seat that showed each."""
        self.shown_to: dict[int, set[str]] = {}
        """Other players -> own cards that were shown to each."""
        self.pawn = ""
        """The suspect that this player plays; empty without a board."""
        if game.has_board:
            self.pawn = game.deck.suspects[player]
        self.places: dict[str, Place] = game.start_places.copy()
        self.out: set[int] = set()
        arrays = game.arrays
        assert isinstance(arrays, CluedoArrays)
        self._layout = layout = arrays.layout
        self._at = layout.offsets
        self._column = layout.columns[player]
        """The number of each seat, counted from the observer's own."""
        self.block = bytearray(layout.blanks[player])
        """All arrays, see `ArrayLayout`."""
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

    def _dealt(self, event: Dealt) -> None:
        self.open_cards = event.open_cards
        for card in event.open_cards:
            # An open card has no holder and is not in the envelope.
            self._place(card, self._layout.nowhere)

    def _hand_dealt(self, event: HandDealt) -> None:
        self.hand = event.cards
        block, layout, hand = self.block, self._layout, self._at["hand"]
        book, index, columns = self._at["notebook"], self.game.deck.index, len(layout.nowhere)
        # Column 0 is the observer: its hand is known completely, so all other cards are excluded.
        block[book : book + len(index) * columns : columns] = HAS_NOT * len(index)
        for card in event.cards:
            block[hand + index[card]] = 1
            self._place(card, layout.has_card[0])

    def _place(self, card: str, row: bytes) -> None:
        """Write the row of a card whose place is known."""
        start = self._layout.rows[card]
        self.block[start : start + len(row)] = row

    def _turn_began(self, event: TurnBegan) -> None:
        turn, column = self._at["turn"], self._column
        self.block[turn + column[self.in_turn]] = 0
        self.block[turn + column[event.player]] = 1
        self.in_turn = event.player
        if self.dice != (0, 0):
            self._set_dice(0, 0)

    def _dice_thrown(self, event: DiceThrown) -> None:
        self._set_dice(event.first, event.second)

    def _set_dice(self, first: int, second: int) -> None:
        place = self._at["dice"]
        self.dice = first, second
        self.block[place], self.block[place + 1] = self.dice

    def _pawn_moved(self, event: PawnMoved) -> None:
        self.places[event.suspect] = event.place
        # The suspects are the first cards of the deck.
        start = self._at["pawns"] + 3 * self.game.deck.index[event.suspect]
        self.block[start : start + 3] = self._layout.pawns[event.place]

    def _weapon_moved(self, event: WeaponMoved) -> None:
        numbers = self._layout.numbers
        self.block[self._at["weapons"] + numbers[event.weapon] - 1] = numbers[event.room]

    def _suggested(self, event: Suggested) -> None:
        self.suggestion = suspect, weapon, room = event.triple
        block, start, numbers = self.block, self._at["suggestions"], self._layout.numbers
        row = bytes((numbers[suspect], numbers[weapon], numbers[room], self._column[event.player]))
        row = row.ljust(ROW, b"\0")
        # The latest comes first, and the oldest leaves at the end.
        end = start + HISTORY * len(row)
        block[start:end] = row + block[start : end - len(row)]

    def _unable(self, event: Unable) -> None:
        assert self.suggestion is not None
        rows = [self._layout.rows[card] for card in self.suggestion]
        for player in event.players:
            column = self._column[player]
            for row in rows:
                # A seat that cannot refute holds none of the three cards.
                self.block[row + column] = HAS_NOT[0]

    def _refuted(self, event: Refuted) -> None:
        self.block[self._at["suggestions"] + 4] = self._column[event.player] + 1

    def _card_shown(self, event: CardShown) -> None:
        self.block[self._at["suggestions"] + 5] = self.game.deck.index[event.card] + 1
        if event.suggester == self.player:
            self.shown[event.card] = event.player
            # The place of a card excludes all other places.
            self._place(event.card, self._layout.has_card[self._column[event.player]])
        else:
            self.shown_to.setdefault(event.suggester, set()).add(event.card)

    def _accused(self, event: Accused) -> None:
        if not event.correct:
            self.out.add(event.player)
            self.block[self._at["out"] + self._column[event.player]] = 1

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


class SeenCards:
    """Cards that a seat saw, and cards that its own unrefuted questions place in the envelope.

    Both follow from single events: it is what a player knows who takes notes and does not reason.
    Measures use it to tell positions apart by their difficulty: what a seat has seen depends on the
    table, how well it uses that should not.
    """

    def __init__(self, game: CluedoSetting, player: int) -> None:
        self._game, self._player = game, player
        self._seen: set[str] = set()
        self._solved: set[str] = set()
        self.holders: dict[str, int] = {}
        """Seats of the cards that it was shown; the envelope, `num_players`, of solved cards."""
        self.showings: dict[int, list[Triple]] = {}
        """Suggestions of others that each other seat refuted, by a card that was not seen."""
        self._suggested: Triple | None = None
        self._question: Triple | None = None
        """Its own latest question, while the answer is awaited."""
        self.entropy_dealt = 0.0
        """Entropy of the envelope after the deal, in bits."""

    def update(self, event: Event) -> None:
        """Process an event that the seat witnessed."""
        match event:
            case Dealt(open_cards=cards):
                self._seen.update(cards)
            case HandDealt(cards=cards):
                self._seen.update(cards)
                # The envelope is one unseen card of each category, all equally likely.
                self.entropy_dealt = sum(math.log2(len(left)) for left in self.candidates())
            case CardShown(player=player, suggester=self._player, card=card):
                self._seen.add(card)
                self.holders[card] = player
            case Suggested(player=player):
                self._suggested = event.triple
                self._question = event.triple if player == self._player else None
            case Refuted(player=player, suggester=suggester) if suggester != self._player:
                if self._suggested and player != self._player:
                    self.showings.setdefault(player, []).append(self._suggested)
            case Unable(players=players) if len(players) == self._game.num_players - 1:
                # No other seat has a card of the question: each is its own or in the envelope.
                self._solved |= {*(self._question or ())} - self._seen
                self.holders |= dict.fromkeys(self._solved, self._game.num_players)

    def candidates(self) -> list[list[str]]:
        """Return, for each category, the cards that may be in the envelope."""
        return [self.candidates_among(cards) for cards in self._game.deck.categories]

    def candidates_among(self, cards: Sequence[str]) -> list[str]:
        """Return the cards, of one category, that may be in the envelope."""
        solved = [card for card in cards if card in self._solved]
        # A solved card is the only candidate of its category.
        return solved or [card for card in cards if card not in self._seen]

    @property
    def name_envelope(self) -> bool:
        """Whether one candidate is left in each category."""
        return all(len(left) == 1 for left in self.candidates())


class CluedoArrays(GameArrays):
    """Observations of Cluedo as arrays; `array_specs` describes them."""

    game: CluedoSetting

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        return array_specs(self.game)

    @cached_property
    def layout(self) -> ArrayLayout:
        """Places of the arrays in the block of a notebook."""
        return ArrayLayout(self.specs, self._offsets, self._record.nbytes, self.game.deck)

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes = observation.notes
        assert isinstance(notes, Notebook)
        return self._from_block(notes.block.copy())
