"""Facts of one viewer: all that it has seen of a game, without conclusions.

Each event is matched here, once. Texts, arrays, tables, measures, bots and exact knowledge read the
fields; exact knowledge also reads the `statements`, the events in terms of cards and their holders.
Holders are numbered like seats; the envelope has the next number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from arena import Event, Notes
from games.cluedo.rules import board
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    Accused,
    CardShown,
    Dealt,
    DiceThrown,
    EnvelopeSeen,
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

HISTORY, ROW = 32, 6
"""Number of suggestions in `Facts.asked`, and bytes of each."""

HAS, LACKS = 1, 0xFF
"""Bytes of `Facts.grid`: as signed integers 1 and -1; 0 is unknown."""

_LACKING = bytes((LACKS,)) * 36
"""The most bytes of a row or of a column: a deck has at most 36 cards."""
_SIGNS = bytes.maketrans(bytes((0, HAS, LACKS)), b".X-")


Kind = Literal["open", "hand", "has", "lacks", "one of", "showed one of", "not all"]
"""Kind of a statement. `open`: no holder has the cards; `hand`: the holder has these and no other;
`one of`: at least one; `showed one of`: it chose among those that it has; `not all`: a false
accusation."""

Statement = tuple[Kind, tuple[int, ...], tuple[str, ...]]
"""One event in terms of cards: the kind, the holders and the cards."""


class Facts(Notes):
    """Facts of one viewer, updated once per event. Readers do not change them.

    Attributes:
        grid: A row per card, in deck order: a byte per seat, counted from the viewer in turn order,
            then one for the envelope. Only hands, shown cards and refusals are entered.
        asked: The latest suggestions, latest first, six bytes each: suspect, weapon and room in
            their categories (from 1), suggester, refuter (+ 1) as in `grid`, and the card that the
            viewer saw in the deck (from 1).
        seen: The viewer's hand, the open cards, and the cards that it was shown.
        solved: Unseen cards of the viewer's own questions that no seat could refute: the envelope
            has them.
        out: A byte per seat, counted from the viewer: 1 after a false accusation.
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
        self.column = game.columns[max(player, 0)]
        """The number of each seat, counted from the viewer."""
        self._width = game.num_players + 1
        self.grid = bytearray(len(game.deck.cards) * self._width)
        self.asked = bytearray(HISTORY * ROW)
        self.statements: list[Statement] = []
        self.seen: set[str] = set()
        self.shown: dict[str, int] = {}
        self.shown_to: dict[int, set[str]] = {}
        self.out = bytearray(self._width - 1)
        self.places = game.start_places.copy()
        if game.has_board:
            self.weapons = bytearray(len(game.deck.weapons))
            """The number of the room that each weapon was moved to, from 1; 0 for none."""

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
            self._place(event.open_cards, None)

    def _hand_dealt(self, event: HandDealt) -> None:
        if event.player == self.player:
            self.hand = event.cards
            self.seen.update(event.cards)
        self.statements.append(("hand", (event.player,), event.cards))
        # The whole hand: the seat has no other card.
        column = self.column[event.player]
        self.grid[column :: self._width] = _LACKING[: len(self.game.deck.cards)]
        self._place(event.cards, column)

    def _place(self, cards: tuple[str, ...], column: int | None) -> None:
        """Enter cards with one holder, or with none, and with no other."""
        width, grid, index = self._width, self.grid, self.game.deck.index
        row = bytearray(_LACKING[:width])
        if column is not None:
            row[column] = HAS
        for card in cards:
            start = index[card] * width
            grid[start : start + width] = row

    # Questions and accusations

    def _suggested(self, event: Suggested) -> None:
        self.suggestion, self.suggestion_turn = event, self.turn
        self.unable, self.refuter, self.card, self.accusation = (), None, None, None
        numbers, asked = self.game.deck.numbers, self.asked
        self.named = suspect, weapon, room = event.suspect, event.weapon, event.room
        row = numbers[suspect], numbers[weapon], numbers[room], self.column[event.player], 0, 0
        asked[:0] = bytes(row)
        del asked[HISTORY * ROW :]

    def _unable(self, event: Unable) -> None:
        self.unable = players = event.players
        self.statements.append(("lacks", players, self.named))
        grid, index, columns = self.grid, self.game.deck.index, [self.column[p] for p in players]
        for card in self.named:
            start = index[card] * self._width
            for column in columns:
                grid[start + column] = LACKS
        # No other seat has one of the cards: each is the viewer's own or in the envelope.
        if len(players) == self.game.num_players - 1 and self.player not in players:
            self.solved |= {*self.named} - self.seen

    def _refuted(self, event: Refuted) -> None:
        self.refuter = event.player
        self.asked[4] = self.column[event.player] + 1
        # The own refutation says nothing new: the own hand is known.
        if event.player != self.player:
            self.statements.append(("one of", (event.player,), self.named))

    def _card_shown(self, event: CardShown) -> None:
        self.card = card = event.card
        self.asked[5] = self.game.deck.index[card] + 1
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
            self.out[self.column[event.player]] = 1
            accused = event.suspect, event.weapon, event.room
            self.statements.append(("not all", (self._width - 1,), accused))

    def _envelope_seen(self, event: EnvelopeSeen) -> None:
        self._see_envelope(event.envelope)

    def _see_envelope(self, envelope: Triple) -> None:
        self.envelope = envelope
        self.statements.append(("has", (self._width - 1,), envelope))

    # Turns and the board

    def _turn_began(self, event: TurnBegan) -> None:
        self.in_turn, self.turn, self.dice = event.player, event.turn, (0, 0)
        # A false accusation ends its turn, so it stays visible in the next one.
        if self.accusation and self.accusation[0] < event.turn - 1:
            self.accusation = None

    def _dice_thrown(self, event: DiceThrown) -> None:
        self.dice, self.accusation = (event.first, event.second), None

    def _pawn_moved(self, event: PawnMoved) -> None:
        self.places[event.suspect] = event.place

    def _weapon_moved(self, event: WeaponMoved) -> None:
        numbers = self.game.deck.numbers
        self.weapons[numbers[event.weapon] - 1] = numbers[event.room]

    @property
    def seats_out(self) -> list[int]:
        """Seats with a false accusation, in ascending order."""
        return [seat for seat, column in enumerate(self.column) if self.out[column]]

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
        first, width = self.column[0], self._width
        rows = [self.grid[n : n + width] for n in range(0, len(self.grid), width)]
        placed = dict(zip(self.game.deck.cards, rows, strict=True))
        envelope: Sequence[str] = self.envelope or [
            card for card, row in placed.items() if HAS not in row and card not in self.open_cards
        ]
        if len(envelope) == 3:
            placed |= dict.fromkeys(envelope, bytearray((LACKS,) * (width - 1) + (HAS,)))
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
