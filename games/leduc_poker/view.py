"""The table of Leduc hold'em as one viewer sees it."""

from __future__ import annotations

from collections.abc import Iterator

from arena import Card, Event, Panel, Player, Players, Tabletop, Tile, TileRow, Tone, Track, Tracks
from arena.core.text import pluralize
from games.leduc_poker.betting import winners
from games.leduc_poker.game import LeducPoker
from games.leduc_poker.notes import LeducNotes

WORDS = {"f": "fold", "c": "call", "r": "raise"}


class LeducView:
    """The table as one viewer sees it; only cards that the viewer has seen are open.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None for a viewer who sees everything.
    """

    def __init__(self, game: LeducPoker, seat: int | None) -> None:
        self._game = game
        self._notes = LeducNotes(game, -1 if seat is None else seat)
        self._is_dealt = False

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        # The first event of every viewer is the deal of a card.
        self._is_dealt = True
        self._notes.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now: the board, the pot, and all hands with their chips and moves."""
        notes = self._notes
        pot = Tracks((Track("pot", notes.betting.pot, unit="chips"),))
        board = TileRow((_card(notes.board, "accent"),) if notes.board else (), "Board")
        players = tuple(map(self._player, range(self._game.num_players)))
        boards = (Panel("", (board,)),) if notes.board else ()
        parts = (pot, *boards, Players(players, ("card", "chips")), *self._moves())
        return Tabletop(parts, self._caption())

    def _moves(self) -> Iterator[Panel]:
        lines = tuple(
            f"Round {number}: {', '.join(WORDS[move] for move in moves)}"
            for number, moves in enumerate(self._notes.betting.rounds, 1)
            if moves
        )
        if lines:
            yield Panel("Moves", lines=lines)

    def _player(self, seat: int) -> Player:
        notes = self._notes
        card = notes.cards.get(seat)
        shown: Tile = Card("?", "hidden") if self._is_dealt else Tile("")
        if card is not None:
            shown = _card(card, "good" if card == notes.board else "plain")
        chips = Tile(pluralize(notes.betting.chips[seat], "chip"), "muted", "in the pot")
        is_out = seat not in notes.betting.left
        return Player(self._game.seat_names[seat], seat, (shown, chips), is_out=is_out)

    def _caption(self) -> str:
        notes, names = self._notes, self._game.seat_names
        left = notes.betting.left
        if len(left) == 1:
            return f"{notes.betting.folds(names)}; {names[left[0]]} takes the pot."
        if not notes.is_shown:
            return ""
        cards = [notes.cards.get(seat, "") for seat in range(len(names))]
        best = winners(left, cards, notes.board)
        if len(best) > 1:
            return "Equal hands share the pot."
        return f"{names[best[0]]} takes the pot of {notes.betting.pot} chips."


def _card(card: str, tone: Tone) -> Card:
    return Card(card, tone, face=card[0], note=card)
