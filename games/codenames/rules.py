"""Rules of codenames: two teams find their words by clues of one word.

The rules are those of the board game by Vlaada Chvátil (2015), with these differences: the table
may be smaller, a clue giver may pass, the number 0 allows one guess, blue, which has one word more,
begins, and a clue must not share its letters with a hidden word.

`associations.txt` has the word list, and the words that are associated with each of its words. It
is written by hand, from general knowledge: common, concrete English nouns, and for each the words
that come to mind with it. It needs no network and no model.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from arena import (
    CHANCE,
    WIN_RATE,
    Action,
    ActionSet,
    Event,
    Game,
    Observation,
    Speech,
    SpeechOffer,
    State,
)
from arena.core.game import SeatOptions


def _read() -> dict[str, tuple[str, ...]]:
    text = Path(__file__).with_name("associations.txt").read_text(encoding="utf-8")
    pairs = (line.split(": ") for line in text.splitlines() if not line.startswith("#"))
    return {word: tuple(associated.split()) for word, associated in pairs}


ASSOCIATIONS: Mapping[str, tuple[str, ...]] = _read()
"""Associated words of each word of the list."""
WORDS = tuple(ASSOCIATIONS)
"""The word list of the game, in alphabetical order."""
NUMBERS: Mapping[str, int] = {word: number for number, word in enumerate(WORDS)}
"""Number of each word in the list."""

TEAMS = ("blue", "orange")
"""Names of the teams, by number. A word of a team has the team's name as its owner."""
NEUTRAL, ASSASSIN = "neutral", "assassin"

# Ordinary letters only: look-alikes of other alphabets would be a way around the rules.
_CLUE = re.compile(r"[a-z]+(-[a-z]+)* [0-9]")
ENDINGS = ("s", "es", "y", "ing", "ed", "er", "r", "d", "or", "ry", "ly", "n", "en", "ful", "less")
"""Endings by which forms of a word differ: `animals`, `sailing`, `rainy`."""
_PUNCTUATION = str.maketrans(dict.fromkeys("'`´‘’“”\",.:;!()[]{}*_", " "))


class Clue(Speech):
    """The clue giver's word, and the number of own words that it is about: `clue animal 2`."""

    __slots__ = ()
    verb: ClassVar[str] = "clue"
    max_length: ClassVar[int] = 32
    form: ClassVar[str] = "WORD NUMBER"

    @classmethod
    def fault(cls, text: str) -> str | None:
        """Return why a text is no clue, in one line; None if it is one."""
        # Length and invisible characters come first, so that the message quotes short text only.
        fault = super().fault(text)
        if fault is None and not _CLUE.fullmatch(text):
            fault = (
                f"'{text}' is not a clue; give one word of letters and hyphens, then a number from "
                "0 to 9, for example: clue animal 2"
            )
        return fault

    @classmethod
    def read(cls, text: str) -> Clue:
        """Return the clue in a text; case and punctuation are ignored. Raises InvalidAction."""
        # "Animal: 2", "'animal', 2" and "ANIMAL (2)" all occur in replies of models.
        return cls(" ".join(text.casefold().translate(_PUNCTUATION).split()))

    @classmethod
    def notation(cls) -> str:
        """Return how a player writes it."""
        return f"{cls.verb} {cls.form}"

    @property
    def word(self) -> str:
        return self.text.partition(" ")[0]

    @property
    def number(self) -> int:
        return int(self.text.partition(" ")[2])


def clue_text(word: str | None, number: int) -> str:
    """Return a clue as it is written: `animal 2`; `no clue` for a pass."""
    return "no clue" if word is None else f"{word} {number}"


@dataclass(frozen=True, slots=True)
class ClueOffer(SpeechOffer):
    """The offer of a clue that must not name the hidden words of the table.

    Args:
        hidden: The words that a clue must not name.
    """

    hidden: tuple[str, ...]

    def fault(self, speech: Speech) -> str | None:
        """Return the rule that a clue breaks, in one line; None if it is legal."""
        assert isinstance(speech, Clue)
        # Without hyphens: "ap-ple" would be a way around the rule.
        clue = speech.word.replace("-", "")
        # Revealed words are covered in the board game and may be named.
        for word in self.hidden:
            if clue in word or word in clue:
                return (
                    f"the clue '{speech.word}' must not contain, or be contained in, the word "
                    f"'{word}' on the table; choose another word"
                )
        return None

    def sample(self, rng: random.Random) -> Clue:
        """Return a legal clue: a word of the list that is not on the table."""
        # A generator: the first legal one is enough, and 25 of 400 words cannot exclude all others.
        clues = (Clue(f"{word} {rng.randint(0, 9)}") for word in rng.sample(WORDS, len(WORDS)))
        return next(clue for clue in clues if self.fault(clue) is None)


@dataclass(frozen=True, slots=True)
class DealWords(Action):
    """Chance: the words of the table, row by row."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"words {' '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class DealKey(Action):
    """Chance: the owner of each word, in the order of the words."""

    owners: tuple[str, ...]

    def __str__(self) -> str:
        return f"key {' '.join(self.owners)}"


@dataclass(frozen=True, slots=True)
class PassClue(Action, template="pass"):
    """Give no clue; the team guesses once."""


@dataclass(frozen=True, slots=True)
class GuessWord(Action, template="guess {self.word}"):
    """Guess that a word belongs to the own team."""

    word: str


@dataclass(frozen=True, slots=True)
class StopGuessing(Action, template="stop"):
    """End the guesses of this turn."""


PASS, STOP = PassClue(), StopGuessing()


@dataclass(frozen=True, slots=True)
class WordsDealt(Event):
    """Public: the words of the table, row by row."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyDealt(Event):
    """Private, for both clue givers: the owner of each word."""

    words: tuple[str, ...]
    owners: tuple[str, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return (0, 1)


@dataclass(frozen=True, slots=True)
class ClueGiven(Event):
    """Public: a clue; None and 0 if the clue giver passes."""

    player: int
    word: str | None
    number: int


@dataclass(frozen=True, slots=True)
class WordRevealed(Event):
    """Public: a guess, and the owner of the word."""

    player: int
    word: str
    owner: str


@dataclass(frozen=True, slots=True)
class GuessesEnded(Event):
    """Public: a guesser stops before the last guess."""

    player: int


class CodenamesOptions(SeatOptions):
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
        >>> state.apply(0, state.parse("clue Symphony: 1"))
        >>> state.to_act
        (2,)
    """

    name = "codenames"
    summary = "find words by clues"
    Options = CodenamesOptions
    options: CodenamesOptions
    speech = (Clue,)
    return_scale = replace(WIN_RATE, par=0.5, team_names=("blue", "orange"))
    Text = "games.codenames.notes:CodenamesText"
    Analysis = "games.codenames.knowledge:CodenamesAnalysis"
    View = "games.codenames.notes:CodenamesView"
    default_bots = ("shared_table", "shared_table")
    level_bots = ("easy", "own_table", "shared_table")

    @property
    def num_words(self) -> int:
        """Number of words on the table."""
        return self.options.rows * self.options.columns

    @property
    def turn_bound(self) -> int:
        """Each turn reveals a word."""
        return self.num_words

    @cached_property
    def owner_counts(self) -> Mapping[str, int]:
        """Number of words of each owner; in the same proportions as 9, 8, 7 and 1."""
        first = (9 * self.num_words + 12) // 25  # Rounded to the nearest number.
        neutral = self.num_words - 2 * first
        return {TEAMS[0]: first, TEAMS[1]: first - 1, NEUTRAL: neutral, ASSASSIN: 1}

    def _all_actions(self) -> Iterable[Action]:
        # All words of the list, so that a number means the same action in every game.
        return (PASS, STOP, *map(GuessWord, WORDS))

    def initial_state(self) -> CodenamesState:
        return CodenamesState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `stop` where it is legal: each guess may reveal the assassin."""
        legal = observation.legal_actions
        return (STOP,) if STOP in legal else legal


class CodenamesState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Codenames

    def __init__(self, game: Codenames) -> None:
        super().__init__(game)
        # Chance acts twice: the words are public, the key is not, so they are separate results.
        self.to_act = (CHANCE,)
        self.words: tuple[str, ...] = ()
        self.key: dict[str, str] = {}
        """Owner of each word, in the order of the table."""
        self.revealed = frozenset[str]()
        self.guesses_left = 0
        self.may_stop = False
        """True after the first guess of a turn: each turn reveals a word, so that games end."""
        self.winner: int | None = None

    def roles(self) -> tuple[str, ...]:
        return ("clue giver",) * 2 + ("guesser",) * (self.game.num_players - 2)

    def teams(self) -> tuple[int, ...]:
        return tuple(seat % 2 for seat in range(self.game.num_players))

    @property
    def team(self) -> int:
        """The team in turn."""
        return (self.turn - 1) % 2

    @property
    def guesser(self) -> int:
        """The seat that guesses in this turn: the guessers of a team take turns."""
        # Each team has every second turn; within them its guessers follow each other.
        guessers = range(2 + self.team, self.game.num_players, 2)
        return guessers[(self.turn - 1) // 2 % len(guessers)]

    @property
    def hidden(self) -> tuple[str, ...]:
        """Words that are not revealed, in the order of the table."""
        return tuple(word for word in self.words if word not in self.revealed)

    # Chance

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw the words, then their owners."""
        if not self.words:
            return DealWords(tuple(rng.sample(WORDS, self.game.num_words)))
        owners = list(Counter(self.game.owner_counts).elements())
        return DealKey(tuple(rng.sample(owners, len(owners))))

    def _is_possible(self, action: Action) -> bool:
        match action:
            case DealWords(words) if not self.words:
                # A set: a word that is dealt twice counts once, so the lengths differ.
                different = set(words) & set(WORDS)
                return len(words) == len(different) == self.game.num_words
            case DealKey(owners) if self.words:
                return Counter(owners) == Counter(self.game.owner_counts)
        return False

    def _read_chance(self, text: str) -> Action:
        kind, *names = text.split(" ")
        return DealWords(tuple(names)) if kind == "words" else DealKey(tuple(names))

    # Play

    def _legal_actions(self, player: int) -> ActionSet:
        actions, hidden = self.game.actions, self.hidden
        # A player without speech, such as a network, can still pass.
        if player < 2:
            return actions.subset((PASS,), speech=(ClueOffer(Clue, hidden),))
        guesses = map(GuessWord, hidden)
        return actions.subset((*guesses, STOP) if self.may_stop else guesses)

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case DealWords(words):
                self.words = words
                self.log.append(WordsDealt(words))
            case DealKey(owners):
                self.key = dict(zip(self.words, owners, strict=True))
                self.log.append(KeyDealt(self.words, owners))
                self._start_turn()
            case GuessWord(word):
                self._reveal(player, word)
            case Clue():
                self._start_guessing(player, action.word, action.number)
            case PassClue():
                self._start_guessing(player, None, 0)
            case StopGuessing():
                self.log.append(GuessesEnded(player))
                self._start_turn()

    def _start_turn(self) -> None:
        self.turn += 1
        self.guesses_left, self.may_stop = 0, False
        self.to_act = (self.team,)

    def _start_guessing(self, player: int, word: str | None, number: int) -> None:
        self.log.append(ClueGiven(player, word, number))
        self.guesses_left = number + 1
        self.to_act = (self.guesser,)

    def _reveal(self, player: int, word: str) -> None:
        owner = self.key[word]
        # `|=` makes a new frozenset; copies of the state keep theirs.
        self.revealed |= {word}
        self.guesses_left -= 1
        self.may_stop = True
        self.log.append(WordRevealed(player, word, owner))
        found = {team for team in TEAMS if not any(self.key[w] == team for w in self.hidden)}
        # The assassin comes first: it ends the game whatever else is revealed.
        if owner == ASSASSIN:
            self._end(1 - self.team)
        elif found:
            # Only the owner of the revealed word can have found its last word just now.
            self._end(TEAMS.index(owner))
        elif owner != TEAMS[self.team] or not self.guesses_left:
            self._start_turn()

    def _end(self, winner: int) -> None:
        self.winner = winner
        self.to_act = ()

    def returns(self) -> tuple[float, ...]:
        """Return 1 for each seat of the team that has won and 0 for the others."""
        # Before the end there is no winner, so a game that is cut off pays nothing.
        return tuple(float(team == self.winner) for team in self.teams())

    def reason(self) -> str:
        assert self.winner is not None
        winner, loser = TEAMS[self.winner], TEAMS[1 - self.winner]
        if any(self.key[word] == ASSASSIN for word in self.revealed):
            return f"{loser} has revealed the assassin"
        return f"all words of {winner} are found"
