"""Negotiation over items of private value: the game "deal or no deal".

M. Lewis, D. Yarats, Y. N. Dauphin, D. Parikh and D. Batra, "Deal or no deal? End-to-end learning of
negotiation dialogues", EMNLP 2017, section 2: 5 to 7 items of three types; all items together are
worth 10 to each player; each type is worth something to at least one player, and some type to both.

Offers and acceptance are those of OpenSpiel's `bargaining`, whose returns are equal on the same
deals (there the last turn may also be an offer, which ends the game like `reject` here).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import ClassVar, Literal, TypeVar

from pydantic import Field

from arena import (
    CHANCE,
    Action,
    ActionSet,
    Event,
    Game,
    GameOptions,
    Observation,
    ReturnScale,
    Say,
    Speech,
    SpeechOffer,
    Spoken,
    State,
)
from arena.core.action import Promise, Statement
from arena.core.event import PrivateEvent
from arena.core.text import pluralize

ITEMS = ("books", "hats", "balls")
SINGULAR = ("book", "hat", "ball")
TOTAL_VALUE = 10
FEWEST, MOST = 5, 7
"""Limits of the number of items on the table."""
MOST_OF_A_TYPE = 5
"""Items of a type, at most, with at least one of each of the three types."""

N = TypeVar("N", int, float)
Triple = tuple[int, ...]
"""A number for each of `ITEMS`."""
Values = tuple[Triple, ...]
"""Value of one item of each type, for each player."""


class NegotiationOptions(GameOptions):
    """Options of `negotiation`."""

    turns: int = Field(
        10, ge=3, le=40, description="Turns of both players together, then there is no deal."
    )
    talk: Literal[False, True, "statements"] = Field(
        True,
        description="Whether a player may send a message in each turn. 'statements': it can also "
        "attach statements whose truth is known.",
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
    """Items for the player who offers; the other one gets the rest."""

    def __str__(self) -> str:
        return f"keep {numbers(self.kept)}"

    def shares(self, player: int, counts: Triple) -> tuple[Triple, Triple]:
        """Return the items for each player, by seat; `player` makes the offer."""
        rest = tuple(count - kept for count, kept in zip(counts, self.kept, strict=True))
        return (self.kept, rest) if player == 0 else (rest, self.kept)


@dataclass(frozen=True, slots=True)
class AcceptOffer(Action, template="accept"):
    """Accept the offer on the table."""


@dataclass(frozen=True, slots=True)
class RejectOffer(Action, template="reject"):
    """Reject the last offer, when no time is left for another one: no deal."""


ACCEPT, REJECT = AcceptOffer(), RejectOffer()


@dataclass(frozen=True, slots=True)
class ClaimValue(Statement, template="claim {self.item} {self.value}"):
    """State what one item of a type is worth to the speaker."""

    item: str
    value: int


@dataclass(frozen=True, slots=True)
class PromiseItems(Promise):
    """Promise the other player so many items or more in the next own offer."""

    number: int
    item: str

    def __str__(self) -> str:
        return f"promise {pluralize(self.number, self.item)}"


@dataclass(frozen=True, slots=True)
class PromiseAnswer(Promise, template="promise {self.answer}"):
    """Promise the next answer to an offer: `accept` or `reject`."""

    answer: str


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
class OfferAnswered(Event):
    """Public: a player accepts or rejects the offer on the table."""

    player: int
    answer: str
    """The text of the action: `accept` or `reject`."""


# Deals


def worth(items: Sequence[int], values: Sequence[N]) -> N:
    """Return what some items are worth; the values may be means."""
    return sum((number * value for number, value in zip(items, values, strict=True)), start=0)


@lru_cache
def all_counts() -> tuple[Triple, ...]:
    """Return all numbers of items that may lie on the table."""
    # At least one of each type, as in the data of the paper.
    numbers = product(range(1, MOST_OF_A_TYPE + 1), repeat=len(ITEMS))
    return tuple(counts for counts in numbers if FEWEST <= sum(counts) <= MOST)


@lru_cache
def value_vectors(counts: Triple) -> tuple[Triple, ...]:
    """Return all values for one player with which the items are worth `TOTAL_VALUE`: 9 to 26."""
    numbers = product(range(TOTAL_VALUE + 1), repeat=len(ITEMS))
    return tuple(values for values in numbers if worth(counts, values) == TOTAL_VALUE)


@lru_cache(maxsize=512)
def other_values(counts: Triple, own: Triple) -> tuple[Triple, ...]:
    """Return all values of the other player that are possible beside the own values.

    Values are drawn evenly, so these are equally likely.
    """
    return tuple(
        other
        for other in value_vectors(counts)
        if all(map(any, zip(own, other, strict=True)))
        and any(map(all, zip(own, other, strict=True)))
    )


@lru_cache(maxsize=64)
def proposals(counts: Triple) -> tuple[ProposeDivision, ...]:
    """Return all offers of a division of these items, in a fixed order."""
    return tuple(map(ProposeDivision, product(*(range(number + 1) for number in counts))))


class Negotiation(Game):
    """Two players divide books, hats and balls; only the own values are known.

    Example:
        >>> state = Negotiation().initial_state()
        >>> state.apply(CHANCE, DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0))))
        >>> state.apply(0, Say("I only need the book and the ball."))
        >>> state.apply(0, ProposeDivision((1, 0, 1)))
        >>> state.apply(1, ACCEPT)
        >>> state.returns()
        (10.0, 8.0)
    """

    Text = "games.negotiation.text:NegotiationText"
    Analysis = "games.negotiation.knowledge:NegotiationAnalysis"
    View = "games.negotiation.text:NegotiationView"
    Talk = "games.negotiation.knowledge:NegotiationTalk"
    default_bots = ("boulware", "conceder")
    level_bots = ("easy", "conceder", "boulware")

    name = "negotiation"
    num_players = 2
    summary = "divide items of private value, by offers and talk"
    Options = NegotiationOptions
    options: NegotiationOptions
    return_scale = ReturnScale("return", "points", 0.0, float(TOTAL_VALUE), has_rivals=False)
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)

    @property
    def turn_bound(self) -> int:
        return self.options.turns

    def _all_actions(self) -> Iterable[Action]:
        kept = product(range(MOST_OF_A_TYPE + 1), repeat=len(ITEMS))
        offers = [ProposeDivision(items) for items in kept if sum(items) <= MOST]
        moves = (ACCEPT, REJECT, *offers)
        return (*moves, *self._statements()) if self.options.talk == "statements" else moves

    def _statements(self) -> Iterator[Statement]:
        for item in SINGULAR:
            yield from (ClaimValue(item, value) for value in range(TOTAL_VALUE + 1))
            yield from (PromiseItems(n, item) for n in range(1, MOST_OF_A_TYPE + 1))
        yield from (PromiseAnswer(str(answer)) for answer in (ACCEPT, REJECT))

    def initial_state(self) -> NegotiationState:
        return NegotiationState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the offer to keep everything, which gives nothing away; else `accept`.

        In the last turns the other choice is no deal, which is worth nothing.
        """
        # One offer keeps all items; it has the largest sum.
        offers = observation.legal_actions.of(ProposeDivision)
        return [max(offers, key=lambda offer: sum(offer.kept))] if offers else [ACCEPT]

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action binds the player or ends the game."""
        return action in (ACCEPT, REJECT)


class NegotiationState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Negotiation

    def __init__(self, game: Negotiation) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.counts: Triple = ()
        self.values: Values = ()
        self.offer: tuple[Triple, ...] = ()
        """Items for each player in the offer on the table; () if there is none."""
        self.proposer: int | None = None
        self.is_agreed = False
        self.spoken = False
        """True once the player in turn has sent its message."""

    # Chance

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw items and values: all numbers of items, then all possible values, equally likely."""
        # Not even over all deals: items with many possible values would be more frequent.
        counts = rng.choice(all_counts())
        while True:  # Rejection; more than half of all values are possible.
            first, second = (rng.choice(value_vectors(counts)) for _ in range(2))
            if second in other_values(counts, first):
                return DealItems(counts, (first, second))

    def _is_possible(self, action: Action) -> bool:
        # A replay may hold any numbers; those that break the rule are refused here.
        match action:
            case DealItems(counts, (first, second)):
                is_known = counts in all_counts() and first in value_vectors(counts)
                return is_known and second in other_values(counts, first)
        return False

    def _read_chance(self, text: str) -> Action | None:
        # There are too many deals to compare the text with each of them.
        counts, _, values = text.removeprefix("items ").partition("; values ")
        try:
            return DealItems(_triple(counts), tuple(map(_triple, values.split(", "))))
        except ValueError:
            return None

    # Turns

    @property
    def may_offer(self) -> bool:
        """True if the other player still has a turn to accept an offer of this turn."""
        return self.turn < self.game.options.turns

    def _legal_actions(self, player: int) -> ActionSet:
        game = self.game
        # The offer on the table is never the own one: it would have ended the game.
        actions: list[Action] = [ACCEPT] if self.offer else []
        actions += proposals(self.counts) if self.may_offer else [REJECT]
        # One message for each turn, before the action that ends it: so a game always ends.
        if not game.options.talk or self.spoken:
            return game.actions.subset(actions)
        return game.actions.subset((*actions, *game.actions.statements), (SpeechOffer(Say),))

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case DealItems(counts, values):
                self._deal(counts, values)
            case Say() | Statement():
                text = action.text if isinstance(action, Say) else f"[{action}]"
                self.log.append(Spoken(player, text))
                self.spoken = True
            case ProposeDivision():
                self.offer, self.proposer = action.shares(player, self.counts), player
                self.log.append(DivisionProposed(player, self.offer))
                # An offer is made only with a turn left, so the limit is never exceeded.
                self.spoken = False
                self._begin_turn(1 - player)
            case _:
                self.log.append(OfferAnswered(player, str(action)))
                self.is_agreed = action == ACCEPT
                # To reject is legal only when no turns are left for another offer.
                self.to_act = ()

    def _deal(self, counts: Triple, values: Values) -> None:
        # Items are public, values private: one event for each player.
        self.counts, self.values = counts, values
        self.log.append(ItemsDealt(counts))
        for player, each in enumerate(values):
            self.log.append(ValuesDealt(player, each))
        self.to_act, self.turn = (0,), 1

    # Results

    @property
    def points(self) -> tuple[int, ...]:
        """Points of each player; 0 without an agreement."""
        if not self.is_agreed:
            return (0, 0)
        return tuple(worth(share, own) for share, own in zip(self.offer, self.values, strict=True))

    def returns(self) -> tuple[float, ...]:
        """Return the points of each player."""
        return tuple(map(float, self.points))

    def reason(self) -> str:
        if self.is_agreed and self.proposer is not None:
            # How good it is for both would tell each player about the values of the other.
            return f"agreement on the offer of {self.game.seat_names[self.proposer]}"
        return f"no deal within {self.game.options.turns} turns"


def _triple(text: str) -> Triple:
    return tuple(map(int, text.split(" ")))
