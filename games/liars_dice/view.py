"""View of liar's dice: the dice of each seat, the bids, and the challenge."""

from __future__ import annotations

from arena import Event, Tabletop, Tile, TileRow
from arena.core.tabletop import Panel
from games.liars_dice.base import LiarsDiceBase, face_name
from games.liars_dice.notes import DiceNotes

LONGEST = 8
"""Bids that are listed; older ones are left out."""


class LiarsDiceView:
    """The table as one viewer sees it; only dice that the viewer has seen are open.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None for a viewer who sees everything.
    """

    def __init__(self, game: LiarsDiceBase, seat: int | None) -> None:
        self._notes = DiceNotes(game, -1 if seat is None else seat)

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self._notes.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now: a row of dice for each seat, and the bids of the round."""
        notes = self._notes
        names, bids = notes.game.seat_names, notes.bids[-LONGEST:]
        lines = tuple(f"{names[made.player]} bids {made.bid.claim}." for made in bids)
        rows = tuple(self._row(seat) for seat in range(notes.game.num_players))
        panels = (Panel("Dice", rows), *((Panel("Bids", lines=lines),) if lines else ()))
        return Tabletop(panels, self._caption())

    def _row(self, seat: int) -> TileRow:
        notes = self._notes
        hand = notes.hands.get(seat)
        # A hidden hand shows its number of dice, which is public.
        if hand is None:
            tiles = (Tile("?", "hidden"),) * notes.dice_left[seat]
        else:
            tiles = tuple(map(self._tile, hand))
        return TileRow(tiles, notes.game.seat_names[seat], "" if tiles else "out")

    def _tile(self, die: int) -> Tile:
        """Return an open die; after a challenge, those that count are marked."""
        end, game = self._notes.revealed, self._notes.game
        wild = " (wild)" if die == game.wild_face else ""
        title = f"a {face_name(die, 1)}{wild}"
        if end is None:
            return Tile(str(die), "accent" if wild else "plain", title)
        counts = game.matches((die,), end.face)
        return Tile(f"{die}*" if counts else str(die), "good" if counts else "muted", title)

    def _caption(self) -> str:
        notes = self._notes
        names, end = notes.game.seat_names, notes.revealed
        if end:
            # The star of the tiles is explained here, because a text has no colours.
            return (
                f"{names[end.challenger]} challenged {end.bid.claim}: {end.count} count (*). "
                f"{names[end.loser]} loses."
            )
        wild = notes.game.wild_face
        rule = f" {face_name(wild).capitalize()} are wild." if wild else ""
        return f"Round {notes.round}: {notes.total} dice.{rule}" if notes.round else ""
