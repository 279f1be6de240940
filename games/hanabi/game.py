"""Hanabi as a `Game`.

Renderings, knowledge and analysis are imported when they are first used, so that listing the games
stays fast.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from arena import (
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    ReturnScale,
    Step,
    TextLevel,
)
from games.hanabi.base import FACTS, MEASURES, HanabiBase
from games.hanabi.moves import DiscardSlot, HintColour, HintRank
from games.hanabi.state import HanabiState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.hanabi.assessor import HanabiAssessor
    from games.hanabi.table import HanabiKnowledge, HanabiNotes
    from games.hanabi.view import HanabiView


class Hanabi(HanabiBase):
    """Two to five players build fireworks together from cards that their owners do not see.

    `HanabiOptions` lists the options. The return of each seat is the common score.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> game = Hanabi(players=2)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> state.teams()
        (0, 0)
        >>> [str(action) for action in state.legal_actions(0)][:2]
        ['play slot 1', 'play slot 2']
    """

    summary = "build fireworks together; you see all hands but your own"
    default_opponent: ClassVar[str | None] = "conventions"
    default_bot: ClassVar[str | None] = "conventions"
    facts = FACTS
    measures = MEASURES

    @property
    def return_scale(self) -> ReturnScale:
        """The common score, from 0 to the number of kinds of cards."""
        # One point for each kind, since each kind is played once at most.
        return ReturnScale("score", "points", 0.0, float(len(self.deck.kinds)))

    def initial_state(self) -> HanabiState:
        """Return the position before the deal."""
        return HanabiState(self)

    def new_notes(self, player: int) -> HanabiNotes:
        """Return the empty table as `player` sees it."""
        from games.hanabi.table import HanabiNotes

        return HanabiNotes(self, player)

    def new_view(self, seat: int | None) -> HanabiView:
        """Return an empty table as `seat` sees it."""
        from games.hanabi.view import HanabiView

        return HanabiView(self, seat)

    def knowledge(self, player: int) -> HanabiKnowledge:
        """Return the exact knowledge of `player` before the deal."""
        from games.hanabi.table import HanabiKnowledge

        return HanabiKnowledge(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> HanabiAssessor:
        from games.hanabi.assessor import HanabiAssessor

        return HanabiAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        from games.hanabi.assessor import comment

        return comment(assessment)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the oldest card's discard, else the hints: a wrong play costs a life."""
        legal = observation.legal_actions
        # A hint costs a token only, and the oldest card is the one that players discard anyway.
        hints = (*legal.of(HintColour), *legal.of(HintRank))
        return legal.of(DiscardSlot)[:1] or hints or legal

    def synonyms(self) -> Mapping[str, str]:
        from games.hanabi.text import synonyms

        return synonyms(self)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        from games.hanabi.resample import resample

        return resample(self, history, player, rng)

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        from games.hanabi.arrays import array_specs

        return array_specs(self)

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        from games.hanabi.arrays import arrays

        notes: HanabiNotes = observation.notes  # type: ignore[assignment]
        return arrays(notes.table)

    def rules(self) -> str:
        from games.hanabi.text import rules

        return rules(self)

    def narrate(self, event: Event) -> str:
        from games.hanabi.text import narrate

        return narrate(self, event)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the table as it is now, and the legal actions."""
        from games.hanabi.text import table_lines

        notes: HanabiNotes = observation.notes  # type: ignore[assignment]
        return [*table_lines(notes.table, level), *super().situation(observation, level)]
