"""The table of Goofspiel: the prizes, the hands that are left, and the score."""

from __future__ import annotations

from arena import Card, Event, Panel, Tabletop, TileRow, Track, Tracks
from games.goofspiel.game import Bid, BidsRevealed, Goofspiel, PrizeTurnedUp


class GoofspielView:
    """The table; a click on an own card bids it. What was bid is public once it is revealed."""

    def __init__(self, game: Goofspiel, seat: int | None) -> None:
        self.game = game
        self._seat = seat
        self._prize = 0
        self._prizes: tuple[int, ...] = game.deck
        """Those that are still to come."""
        self._bids: tuple[tuple[int, ...], ...] = ((),) * game.num_players
        """Cards that each player has bid, in order."""
        self._points = (0,) * game.num_players
        self._latest = ""

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case PrizeTurnedUp(prize):
                self._prize = prize
                self._prizes = tuple(each for each in self._prizes if each != prize)
            case BidsRevealed(_, bids, _, points):
                pairs = zip(self._bids, bids, strict=True)
                self._bids = tuple((*before, bid) for before, bid in pairs)
                self._points, self._prize = points, 0
                self._latest = self.game.text.narrate(event)

    def tabletop(self) -> Tabletop:
        """Return the table now; the viewer's own hand is the last."""
        names = self.game.seat_names
        score = Tracks(
            tuple(Track(name, self._points[seat], seat=seat) for seat, name in enumerate(names)),
            "Score",
        )
        turned = (Card(str(self._prize), "accent", "the prize of this round"),)
        prizes = [TileRow(turned if self._prize else (), "Prize")]
        if self._prizes:
            coming = tuple(Card(str(prize), "muted", "a prize to come") for prize in self._prizes)
            prizes.append(TileRow(coming, "To come"))
        seats = sorted(range(self.game.num_players), key=lambda seat: seat == self._seat)
        hands = Panel("Hands", tuple(map(self._hand, seats)))
        return Tabletop((score, Panel("Prizes", tuple(prizes)), hands), self._latest)

    def _hand(self, seat: int) -> TileRow:
        bids = self._bids[seat]
        cards = tuple(
            Card(str(card), picks=(str(Bid(card)),) if seat == self._seat else ())
            for card in self.game.deck
            if card not in bids
        )
        played = f"played: {' '.join(map(str, bids))}" if bids else ""
        return TileRow(cards, self.game.seat_names[seat], played, seat)
