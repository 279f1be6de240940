"""The table of a negotiation as one viewer sees it: items, values, and the latest offer."""

from __future__ import annotations

from collections.abc import Iterator

from arena import (
    Event,
    Offer,
    Panel,
    Player,
    Players,
    Spoken,
    Stepper,
    Tabletop,
    Tile,
    TileRow,
    Tone,
    Track,
    Tracks,
)
from games.negotiation.deals import ITEMS, TOTAL_VALUE, Triple, worth
from games.negotiation.events import (
    DivisionProposed,
    ItemsDealt,
    OfferAccepted,
    OfferRejected,
    ValuesDealt,
    WalkedAway,
)
from games.negotiation.game import Negotiation

SEAT_TONES: tuple[Tone, ...] = ("seat0", "seat1", "seat2")


class NegotiationView:
    """The table; the viewer makes an offer by the number of items of each type that it keeps."""

    def __init__(self, game: Negotiation, seat: int | None) -> None:
        self.game = game
        self._seat = seat
        self._counts: Triple = ()
        self._values: dict[int, Triple] = {}
        self._offer: tuple[Triple, ...] = ()
        self._statements: dict[int, str] = {}
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
            case OfferAccepted() | OfferRejected() | WalkedAway():
                self._latest = self.game.text.narrate(event)
            case Spoken(player, text):
                self._statements[player] = text

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        if not self._counts:
            return Tabletop(())
        items = Panel("Items", tuple(self._rows()), ITEMS)
        names = enumerate(self.game.seat_names)
        talk = tuple(
            Player(name, seat, bubble=self._statements.get(seat, "")) for seat, name in names
        )
        players = (Players(talk),) if self._statements else ()
        return Tabletop((items, *players, *self._points(), *self._offers()), self._latest)

    def _rows(self) -> Iterator[TileRow]:
        yield _row("On the table", self._counts, "plain")
        for seat, name in enumerate(self.game.seat_names):
            if seat in self._values or self._seat is None:
                yield _row(f"Worth to {name}, each", self._values.get(seat), "muted")
        for seat, share in enumerate(self._offer):
            name = f"Offer: {self.game.seat_names[seat]} gets"
            yield _row(name, share, SEAT_TONES[seat])

    def _points(self) -> Iterator[Tracks]:
        """Yield what the offer is worth to those whose values the viewer knows."""
        # A seat sees only its own points, as it knows only its own values.
        tracks = tuple(
            Track(
                f"this offer is worth to {self.game.seat_names[seat]}",
                worth(share, self._values[seat]),
                TOTAL_VALUE,
                unit="points",
            )
            for seat, share in enumerate(self._offer)
            if seat in self._values
        )
        if tracks:
            yield Tracks(tracks)

    def _offers(self) -> Iterator[Offer]:
        """Yield the steppers for the viewer's own offer, with all it asks for at first."""
        own = None if self._seat is None else self._values.get(self._seat)
        if own is None or self._seat is None:
            return
        names, players = self.game.seat_names, self.game.num_players
        share = self._offer[self._seat] if self._offer else self._counts
        steppers = [
            Stepper(f"{item} for you" if players > 2 else item, count, number, value)
            for item, count, number, value in zip(ITEMS, self._counts, share, own, strict=True)
        ]
        action = "keep {} {} {}"
        if players == 3:
            action += " give {} {} {}"
            following = names[(self._seat + 1) % players]
            steppers += [
                Stepper(f"{item} for {following}", count)
                for item, count in zip(ITEMS, self._counts, strict=True)
            ]
        yield Offer(
            action,
            tuple(steppers),
            "What you keep; the others get the rest."
            if players == 2
            else "What you keep, and what the next player gets.",
            own=len(ITEMS),
        )


def _row(name: str, numbers: Triple | None, tone: Tone) -> TileRow:
    """Return one row; unknown numbers are question marks."""
    if numbers is None:
        return TileRow(tuple(Tile("?", "hidden") for _ in ITEMS), name)
    return TileRow(tuple(Tile(str(number), tone) for number in numbers), name)
