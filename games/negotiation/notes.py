"""Everything that one viewer of the negotiation knows."""

from __future__ import annotations

from arena import Event, Notes, Spoken
from games.negotiation.rules import (
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    OfferAnswered,
    Triple,
    ValuesDealt,
    worth,
)


class NegotiationNotes(Notes):
    """Items, values and the offer on the table. Texts, bots and views read it."""

    game: Negotiation

    def __init__(self, game: Negotiation, player: int) -> None:
        super().__init__(game, player)
        self.counts: Triple = ()
        """Items on the table; () before the deal."""
        self.values: dict[int, Triple] = {}
        """The values that the viewer knows, by seat."""
        self.offer: tuple[Triple, ...] = ()
        self.offers: list[tuple[int, tuple[Triple, ...]]] = []
        """The proposer and the shares of each offer."""
        self.proposer: int | None = None
        self.is_agreed = False
        self.spoken: dict[int, str] = {}
        """The latest message of each player."""
        self.latest_move: Event | None = None
        """The latest offer or answer."""
        self.turn = 0
        """Number of the current turn, from 1; 0 before the deal."""

    @property
    def own(self) -> Triple:
        """Own values; () before the deal."""
        return self.values.get(self.player, ())

    @property
    def offered(self) -> int | None:
        """Own points by the offer on the table; None without an offer."""
        return worth(self.offer[self.player], self.own) if self.offer else None

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case ItemsDealt(counts):
                self.counts, self.turn = counts, 1
            case ValuesDealt(player, values):
                self.values[player] = values
            case Spoken(player, text):
                self.spoken[player] = text
            case DivisionProposed(player, shares):
                self.offer, self.proposer = shares, player
                self.offers.append((player, shares))
                self.turn += 1
            case OfferAnswered(_, answer):
                self.is_agreed = answer == "accept"
        if isinstance(event, DivisionProposed | OfferAnswered):
            self.latest_move = event
