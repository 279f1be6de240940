"""Negotiation over items of private value: the game "deal or no deal".

Rules of Lewis et al. (2017), see `deals`; offers and acceptance as in OpenSpiel's `bargaining`,
whose returns are equal on the same deals (there the last turn may also be an offer, which ends the
game like `reject` here). With three players an offer divides the items among all of them, and both
others have to accept it in turn.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import (
    CHANCE,
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    Step,
    TextLevel,
)
from games.negotiation.base import NegotiationBase
from games.negotiation.deals import (
    ITEMS,
    MOST_OF_A_TYPE,
    TOTAL_VALUE,
    other_values,
)
from games.negotiation.events import (
    ACCEPT,
    REJECT,
    DealItems,
    ProposeDivision,
)
from games.negotiation.measures import FACTS, MEASURES
from games.negotiation.state import NegotiationState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.negotiation.assessor import NegotiationAssessor, ValueKnowledge
    from games.negotiation.notes import NegotiationNotes
    from games.negotiation.view import NegotiationView


class Negotiation(NegotiationBase):
    """Two or three players divide books, hats and balls; only the own values are known.

    Example:
        >>> from arena import CHANCE, Say
        >>> from games.negotiation.events import ACCEPT, DealItems, ProposeDivision
        >>> state = Negotiation().initial_state()
        >>> state.apply(CHANCE, DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0))))
        >>> state.apply(0, Say("I only need the book and the ball."))
        >>> state.apply(0, ProposeDivision((1, 0, 1)))
        >>> state.apply(1, ACCEPT)
        >>> state.returns()
        (10.0, 8.0)
    """

    facts = FACTS
    measures = MEASURES

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

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        from games.negotiation.text import situation

        return situation(self, observation, level)

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
