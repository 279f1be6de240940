"""Cluedo as a `Game`: options, deck, actions, and where its renderings are."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from arena import (
    Action,
    ActionSet,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Game,
    Json,
    Observation,
    Step,
    TextLevel,
)
from games.cluedo.cards import Deck
from games.cluedo.events import (
    END_TURN,
    PASSAGE,
    ROLL,
    Accuse,
    Move,
    Show,
    Suggest,
)
from games.cluedo.measures import MEASURES
from games.cluedo.options import CluedoOptions
from games.cluedo.rules import CluedoState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.cluedo.assess import CluedoAssessor
    from games.cluedo.knowledge import CluedoKnowledge
    from games.cluedo.notebook import Notebook


class Cluedo(Game):
    """Who did it, with what, and where?"""

    name = "cluedo"
    summary = "deduce the three cards in the envelope from what others cannot or will not show"
    Options = CluedoOptions
    default_max_turns: ClassVar[int | None] = 300
    measures = MEASURES
    luck = "luck"
    options: CluedoOptions

    @cached_property
    def num_players(self) -> int:
        return self.options.players

    @cached_property
    def has_board(self) -> bool:
        return self.options.variant == "classic"

    @cached_property
    def deck(self) -> Deck:
        options = self.options
        return Deck.of(options.theme, options.suspects, options.weapons, options.rooms)

    @cached_property
    def hand_sizes(self) -> tuple[int, ...]:
        return self.deck.hand_sizes(self.num_players, self.options.leftover_cards == "open")

    def refuters(self, suggester: int) -> Iterator[int]:
        """Seats asked to disprove a suggestion, in turn order from the suggester's left."""
        return ((suggester + step) % self.num_players for step in range(1, self.num_players))

    def _all_actions(self) -> Iterable[Action]:
        yield from (Suggest(*triple) for triple in self.deck.triples)
        yield from (Accuse(*triple) for triple in self.deck.triples)
        yield from (Show(card) for card in self.deck.cards)
        yield END_TURN
        if self.has_board:
            yield from (ROLL, PASSAGE)
            yield from (Move(room) for room in self.deck.rooms)

    @cached_property
    def _action_sets(self) -> dict[object, ActionSet]:
        return {}

    def action_set(self, key: object, make: Callable[[], Iterable[Action]]) -> ActionSet:
        """Sets of legal actions recur: each is made once per game and kept under its key."""
        found = self._action_sets.get(key)
        if found is None:
            found = self._action_sets[key] = self.actions.subset(make())
        return found

    def suggestions(self, room: str | None = None) -> tuple[Suggest, ...]:
        """All suggestions, or those that name this room."""
        return tuple(Suggest(*t) for t in self.deck.triples if room in (None, t.room))

    @cached_property
    def accusations(self) -> tuple[Accuse, ...]:
        return tuple(Accuse(*triple) for triple in self.deck.triples)

    def initial_state(self) -> CluedoState:
        return CluedoState(self)

    def new_notes(self, player: int) -> Notebook:
        from games.cluedo.notebook import Notebook

        return Notebook(self, player)

    def knowledge(self, player: int) -> CluedoKnowledge:
        from games.cluedo.knowledge import CluedoKnowledge

        return CluedoKnowledge(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> CluedoAssessor:
        from games.cluedo.assess import CluedoAssessor

        return CluedoAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        from games.cluedo.comments import comment

        return comment(assessment)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Show any card, go on with the turn or end it; never accuse."""
        legal = observation.legal_actions
        onward = [action for action in (ROLL, END_TURN) if action in legal]
        return legal.of(Show) or legal.of(Move) or onward

    def synonyms(self) -> Mapping[str, str]:
        from games.cluedo.synonyms import synonyms

        return synonyms(self)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        from games.cluedo.worlds import resample

        return resample(self, history, player, rng)

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        from games.cluedo.notebook import array_specs

        return array_specs(self)

    @cached_property
    def blank_arrays(self) -> dict[str, NDArray[Any]]:
        from games.cluedo.notebook import blank_arrays

        return blank_arrays(self)

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: Notebook = observation.notes  # type: ignore[assignment]
        return notes.arrays()

    def rules(self) -> str:
        from games.cluedo.text import rules

        return rules(self)

    def narrate(self, event: Event) -> str:
        from games.cluedo.text import narrate

        return narrate(self, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        from games.cluedo.text import describe

        return describe(self, observation, level, since)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        from games.cluedo.text import summarise

        return summarise(self, observation, level, forget)

    def belief_question(self, observation: Observation) -> str | None:
        from games.cluedo.beliefs import belief_question

        return belief_question(self, observation)

    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, Json]:
        from games.cluedo.beliefs import score_beliefs

        return score_beliefs(self, answer, observation)

    def diagram(self, events: Sequence[Event]) -> str:
        from games.cluedo.text import diagram

        return diagram(self, events)
