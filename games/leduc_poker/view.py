"""View of Leduc hold'em: the cards, the chips and the moves."""

from __future__ import annotations

from arena import Event, Tabletop, Tile, TileRow
from arena.core.observation import ObservedGame
from arena.core.tabletop import Panel
from games.leduc_poker.betting import strength
from games.leduc_poker.notes import LeducNotes

WORDS = {"f": "fold", "c": "call", "r": "raise"}


class LeducView:
    """The table as one viewer sees it; only cards that the viewer has seen are open.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None for a viewer who sees everything.
    """

    def __init__(self, game: ObservedGame, seat: int | None) -> None:
        self._game = game
        self._notes = LeducNotes(game, -1 if seat is None else seat)
        self._is_dealt = False

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        # The first event of every viewer is the deal of a card.
        self._is_dealt = True
        self._notes.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now: both hands with their chips, the board, and the moves."""
        notes = self._notes
        rows = [self._hand(seat) for seat in (0, 1)]
        if notes.board:
            rows.append(TileRow((Tile(notes.board, "accent"),), "Board"))
        lines = tuple(
            f"Round {number}: {', '.join(WORDS[move] for move in moves)}"
            for number, moves in enumerate(notes.betting.rounds, 1)
            if moves
        )
        moves = (Panel("Moves", lines=lines),) if lines else ()
        return Tabletop((Panel("Cards", tuple(rows)), *moves), self._caption())

    def _hand(self, seat: int) -> TileRow:
        notes = self._notes
        card = notes.cards.get(seat)
        tiles = (Tile("?", "hidden"),) if self._is_dealt else ()
        if card is not None:
            tiles = (Tile(card, "good" if card == notes.board else "plain"),)
        note = f"{notes.betting.chips[seat]} chips in the pot"
        return TileRow(tiles, self._game.seat_names[seat], note)

    def _caption(self) -> str:
        notes, names = self._notes, self._game.seat_names
        folded = notes.betting.folded
        if folded is not None:
            return f"{names[folded]} folds; {names[1 - folded]} takes the pot."
        if not notes.is_shown:
            return f"Pot: {notes.betting.pot} chips."
        first, second = (strength(notes.cards[seat], notes.board) for seat in (0, 1))
        if first == second:
            return "Equal hands share the pot."
        return f"{names[0 if first > second else 1]} takes the pot of {notes.betting.pot} chips."
