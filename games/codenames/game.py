"""Codenames: two teams find their words by clues of one word.

The rules are those of the board game by Vlaada Chvátil (2015), with these differences: the table
may be smaller, a clue giver may pass, the number 0 allows one guess, and blue, which has one word
more, always begins.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena import (
    CHANCE,
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Notes,
    Observation,
    Step,
    TableView,
    TextLevel,
)
from games.codenames import text
from games.codenames.assessor import FACTS, MEASURES, CodenamesAssessor
from games.codenames.associations import NUMBERS
from games.codenames.base import CodenamesBase
from games.codenames.moves import ASSASSIN, NEUTRAL, STOP, TEAMS, DealKey, DealWords, GuessWord
from games.codenames.state import CodenamesState
from games.codenames.table import CodenamesTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena import Assessor


class Codenames(CodenamesBase):
    """Seats 0 and 1 give the clues of blue and orange; even seats are blue, odd seats orange.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Codenames(rows=3, columns=4).initial_state()
        >>> for _ in ("words", "key"):
        ...     state.apply(CHANCE, state.sample_chance(random.Random(1)))
        >>> state.roles()
        ('clue giver', 'clue giver', 'guesser', 'guesser')
        >>> state.apply(0, state.parse("clue Symphony: 1"))
        >>> state.to_act
        (2,)
    """

    default_bot = "associative"
    default_opponent = "associative"
    facts = FACTS
    measures = MEASURES

    def initial_state(self) -> CodenamesState:
        return CodenamesState(self)

    def synonyms(self) -> Mapping[str, str]:
        return {"skip": "pass", "end turn": "stop", "end my turn": "stop", "done": "stop"}

    def rules(self) -> str:
        return text.rules(self)

    def narrate(self, event: Event) -> str:
        return text.narrate(self.seat_names, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        return text.describe(self, observation, level, since)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        return text.summarise(self, observation, level, forget)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `stop` where it is legal: each guess may reveal the assassin."""
        legal = observation.legal_actions
        return (STOP,) if STOP in legal else legal

    def new_notes(self, player: int) -> Notes:
        return CodenamesTable(self, player)

    def new_view(self, seat: int | None) -> TableView:
        from games.codenames.view import CodenamesView

        return CodenamesView(self)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the owners of the hidden words again, if `player` is a guesser."""
        steps = list(history)
        # Clue givers know the key. All other events are public.
        if len(steps) < 2 or player < 2:
            return steps
        words, deal = (step.action for step in steps[:2])
        assert isinstance(words, DealWords)
        assert isinstance(deal, DealKey)
        key = dict(zip(words.words, deal.owners, strict=True))
        revealed = {step.action.word for step in steps if isinstance(step.action, GuessWord)}
        hidden = [word for word in key if word not in revealed]
        # Only hidden words change owners: the results of all guesses and the counts stay.
        owners_left = rng.sample([key[word] for word in hidden], len(hidden))
        drawn = dict(zip(hidden, owners_left, strict=True))
        owners = tuple(drawn.get(word, owner) for word, owner in key.items())
        steps[1] = Step(CHANCE, DealKey(owners))
        return steps

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        words = self.num_words
        return {
            # -1 before the words are dealt.
            "words": ArraySpec((words,), low=-1, high=len(NUMBERS) - 1, dtype="int16"),
            "owners": ArraySpec((words, 4), low=0, high=1),
            "revealed": ArraySpec((words,), low=0, high=1),
            # Numbers are up to 9, guesses up to 10.
            "turn": ArraySpec((4,), low=0, high=10),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the table as arrays; clues are text, so a network knows their numbers only.

        `words` are numbers in the list of words. `owners` are one-hot rows: own team, other team,
        neutral, assassin; zeros if unknown. `turn`: 1 for a clue giver, 1 if the latest clue is
        that of the own team, its number, the guesses that are left.
        """
        import numpy as np  # Imported late: listing the games must stay fast.

        table, own = observation.notes, TEAMS[observation.player % 2]
        assert isinstance(table, CodenamesTable)
        arrays = {n: np.zeros(spec.shape, spec.dtype) for n, spec in self.array_specs.items()}
        arrays["words"][:] = [NUMBERS[word] for word in table.words] or -1
        # From the observer's side, so that one network can play for both teams.
        columns = [own, TEAMS[1 - TEAMS.index(own)], NEUTRAL, ASSASSIN]
        for number, word in enumerate(table.words):
            arrays["revealed"][number] = word in table.revealed
            owner = table.owner(word)
            if owner:
                arrays["owners"][number, columns.index(owner)] = 1
        arrays["turn"][0] = observation.player < 2
        if table.clues:
            clue = table.clues[-1]
            arrays["turn"][1:] = TEAMS[clue.team] == own, clue.number, table.guesses_left
        return arrays

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor:
        return CodenamesAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the result of a clue as text; the events tell everything else."""
        # Guesses and the end of the game are events that every viewer has read.
        if assessment.kind != "clue":
            return None
        facts = assessment.facts
        return Comment(f"The clue brings {facts['found']} of {facts['number']} words.")
