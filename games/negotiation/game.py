"""Negotiation over items of private value: the game "deal or no deal".

Rules of Lewis et al. (2017), see `deals`; offers and acceptance as in OpenSpiel's `bargaining`,
whose returns are equal on the same deals (there the last turn may also be an offer, which ends the
game like `reject` here). With three players an offer divides the items among all of them, and both
others have to accept it in turn.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from arena import (
    CHANCE,
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Game,
    Observation,
    ReturnScale,
    Say,
    Speech,
    Step,
    TextLevel,
)
from games.negotiation.deals import (
    ITEMS,
    MOST,
    MOST_OF_A_TYPE,
    TOTAL_VALUE,
    Triple,
    divisions,
    other_values,
)
from games.negotiation.events import (
    ACCEPT,
    REJECT,
    DealItems,
    NegotiationOptions,
    ProposeDivision,
)
from games.negotiation.measures import FACTS, MEASURES
from games.negotiation.state import NegotiationState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.negotiation.assessor import NegotiationAssessor, ValueKnowledge
    from games.negotiation.notes import NegotiationNotes
    from games.negotiation.view import NegotiationView


@lru_cache(maxsize=64)
def proposals(counts: Triple, players: int) -> tuple[ProposeDivision, ...]:
    """Return all offers of a division of these items, in a fixed order."""
    return tuple(
        ProposeDivision(shares[0], shares[1] if players == 3 else None)
        for shares in divisions(counts, players)
    )


@lru_cache
def all_proposals(players: int) -> tuple[ProposeDivision, ...]:
    """Return the offers of all deals: 108 for two players, 1,587 for three."""
    amounts = range(MOST_OF_A_TYPE + 1)
    if players == 2:
        kept = product(amounts, repeat=len(ITEMS))
        return tuple(ProposeDivision(each) for each in kept if sum(each) <= MOST)
    # For each type a pair of the numbers that are kept and given.
    pairs = [pair for pair in product(amounts, repeat=2) if sum(pair) <= MOST_OF_A_TYPE]
    return tuple(
        ProposeDivision(tuple(kept for kept, _ in types), tuple(given for _, given in types))
        for types in product(pairs, repeat=len(ITEMS))
        if sum(map(sum, types)) <= MOST
    )


class Negotiation(Game):
    """Two or three players divide books, hats and balls; only the own values are known.

    Example:
        >>> state = Negotiation().initial_state()
        >>> state.apply(CHANCE, DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0))))
        >>> state.apply(0, Say("I only need the book and the ball."))
        >>> state.apply(0, ProposeDivision((1, 0, 1)))
        >>> state.apply(1, ACCEPT)
        >>> state.returns()
        (10.0, 8.0)
    """

    name = "negotiation"
    summary = "divide items of private value, by offers and talk"
    Options = NegotiationOptions
    options: NegotiationOptions
    default_opponent: ClassVar[str | None] = "conceder"
    default_bot: ClassVar[str | None] = "boulware"
    return_scale = ReturnScale("return", "points", 0.0, float(TOTAL_VALUE))
    facts = FACTS
    measures = MEASURES
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)

    @property
    def num_players(self) -> int:
        return self.options.players

    def _all_actions(self) -> Iterable[Action]:
        return (ACCEPT, REJECT, *all_proposals(self.num_players))

    def proposals(self, counts: Triple) -> Sequence[Action]:
        """Return all offers of a division of these items."""
        return proposals(counts, self.num_players)

    def initial_state(self) -> NegotiationState:
        return NegotiationState(self)

    def synonyms(self) -> Mapping[str, str]:
        return {
            "offer": "keep",
            "propose": "keep",
            "i keep": "keep",
            "agree": "accept",
            "decline": "reject",
        }

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

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the values of the others again, by the rule of the deal; they are never revealed."""
        steps = list(history)
        if steps:
            dealt = steps[0].action
            assert isinstance(dealt, DealItems)
            # Offers and talk depend on the counts only, so the rest of the history stays legal.
            own, players = dealt.values[player], self.num_players
            others = rng.choice(other_values(dealt.counts, own, players))
            in_order = (own, *others)
            values = tuple(in_order[(seat - player) % players] for seat in range(players))
            steps[0] = Step(CHANCE, DealItems(dealt.counts, values))
        return steps

    def knowledge(self, player: int) -> ValueKnowledge:
        """Return the exact knowledge of `player` about the values of the others."""
        from games.negotiation.assessor import ValueKnowledge

        return ValueKnowledge(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> NegotiationAssessor:
        from games.negotiation.assessor import NegotiationAssessor

        return NegotiationAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        from games.negotiation.assessor import comment

        return comment(assessment)

    # Texts, view and arrays

    def new_view(self, seat: int | None) -> NegotiationView:
        from games.negotiation.view import NegotiationView

        return NegotiationView(self, seat)

    def rules(self) -> str:
        from games.negotiation.text import rules

        return rules(self)

    def narrate(self, event: Event) -> str:
        from games.negotiation.text import narrate

        return narrate(self, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        from games.negotiation.text import describe

        return describe(self, observation, level, since)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        from games.negotiation.text import summarise

        return summarise(self, observation, level, forget)

    def new_notes(self, player: int) -> NegotiationNotes:
        from games.negotiation.notes import NegotiationNotes

        return NegotiationNotes(self, player)

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of the arrays; types are books, hats, balls, and seats count from the
        observer's own. Talk is not included.

        - `items` (types,): items on the table. `values` (types,): own values.
        - `offer` (seats, types): the offer on the table; 0 without one.
        - `agreed` (seats,): 1 for its proposer and those who have accepted it.
        - `turn` (1,): number of the turn.
        """
        players, types = self.num_players, len(ITEMS)
        return {
            "items": ArraySpec((types,), 0, MOST_OF_A_TYPE),
            "values": ArraySpec((types,), 0, TOTAL_VALUE),
            "offer": ArraySpec((players, types), 0, MOST_OF_A_TYPE),
            "agreed": ArraySpec((players,), 0, 1),
            "turn": ArraySpec((1,), 0, self.options.turns),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: NegotiationNotes = observation.notes  # type: ignore[assignment]
        return notes.arrays()
