"""Texts of Cluedo and its observations as arrays: facets of the game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from arena import ArraySpec, Event, GameArrays, GameText, Observation, TextLevel
from arena.core.observation import PromptExample
from games.cluedo.base import CluedoBase
from games.cluedo.text.array_specs import array_specs
from games.cluedo.text.beliefs import belief_question, score_beliefs
from games.cluedo.text.describe import describe, narrate, summarise
from games.cluedo.text.notebook import Notebook
from games.cluedo.text.prompting import COMBINED_MOVE, examples
from games.cluedo.text.rules_text import rule_details, rules
from games.cluedo.text.synonyms import synonyms

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CluedoText(GameText):
    """Texts of Cluedo."""

    table_shows_notes = True
    game: CluedoBase

    combined_move = COMBINED_MOVE

    def new_notes(self, player: int) -> Notebook:
        """Return an empty notebook of `player`."""
        return Notebook(self.game, player)

    def synonyms(self) -> Mapping[str, str]:
        return synonyms(self.game)

    def examples(self) -> Sequence[PromptExample]:
        return examples(self.game)

    def rules(self) -> str:
        return rules(self.game)

    def rule_details(self) -> str:
        return rule_details(self.game)

    def narrate(self, event: Event) -> str:
        return narrate(self.game, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        return describe(self.game, observation, level, since)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        return summarise(self.game, observation, level, forget)

    def belief_question(self, observation: Observation) -> str | None:
        return belief_question(self.game, observation)

    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]:
        return score_beliefs(self.game, answer, observation)


class CluedoArrays(GameArrays):
    """Observations of Cluedo as arrays."""

    game: CluedoBase

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        return array_specs(self.game)

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: Notebook = observation.notes  # type: ignore[assignment]
        return notes.arrays()
