"""The table of liar's dice as one viewer sees it."""

from __future__ import annotations

from collections.abc import Iterator

from arena import Die, Event, Panel, Tabletop, Tile, TileRow
from games.liars_dice.game import LiarsDice
from games.liars_dice.knowledge import DiceNotes
from games.liars_dice.moves import face_name
from games.liars_dice.text import count_verb, verdict

LONGEST = 8
"""Bids that are listed; older ones are left out."""


class LiarsDiceView:
    """The table as one viewer sees it; only dice that the viewer has seen are open.

    A bid is chosen by two clicks: the number of dice, and the face.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None for a viewer who sees everything.
    """

    def __init__(self, game: LiarsDice, seat: int | None) -> None:
        self._seat = seat
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
        bids_so_far = (Panel("Bids", lines=lines),) if lines else ()
        return Tabletop((Panel("Dice", rows), *bids_so_far, *self._choices()), self._caption())

    def _choices(self) -> Iterator[Panel]:
        """Yield the numbers and faces of a bid, for a viewer who may bid."""
        notes, game = self._notes, self._notes.game
        if self._seat is None or notes.revealed or not notes.own:
            return
        numbers = (
            Tile(f"{n}", title=f"bid {n}", picks=(f"bid {n}",)) for n in range(1, notes.total + 1)
        )
        faces = (
            Die(f"{face}", title=face_name(face), picks=(face_name(face), face_name(face, 1)))
            for face in range(1, game.options.faces + 1)
        )
        yield Panel("Your bid", (TileRow(tuple(numbers), "Number"), TileRow(tuple(faces), "Face")))

    def _row(self, seat: int) -> TileRow:
        notes = self._notes
        hand = notes.hands.get(seat)
        # A hidden hand shows its number of dice, which is public.
        if hand is None:
            tiles: tuple[Die, ...] = (Die("?", "hidden"),) * notes.dice_left[seat]
        else:
            tiles = tuple(map(self._tile, hand))
        return TileRow(tiles, notes.game.seat_names[seat], "" if tiles else "out", seat)

    def _tile(self, die: int) -> Die:
        """Return an open die; after a challenge, those that count are marked."""
        end, game = self._notes.revealed, self._notes.game
        wild = " (wild)" if die == game.wild_face and not self._notes.palifico else ""
        title = f"a {face_name(die, 1)}{wild}"
        if end is None:
            return Die(str(die), "accent" if wild else "plain", title)
        counts = self._notes.matches((die,), end.face)
        return Die(f"{die}*" if counts else str(die), "good" if counts else "muted", title)

    def _caption(self) -> str:
        notes = self._notes
        names, end = notes.game.seat_names, notes.revealed
        if end:
            # The star of the tiles is explained here, because a text has no colours.
            verb = "called spot on" if end.spot_on else "challenged"
            return (
                f"{names[end.challenger]} {verb} {end.bid.claim}: {end.count} "
                f"{count_verb(end.count)} (*). {verdict(notes.game, end).removesuffix(' a die')}."
            )
        wild = None if notes.palifico else notes.game.wild_face
        rule = f" {face_name(wild).capitalize()} are wild." if wild else ""
        return f"Round {notes.round}: {notes.total} dice.{rule}" if notes.round else ""
