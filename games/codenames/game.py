"""Codenames: two teams find their words by clues of one word.

The rules are those of the board game by Vlaada Chvátil (2015), with these differences: the table
may be smaller, a clue giver may pass, the number 0 allows one guess, and blue, which has one word
more, always begins.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from arena import (
    CHANCE,
    WIN_RATE,
    Action,
    ArraySpec,
    Event,
    Game,
    GameOptions,
    Notes,
    Observation,
    Step,
    TableView,
    TextLevel,
)
from games.codenames import text
from games.codenames.associations import WORDS
from games.codenames.moves import ASSASSIN, NEUTRAL, PASS, STOP, TEAMS, Clue, DealKey, GuessWord
from games.codenames.state import CodenamesState
from games.codenames.table import CodenamesTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena import Assessor


class CodenamesOptions(GameOptions):
    """Options of `codenames`."""

    players: int = Field(
        4, ge=4, le=8, multiple_of=2, description="Number of seats, half of them in each team."
    )
    rows: int = Field(5, ge=3, le=5, description="Rows of words on the table.")
    columns: int = Field(5, ge=3, le=5, description="Words in each row.")


class Codenames(Game):
    """Seats 0 and 1 give the clues of blue and orange; even seats are blue, odd seats orange.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Codenames(rows=3, columns=4).initial_state()
        >>> for _ in ("words", "key"):
        ...     state.apply(CHANCE, state.sample_chance(random.Random(1)))
        >>> state.roles()
        ('clue giver', 'clue giver', 'guesser', 'guesser')
        >>> state.apply(0, Clue.read("Symphony: 1"))
        >>> state.to_act
        (2,)
    """

    name = "codenames"
    summary = "find words by clues"
    Options = CodenamesOptions
    options: CodenamesOptions
    speech = (Clue,)
    return_scale = WIN_RATE
    par = 0.5
    default_bot = "associative"
    default_opponent = "associative"

    @property
    def num_players(self) -> int:
        return self.options.players

    @property
    def num_words(self) -> int:
        """Number of words on the table."""
        return self.options.rows * self.options.columns

    @property
    def owner_counts(self) -> Mapping[str, int]:
        """Number of words of each owner; in the same proportions as 9, 8, 7 and 1 of 25."""
        first = (9 * self.num_words + 12) // 25  # Rounded to the nearest number.
        counts = {TEAMS[0]: first, TEAMS[1]: first - 1, ASSASSIN: 1}
        return {**counts, NEUTRAL: self.num_words - 2 * first}

    def _all_actions(self) -> Iterable[Action]:
        return (PASS, STOP, *map(GuessWord, WORDS))

    def initial_state(self) -> CodenamesState:
        return CodenamesState(self)

    def synonyms(self) -> Mapping[str, str]:
        return {"skip": "pass", "end turn": "stop", "end my turn": "stop", "done": "stop"}

    def rules(self) -> str:
        return text.rules(self.num_players, self.num_words, self.owner_counts)

    def narrate(self, event: Event) -> str:
        return text.narrate(self.seat_names, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        return text.describe(observation, level, since)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        return text.summarise(observation, level, forget)

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
        steps, state = list(history), self.initial_state()
        for step in history:
            state.apply(step.player, step.action)
        if not state.key or player < 2:
            return steps
        hidden = [word for word in state.words if word not in state.revealed]
        drawn = dict(zip(hidden, rng.sample([state.key[w] for w in hidden], len(hidden))))
        owners = tuple(drawn.get(word, state.key[word]) for word in state.words)
        steps[1] = Step(CHANCE, DealKey(owners))  # The first step deals the words.
        return steps

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        words = self.num_words
        return {
            "words": ArraySpec((words,), low=-1, high=len(WORDS) - 1, dtype="int16"),
            "owners": ArraySpec((words, 4), low=0, high=1),
            "revealed": ArraySpec((words,), low=0, high=1),
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
        arrays["words"][:] = [WORDS.index(word) for word in table.words] or -1
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
        from games.codenames.assessor import CodenamesAssessor

        return CodenamesAssessor(self, players, kinds)
