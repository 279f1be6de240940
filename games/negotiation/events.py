"""Options, actions and events of the negotiation. Numbers are in the order books, hats, balls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from arena import Action, Event
from arena.core.action import Promise, Statement
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions
from arena.core.text import pluralize
from games.negotiation.deals import TOTAL_VALUE, Triple, Values


class NegotiationOptions(SeatOptions):
    """Options of `negotiation`."""

    players: int = Field(2, ge=2, le=3, description="Number of seats.")
    turns: int = Field(
        10, ge=3, le=40, description="Turns of all players together, then there is no deal."
    )
    talk: Literal[False, True, "statements"] = Field(
        True,
        description="Whether a player may send a message in each turn. 'statements': it can also "
        "attach statements whose truth is known.",
    )
    discount: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Factor of all points for each turn after the second.",
    )
    walk_away: int = Field(
        0,
        ge=0,
        le=TOTAL_VALUE,
        description="Points of each player when one of them walks away in its turn, which ends the "
        "game. 0: players cannot walk away.",
    )


def numbers(items: Triple) -> str:
    """Return numbers with spaces between them."""
    return " ".join(map(str, items))


@dataclass(frozen=True, slots=True)
class DealItems(Action):
    """Chance: put items on the table and give each player its values."""

    counts: Triple
    values: Values

    def __str__(self) -> str:
        return f"items {numbers(self.counts)}; values {', '.join(map(numbers, self.values))}"


# Numbers instead of words: a short action that models write without mistakes.
@dataclass(frozen=True, slots=True)
class ProposeDivision(Action):
    """Offer a division of all items."""

    kept: Triple
    """Items for the player who offers."""
    given: Triple | None = None
    """Items for the next player in turn, with three players; the last one gets the rest."""

    def __str__(self) -> str:
        text = f"keep {numbers(self.kept)}"
        return text if self.given is None else f"{text} give {numbers(self.given)}"

    def shares(self, player: int, players: int, counts: Triple) -> tuple[Triple, ...]:
        """Return the items for each of the `players`, by seat; `player` makes the offer."""
        # In turn order from the player who offers; the last one gets the rest.
        in_order = [self.kept] if self.given is None else [self.kept, self.given]
        taken = [sum(column) for column in zip(*in_order, strict=True)]
        in_order.append(tuple(c - t for c, t in zip(counts, taken, strict=True)))
        return tuple(in_order[(seat - player) % players] for seat in range(players))


@dataclass(frozen=True, slots=True)
class AcceptOffer(Action, template="accept"):
    """Accept the offer on the table."""


@dataclass(frozen=True, slots=True)
class RejectOffer(Action, template="reject"):
    """Reject the last offer, when no time is left for another one: no deal."""


@dataclass(frozen=True, slots=True)
class WalkAway(Action, template="walk away"):
    """End the game without an agreement, for the points of the option `walk_away`."""


ACCEPT, REJECT, WALK_AWAY = AcceptOffer(), RejectOffer(), WalkAway()


@dataclass(frozen=True, slots=True)
class ClaimValue(Statement, template="claim {self.item} {self.value}"):
    """State what one item of a type is worth to the speaker."""

    item: str
    value: int


@dataclass(frozen=True, slots=True)
class PromiseItems(Promise):
    """Promise a player so many items or more in the next own offer."""

    number: int
    item: str
    to: int | None = None
    """None with two players."""

    def __str__(self) -> str:
        to = "" if self.to is None else f" to Player {self.to}"
        return f"promise {pluralize(self.number, self.item)}{to}"


@dataclass(frozen=True, slots=True)
class PromiseAnswer(Promise, template="promise {self.answer}"):
    """Promise the next answer to an offer: `accept`, `reject` or `walk away`."""

    answer: str


@dataclass(frozen=True, slots=True)
class PromiseAccept(Promise):
    """Promise to accept the next offer that gives the speaker so many items or more."""

    number: int
    item: str

    def __str__(self) -> str:
        return f"promise accept for {pluralize(self.number, self.item)}"


@dataclass(frozen=True, slots=True)
class Acceptance(Action):
    """Statement of an accepted offer: this share is worth no less to the speaker than no deal."""

    share: Triple

    def __str__(self) -> str:
        return f"accept {numbers(self.share)}"


@dataclass(frozen=True, slots=True)
class ItemsDealt(Event):
    """Public: the items on the table."""

    counts: Triple


@dataclass(frozen=True, slots=True)
class ValuesDealt(PrivateEvent):
    """Private: what one item of each type is worth to a player."""

    values: Triple


@dataclass(frozen=True, slots=True)
class DivisionProposed(Event):
    """Public: an offer, which replaces the one before."""

    player: int
    shares: tuple[Triple, ...]
    """Items for each player, by seat."""


@dataclass(frozen=True, slots=True)
class OfferAccepted(Event):
    """Public: a player accepts the offer on the table."""

    player: int


@dataclass(frozen=True, slots=True)
class OfferRejected(Event):
    """Public: a player rejects the last offer."""

    player: int


@dataclass(frozen=True, slots=True)
class WalkedAway(Event):
    """Public: a player ends the game without an agreement."""

    player: int
