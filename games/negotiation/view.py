"""View of the negotiation: items, values that the viewer knows, the offer, the latest talk."""

from __future__ import annotations

from arena import Event, Spoken
from arena.core.tabletop import Panel, Tabletop, Tile, TileRow, Tone
from games.negotiation.base import NegotiationBase
from games.negotiation.deals import ITEMS, Triple, worth
from games.negotiation.events import (
    DivisionProposed,
    ItemsDealt,
    OfferAccepted,
    OfferRejected,
    ValuesDealt,
)

TALK = 3
"""Latest messages that are shown."""
WIDTH = 76
"""Characters of a message that are shown in one line."""
SEAT_TONES: tuple[Tone, ...] = ("seat0", "seat1", "seat2")


class NegotiationView:
    """The table as one viewer sees it."""

    def __init__(self, game: NegotiationBase, seat: int | None) -> None:
        self.game = game
        self._counts: Triple = ()
        self._values: dict[int, Triple] = {}
        self._offer: tuple[Triple, ...] = ()
        self._talk: tuple[str, ...] = ()
        self._latest = ""

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        names = self.game.seat_names
        match event:
            case ItemsDealt(counts):
                self._counts = counts
            case ValuesDealt(player, values):
                self._values[player] = values
            case DivisionProposed(player, shares):
                self._offer = shares
                self._latest = f"{names[player]} offers."
            case OfferAccepted() | OfferRejected():
                self._latest = self.game.text.narrate(event)
            case Spoken():
                # A long message would break the lines of a terminal; the events hold all of it.
                line = event.sentence(names)
                shown = line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
                self._talk = (*self._talk, shown)[-TALK:]

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        rows = [_row("On the table", self._counts, "plain")] if self._counts else []
        for seat, name in enumerate(self.game.seat_names if self._counts else ()):
            rows.append(_row(f"Worth to {name}", self._values.get(seat), "muted"))
        for seat, share in enumerate(self._offer):
            known = self._values.get(seat)
            # A seat sees only its own points, as it knows only its own values.
            points = "" if known is None else f"{worth(share, known)} points"
            name = f"Offer: {self.game.seat_names[seat]} gets"
            rows.append(_row(name, share, SEAT_TONES[seat], points))
        return Tabletop((Panel("Items", tuple(rows), ITEMS, self._talk),), self._latest)


def _row(name: str, numbers: Triple | None, tone: Tone, note: str = "") -> TileRow:
    """Return one row; unknown numbers are question marks."""
    if numbers is None:
        return TileRow(tuple(Tile("?", "hidden") for _ in ITEMS), name)
    return TileRow(tuple(Tile(str(number), tone) for number in numbers), name, note)
