"""Facts of one viewer: all that it has seen of a game, without conclusions; and their arrays.

Each event is matched here, once. Texts, arrays, tables, measures, bots and exact knowledge read the
fields; exact knowledge also reads the `statements`, the events in terms of cards and their holders.
Holders are numbered like seats; the envelope has the next number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from numpy.typing import NDArray

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.cluedo.rules import board
from games.cluedo.rules.board import Place, Triple
from games.cluedo.rules.setting import (
    Accused,
    CardShown,
    CluedoSetting,
    Dealt,
    DiceThrown,
    EnvelopeSeen,
    HandDealt,
    PawnMoved,
    Refuted,
    Suggested,
    TurnBegan,
    Unable,
    WeaponMoved,
)

HISTORY, ROW = 32, 6
"""Shape of the array of suggestions."""

HAS, LACKS = 1, 0xFF
"""Bytes of a notebook: as signed integers 1 and -1; 0 is unknown."""

_SIGNS = bytes.maketrans(bytes((0, HAS, LACKS)), b".X-")


class CluedoArrays(GameArrays):
    """Arrays of an observation. Seats are counted from the observer's own, in turn order.

    - `hand` (cards,): 1 for own cards.
    - `notebook` (cards, seats + 1): 1 has the card, -1 does not have it, 0 unknown. Only what was
      witnessed, no conclusions. The last column is the envelope.
    - `suggestions` (32, 6), latest first: suspect, weapon, room (each from 1), suggester, refuter
      (seat + 1; 0 for none), card shown to or by the observer (from 1; 0 for unseen). Unused rows
      are 0.
    - `out` (seats,): 1 after a false accusation.
    - `turn` (seats,): 1 for the player in turn; seat 0 until the first turn begins.
    - With a board: `pawns` (6, 3), suspects in card order: room (from 1; 0 in a corridor), row and
      column in the corridor. `weapons` (6,): the room that each was moved to (from 1; 0 for none).
      `dice` (2,): the throw of this turn, 0 before it.
    """

    game: CluedoSetting

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        game = self.game
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

    @cached_property
    def places(self) -> dict[Place, bytes]:
        """The row of a pawn in each place: room, row and column."""
        numbers = self.game.deck.numbers
        rooms: dict[Place, bytes] = {
            room: bytes((numbers[room], 0, 0)) for room in self.game.deck.rooms
        }
        return rooms | {n: bytes((0, *divmod(n, board.COLUMNS))) for n in board.CORRIDOR}

    @cached_property
    def rows(self) -> tuple[bytes, ...]:
        """The row of the notebook for a card in each column; the last one for a card in none."""
        width = self.game.num_players + 1
        columns = (*range(width), None)
        return tuple(bytes(HAS if n == at else LACKS for n in range(width)) for at in columns)

    @cached_property
    def blanks(self) -> tuple[bytes, ...]:
        """The block of each observer before the first event."""
        return tuple(map(self._blank, range(self.game.num_players)))

    def _blank(self, player: int) -> bytes:
        block = bytearray(self._record.nbytes)
        block[self._offsets["turn"] + self.game.columns[player][0]] = 1
        if self.game.has_board:
            start = self._offsets["pawns"]
            pawns = b"".join(self.places[square] for square in board.STARTS)
            block[start : start + len(pawns)] = pawns
        return bytes(block)

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        facts = observation.notes
        assert isinstance(facts, Facts)
        return self._from_block(facts.block.copy())


Kind = Literal["open", "hand", "has", "lacks", "one of", "showed one of", "not all"]
"""Kind of a statement. `open`: no holder has the cards; `hand`: the holder has these and no other;
`one of`: at least one; `showed one of`: it chose among those that it has; `not all`: a false
accusation."""

Statement = tuple[Kind, tuple[int, ...], tuple[str, ...]]
"""One event in terms of cards: the kind, the holders and the cards."""


class Facts(Notes):
    """Facts of one viewer, updated once per event. Readers do not change them.

    Attributes:
        block: All arrays as bytes, one after another, see `CluedoArrays`. Single bytes are written
            many times faster than elements of an array.
        seen: The viewer's hand, the open cards, and the cards that it was shown.
        solved: Unseen cards of the viewer's own questions that no seat could refute: the envelope
            has them.
        shown: The cards that others showed to the viewer, and the seat of each.
        shown_to: The viewer's cards that it showed to each other seat.
    """

    game: CluedoSetting
    hand: tuple[str, ...] = ()
    solved: frozenset[str] = frozenset()
    hand_sizes: tuple[int, ...] = ()
    open_cards: tuple[str, ...] = ()
    turn = 0
    in_turn = 0
    dice = (0, 0)
    envelope: Triple | None = None
    """The contents of the envelope, once the viewer has seen them or a right accusation."""
    accusation: tuple[int, Accused] | None = None
    """The turn and the latest accusation, until another action follows."""
    suggestion: Suggested | None = None
    """The latest suggestion. The following fields are about it."""
    named: tuple[str, ...] = ()
    """Its suspect, weapon and room."""
    suggestion_turn = 0
    unable: tuple[int, ...] = ()
    refuter: int | None = None
    card: str | None = None
    """The card that was shown, if the viewer sees it."""

    def __init__(self, game: CluedoSetting, player: int) -> None:
        """Create the facts before the first event; seat -1 is a viewer who sees everything."""
        super().__init__(game, player)
        observer, arrays = max(player, 0), game.arrays
        assert isinstance(arrays, CluedoArrays)
        self.column = game.columns[observer]
        """The number of each seat, counted from the viewer."""
        self._arrays, self._at = arrays, arrays._offsets
        self.block = bytearray(arrays.blanks[observer])
        self.statements: list[Statement] = []
        self.seen: set[str] = set()
        self.shown: dict[str, int] = {}
        self.shown_to: dict[int, set[str]] = {}
        self.places = game.start_places.copy()

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        read = _READERS.get(type(event))
        if read:
            read(self, event)

    # Cards

    def _dealt(self, event: Dealt) -> None:
        self.hand_sizes, self.open_cards = event.hand_sizes, event.open_cards
        if event.open_cards:
            self.seen.update(event.open_cards)
            self.statements.append(("open", (), event.open_cards))
            self._place(event.open_cards, -1)

    def _hand_dealt(self, event: HandDealt) -> None:
        block, deck = self.block, self.game.deck
        if event.player == self.player:
            self.hand = event.cards
            self.seen.update(event.cards)
            for card in event.cards:
                block[deck.index[card]] = 1  # The array `hand` comes first.
        self.statements.append(("hand", (event.player,), event.cards))
        # The whole hand: the seat has no other card.
        column, end = self.column[event.player], self._at["suggestions"]
        start, width = self._at["notebook"] + column, self.game.num_players + 1
        block[start:end:width] = bytes((LACKS,)) * len(deck.cards)
        self._place(event.cards, column)

    def _place(self, cards: tuple[str, ...], column: int) -> None:
        """Enter cards with one holder, or with none (-1), and with no other."""
        index, row, start = self.game.deck.index, self._arrays.rows[column], self._at["notebook"]
        for card in cards:
            at = start + index[card] * len(row)
            self.block[at : at + len(row)] = row

    # Questions and accusations

    def _suggested(self, event: Suggested) -> None:
        self.suggestion, self.suggestion_turn = event, self.turn
        self.unable, self.refuter, self.card, self.accusation = (), None, None, None
        self.named = suspect, weapon, room = event.suspect, event.weapon, event.room
        block, start, numbers = self.block, self._at["suggestions"], self.game.deck.numbers
        row = numbers[suspect], numbers[weapon], numbers[room], self.column[event.player], 0, 0
        # The latest comes first, and the oldest leaves at the end.
        end = start + HISTORY * ROW
        block[start:end] = bytes(row) + block[start : end - ROW]

    def _unable(self, event: Unable) -> None:
        self.unable = players = event.players
        self.statements.append(("lacks", players, self.named))
        block, index, width = self.block, self.game.deck.index, self.game.num_players + 1
        for card in self.named:
            start = self._at["notebook"] + index[card] * width
            for player in players:
                block[start + self.column[player]] = LACKS
        # No other seat has one of the cards: each is the viewer's own or in the envelope.
        if len(players) == self.game.num_players - 1 and self.player not in players:
            self.solved |= {*self.named} - self.seen

    def _refuted(self, event: Refuted) -> None:
        self.refuter = event.player
        self.block[self._at["suggestions"] + 4] = self.column[event.player] + 1
        # The own refutation says nothing new: the own hand is known.
        if event.player != self.player:
            self.statements.append(("one of", (event.player,), self.named))

    def _card_shown(self, event: CardShown) -> None:
        self.card = card = event.card
        self.block[self._at["suggestions"] + 5] = self.game.deck.index[card] + 1
        if event.suggester == self.player:
            self.seen.add(card)
            self.shown[card] = event.player
            self._place((card,), self.column[event.player])
            self.statements.append(("has", (event.player,), (card,)))
            self.statements.append(("showed one of", (event.player,), self.named))
        else:
            self.shown_to.setdefault(event.suggester, set()).add(card)

    def _accused(self, event: Accused) -> None:
        self.accusation = self.turn, event
        if event.correct:
            self._see_envelope(event.triple)
        else:
            self.block[self._at["out"] + self.column[event.player]] = 1
            accused = event.suspect, event.weapon, event.room
            self.statements.append(("not all", (self.game.num_players,), accused))

    def _envelope_seen(self, event: EnvelopeSeen) -> None:
        self._see_envelope(event.envelope)

    def _see_envelope(self, envelope: Triple) -> None:
        self.envelope = envelope
        self.statements.append(("has", (self.game.num_players,), envelope))

    # Turns and the board

    def _turn_began(self, event: TurnBegan) -> None:
        block, turn, column = self.block, self._at["turn"], self.column
        block[turn + column[self.in_turn]] = 0
        block[turn + column[event.player]] = 1
        self.in_turn, self.turn = event.player, event.turn
        if self.dice != (0, 0):
            self._set_dice(0, 0)
        # A false accusation ends its turn, so it stays visible in the next one.
        if self.accusation and self.accusation[0] < event.turn - 1:
            self.accusation = None

    def _dice_thrown(self, event: DiceThrown) -> None:
        self._set_dice(event.first, event.second)
        self.accusation = None

    def _set_dice(self, first: int, second: int) -> None:
        self.dice, start = (first, second), self._at["dice"]
        self.block[start : start + 2] = bytes(self.dice)

    def _pawn_moved(self, event: PawnMoved) -> None:
        self.places[event.suspect] = event.place
        # The suspects are the first cards of the deck.
        start = self._at["pawns"] + 3 * self.game.deck.index[event.suspect]
        self.block[start : start + 3] = self._arrays.places[event.place]

    def _weapon_moved(self, event: WeaponMoved) -> None:
        numbers = self.game.deck.numbers
        self.block[self._at["weapons"] + numbers[event.weapon] - 1] = numbers[event.room]

    def bytes_of(self, name: str) -> bytearray:
        """Return the values of one array."""
        spec, start = self._arrays.specs[name], self._at[name]
        return self.block[start : start + math.prod(spec.shape)]

    @property
    def seats_out(self) -> list[int]:
        """Seats with a false accusation, in ascending order."""
        out = self.bytes_of("out")
        return [seat for seat, column in enumerate(self.column) if out[column]]

    @property
    def pawn(self) -> str:
        """The suspect that the viewer plays."""
        return self.game.deck.suspects[self.player]

    @property
    def place(self) -> Place:
        """The place of its pawn on the board."""
        return self.places[self.pawn]

    @property
    def other_squares(self) -> int:
        """Set of the corridor squares that other pawns occupy, one bit per square."""
        others = (place for suspect, place in self.places.items() if suspect != self.pawn)
        return board.bits(place for place in others if isinstance(place, int))

    # The simplest consequences

    def candidates(self, cards: Iterable[str]) -> list[str]:
        """Return the cards, of one category, that may be in the envelope without any deduction."""
        # A solved card is the only candidate of its category.
        solved = [card for card in cards if card in self.solved]
        return solved or [card for card in cards if card not in self.seen]

    @property
    def name_envelope(self) -> bool:
        """True if one candidate is left in each category."""
        return all(len(self.candidates(cards)) == 1 for cards in self.game.deck.categories)

    @property
    def entropy_dealt(self) -> float:
        """Entropy of the envelope after the deal, in bits; 0 before it."""
        if not self.hand:
            return 0.0
        known = {*self.hand, *self.open_cards}
        # The envelope has one unseen card of each category, all equally likely.
        return sum(
            math.log2(sum(card not in known for card in cards))
            for cards in self.game.deck.categories
        )

    def signs(self) -> dict[str, str]:
        """Return per card a sign for each seat and the envelope: X has it, - has it not, . unknown.

        If all cards but three are placed, those three are the envelope.
        """
        # Seat 0 is `first`, counted from the viewer.
        first, width, notebook = self.column[0], len(self.column) + 1, self.bytes_of("notebook")
        rows = [notebook[n : n + width] for n in range(0, len(notebook), width)]
        placed = dict(zip(self.game.deck.cards, rows, strict=True))
        envelope: Sequence[str] = self.envelope or [
            card for card, row in placed.items() if HAS not in row and card not in self.open_cards
        ]
        if len(envelope) == 3:
            placed |= dict.fromkeys(envelope, bytearray(self._arrays.rows[width - 1]))
        return {
            card: (row[first:-1] + row[:first] + row[-1:]).translate(_SIGNS).decode()
            for card, row in placed.items()
        }


_READERS: dict[type[Event], Callable[[Facts, Any], None]] = {
    Dealt: Facts._dealt,
    HandDealt: Facts._hand_dealt,
    TurnBegan: Facts._turn_began,
    DiceThrown: Facts._dice_thrown,
    PawnMoved: Facts._pawn_moved,
    WeaponMoved: Facts._weapon_moved,
    Suggested: Facts._suggested,
    Unable: Facts._unable,
    Refuted: Facts._refuted,
    CardShown: Facts._card_shown,
    Accused: Facts._accused,
    EnvelopeSeen: Facts._envelope_seen,
}
