"""Cluedo as a `Game`.

Renderings, knowledge and analysis are imported when they are first used, so that listing the games
stays fast.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from arena import (
    WIN_RATE,
    Action,
    ActionValues,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    State,
    Step,
    TextLevel,
)
from games.cluedo.analysis.measures import FACTS, MEASURES
from games.cluedo.base import CluedoBase
from games.cluedo.rules.events import END_TURN, ROLL, Accuse, Move, MoveToSquare, PlaySuspect, Show
from games.cluedo.rules.state import CluedoState
from games.cluedo.text.prompting import COMBINED_MOVE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydantic import JsonValue

    from arena.core.batch.state_batch import StateBatch
    from arena.core.prompting import PromptExample
    from games.cluedo.analysis.assessor import CluedoAssessor
    from games.cluedo.inference.knowledge import CluedoKnowledge
    from games.cluedo.text.array_layout import ArrayLayout
    from games.cluedo.text.notebook import Notebook


class Cluedo(CluedoBase):
    """Cluedo (Clue): find the suspect, the weapon and the room in the envelope.

    `CluedoOptions` lists the options.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> game = Cluedo(players=3, theme="us")
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> observation = state.observe(0)
        >>> len(observation.legal_actions)  # 324 suggestions, 324 accusations, "end turn"
        649
        >>> game.knowledge(0).world_count() > 0
        True
    """

    summary = "deduce the three cards in the envelope from what others cannot or will not show"
    default_max_turns: ClassVar[int | None] = 300
    default_opponent: ClassVar[str | None] = "novice"
    default_bot: ClassVar[str | None] = "detective"
    facts = FACTS
    measures = MEASURES
    return_scale = WIN_RATE
    combined_move = COMBINED_MOVE
    picture_shows_notes: ClassVar[bool] = True

    def initial_state(self) -> CluedoState:
        """Return the position before the deal."""
        return CluedoState(self)

    def new_batch(self, size: int) -> StateBatch | None:
        """Return games without a board on arrays; None for the board, which has no such rules."""
        from games.cluedo.text.notebook_batch import CluedoNotebooks

        return None if self.has_board else CluedoNotebooks(self, size)

    def new_notes(self, player: int) -> Notebook:
        """Return an empty notebook of `player`."""
        return self._notebook(self, player)

    @cached_property
    def _notebook(self) -> type[Notebook]:
        # Kept, because an import in a function takes as long as half a notebook.
        from games.cluedo.text.notebook import Notebook

        return Notebook

    def knowledge(self, player: int) -> CluedoKnowledge:
        """Return the exact knowledge of `player` before the deal."""
        from games.cluedo.inference.knowledge import CluedoKnowledge

        return CluedoKnowledge(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> CluedoAssessor:
        from games.cluedo.analysis.assessor import CluedoAssessor

        return CluedoAssessor(self, players, kinds)

    def action_values(self, state: State, actions: Collection[Action]) -> ActionValues | None:
        from games.cluedo.analysis.action_values import action_values

        assert isinstance(state, CluedoState)
        return action_values(state, actions) if state.hands else None

    def comment(self, assessment: Assessment) -> Comment | None:
        from games.cluedo.text.comments import comment

        return comment(assessment)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the fallback actions: any card, room, square or suspect; else go on or end."""
        legal = observation.legal_actions
        proceed = [action for action in (ROLL, END_TURN) if action in legal]
        kinds = (Show, Move, MoveToSquare, PlaySuspect)
        return next(filter(None, map(legal.of, kinds)), proceed)

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is an accusation; a false one loses the game."""
        return isinstance(action, Accuse)

    def synonyms(self) -> Mapping[str, str]:
        from games.cluedo.text.synonyms import synonyms

        return synonyms(self)

    def examples(self) -> Sequence[PromptExample]:
        from games.cluedo.text.prompting import examples

        return examples(self)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        from games.cluedo.inference.determinization import resample

        return resample(self, history, player, rng)

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        from games.cluedo.text.array_specs import array_specs

        return array_specs(self)

    @cached_property
    def array_layout(self) -> ArrayLayout:
        from games.cluedo.text.array_layout import ArrayLayout

        return ArrayLayout(self.array_specs, self.deck)

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: Notebook = observation.notes  # type: ignore[assignment]
        return notes.arrays()

    def rules(self) -> str:
        from games.cluedo.text.rules_text import rules

        return rules(self)

    def rule_details(self) -> str:
        from games.cluedo.text.rules_text import rule_details

        return rule_details(self)

    def narrate(self, event: Event) -> str:
        from games.cluedo.text.describe import narrate

        return narrate(self, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        from games.cluedo.text.describe import describe

        return describe(self, observation, level, since)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        from games.cluedo.text.describe import summarise

        return summarise(self, observation, level, forget)

    def belief_question(self, observation: Observation) -> str | None:
        from games.cluedo.text.beliefs import belief_question

        return belief_question(self, observation)

    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]:
        from games.cluedo.text.beliefs import score_beliefs

        return score_beliefs(self, answer, observation)

    def diagram(self, events: Sequence[Event]) -> str:
        from games.cluedo.text.describe import diagram

        return diagram(self, events)
