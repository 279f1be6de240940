"""The table as one viewer knows it, built from the events that it has witnessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.codenames.game import Codenames
from games.codenames.moves import (
    ASSASSIN,
    NEUTRAL,
    NUMBERS,
    TEAMS,
    UNLIMITED,
    ClueGiven,
    FirstTeamDrawn,
    GuessesEnded,
    KeyDealt,
    WordRevealed,
    WordsDealt,
    clue_text,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ClueRecord:
    """A clue, and the number of words of the own team that it has brought so far."""

    team: int
    word: str | None
    number: int
    found: int = 0

    def __str__(self) -> str:
        return f"{clue_text(self.word, self.number)} ({self.found} found)"


class CodenamesTable(Notes):
    """Words, known owners and clues. For `Observation.notes`, the views, bots and texts."""

    game: Codenames

    def __init__(self, game: Codenames, player: int) -> None:
        super().__init__(game, player)
        self._counts = game.owner_counts
        self.words: tuple[str, ...] = ()
        self.key: dict[str, str] = {}
        """Owner of each word; empty for a guesser."""
        self.revealed: dict[str, str] = {}
        """Owner of each revealed word, in the order of the guesses."""
        self.clues: list[ClueRecord] = []
        self.guesses_left = 0
        """Guesses that are left in this turn; 0 before its clue."""

    def update(self, event: Event) -> None:
        match event:
            case WordsDealt(words):
                self.words = words
            case KeyDealt(words, owners):
                self.key = dict(zip(words, owners, strict=True))
            case FirstTeamDrawn(team):
                self._counts = self.game.counts_of(team)
            case ClueGiven(player, word, number):
                # Seats of one team are all even or all odd.
                self.clues.append(ClueRecord(player % 2, word, number))
                self.guesses_left = self.game.most_guesses(word, number)
            case WordRevealed(word=word, owner=owner):
                self._reveal(word, owner)
            case GuessesEnded():
                self.guesses_left = 0

    def _reveal(self, word: str, owner: str) -> None:
        # A dict keeps the order of the guesses.
        self.revealed[word] = owner
        clue = self.clues[-1]
        if owner == TEAMS[clue.team]:
            self.clues[-1] = replace(clue, found=clue.found + 1)
            self.guesses_left -= 1
        else:
            self.guesses_left = 0  # A word that is not the team's own ends its turn.

    @property
    def hidden(self) -> tuple[str, ...]:
        """Words that are not revealed, in the order of the table."""
        return tuple(word for word in self.words if word not in self.revealed)

    def num_hidden(self, owner: str) -> int:
        """Return the number of hidden words of an owner, which all players know."""
        return self._counts[owner] - list(self.revealed.values()).count(owner)

    def hidden_of(self, owner: str) -> tuple[str, ...]:
        """Return the hidden words that are known to have this owner; () for a guesser."""
        return tuple(word for word in self.hidden if self.key.get(word) == owner)

    def owner(self, word: str) -> str | None:
        """Return the owner of a word, if the viewer knows it."""
        return self.revealed.get(word) or self.key.get(word)


class CodenamesArrays(GameArrays):
    """Observations of codenames as arrays."""

    game: Codenames

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        words = self.game.num_words
        return {
            # -1 before the words are dealt.
            "words": ArraySpec((words,), low=-1, high=len(NUMBERS) - 1, dtype="int16"),
            "owners": ArraySpec((words, 4), low=0, high=1),
            "revealed": ArraySpec((words,), low=0, high=1),
            # Numbers are up to 9, guesses up to 10.
            "turn": ArraySpec((4,), low=0, high=10),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the table as arrays; clues are text, so a network knows their numbers only.

        `words` are numbers in the list of words. `owners` are one-hot rows: own team, other team,
        neutral, assassin; zeros if unknown. `turn`: 1 for a clue giver, 1 if the latest clue is
        that of the own team, its number, the guesses that are left; 10 means no limit.
        """
        table, own = observation.notes, TEAMS[observation.player % 2]
        assert isinstance(table, CodenamesTable)
        arrays = self._zeros()
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
            guesses = min(table.guesses_left, UNLIMITED)
            arrays["turn"][1:] = TEAMS[clue.team] == own, clue.number, guesses
        return arrays
