"""Codenames: two teams find their words by clues of one word.

The rules are those of the board game by Vlaada Chvátil (2015), with these differences: the table
may be smaller, and a clue giver may pass. By default the number 0 allows one guess, blue, which has
one word more, begins, and a clue must not share its letters with a hidden word; the options
`unlimited`, `first_team` and `substrings` follow the rule book in this.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from arena import (
    CHANCE,
    WIN_RATE,
    Action,
    ActionSet,
    Game,
    Observation,
    State,
)
from arena.core.game import SeatOptions
from games.codenames.moves import (
    ASSASSIN,
    NEUTRAL,
    PASS,
    STOP,
    TEAMS,
    UNLIMITED,
    WORDS,
    Clue,
    ClueGiven,
    ClueOffer,
    DealKey,
    DealWords,
    FirstTeamDrawn,
    GuessesEnded,
    GuessWord,
    KeyDealt,
    PassClue,
    StopGuessing,
    WordRevealed,
    WordsDealt,
)


class CodenamesOptions(SeatOptions):
    """Options of `codenames`."""

    players: int = Field(
        4, ge=4, le=8, multiple_of=2, description="Number of seats, half of them in each team."
    )
    rows: int = Field(5, ge=3, le=5, description="Rows of words on the table.")
    columns: int = Field(5, ge=3, le=5, description="Words in each row.")
    unlimited: bool = Field(
        False, description="The numbers 'unlimited' and 0 set no limit to the guesses of a clue."
    )
    first_team: Literal["blue", "random"] = Field(
        "blue", description="The team that begins and has one word more."
    )
    substrings: bool = Field(
        False,
        description="A clue may contain a hidden word, or be contained in it, as 'ear' in 'heart'; "
        "forms of the word and parts of a compound stay forbidden.",
    )


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
    Text = "games.codenames.text:CodenamesText"
    Analysis = "games.codenames.assessor:CodenamesAnalysis"
    Arrays = "games.codenames.table:CodenamesArrays"
    View = "games.codenames.text:CodenamesView"
    default_bots = ("shared_table", "shared_table")
    level_bots = ("own_table", "own_table", "shared_table")

    @property
    def num_words(self) -> int:
        """Number of words on the table."""
        return self.options.rows * self.options.columns

    @property
    def turn_bound(self) -> int:
        """Each turn reveals a word."""
        return self.num_words

    @property
    def owner_counts(self) -> Mapping[str, int]:
        """Number of words of each owner if blue begins."""
        return self.counts_of(0)

    def counts_of(self, first_team: int) -> Mapping[str, int]:
        """Return the number of words of each owner; in the same proportions as 9, 8, 7 and 1."""
        first = (9 * self.num_words + 12) // 25  # Rounded to the nearest number.
        neutral = self.num_words - 2 * first
        teams = {TEAMS[0]: first - first_team, TEAMS[1]: first - 1 + first_team}
        return {**teams, NEUTRAL: neutral, ASSASSIN: 1}

    def most_guesses(self, word: str | None, number: int) -> int:
        """Return the number of guesses that a clue allows; 99, more than words, is no limit."""
        # A pass has the number 0, too.
        free = number == UNLIMITED or (number == 0 and word is not None and self.options.unlimited)
        return 99 if free else number + 1

    def _all_actions(self) -> Iterable[Action]:
        # All words of the list, so that a number means the same action in every game.
        return (PASS, STOP, *map(GuessWord, WORDS))

    def clue_offer(self, hidden: tuple[str, ...]) -> ClueOffer:
        """Return the offer of a clue while these words are hidden."""
        return ClueOffer(Clue, hidden, self.options.substrings, self.options.unlimited)

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
        self.first_team = 0
        """The team that begins, known from the key on."""
        self.winner: int | None = None

    def roles(self) -> tuple[str, ...]:
        return ("clue giver",) * 2 + ("guesser",) * (self.game.num_players - 2)

    def teams(self) -> tuple[int, ...]:
        return tuple(seat % 2 for seat in range(self.game.num_players))

    @property
    def team(self) -> int:
        """The team in turn."""
        return (self.turn - 1 + self.first_team) % 2

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
        first = rng.randrange(2) if self.game.options.first_team == "random" else 0
        owners = list(Counter(self.game.counts_of(first)).elements())
        return DealKey(tuple(rng.sample(owners, len(owners))))

    def _is_possible(self, action: Action) -> bool:
        match action:
            case DealWords(words) if not self.words:
                # A set: a word that is dealt twice counts once, so the lengths differ.
                different = set(words) & set(WORDS)
                return len(words) == len(different) == self.game.num_words
            case DealKey(owners) if self.words:
                return self._first_team(owners) is not None
        return False

    def _first_team(self, owners: Sequence[str]) -> int | None:
        """Return the team that begins with this key; None if the key is not possible."""
        teams = range(2 if self.game.options.first_team == "random" else 1)
        counts = Counter(owners)
        return next((n for n in teams if counts == Counter(self.game.counts_of(n))), None)

    def _read_chance(self, text: str) -> Action:
        kind, *names = text.split(" ")
        return DealWords(tuple(names)) if kind == "words" else DealKey(tuple(names))

    # Play

    def _legal_actions(self, player: int) -> ActionSet:
        actions, hidden = self.game.actions, self.hidden
        # A player without speech, such as a network, can still pass.
        if player < 2:
            return actions.subset((PASS,), speech=(self.game.clue_offer(hidden),))
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
                self.first_team = self._first_team(owners) or 0
                if self.game.options.first_team == "random":
                    self.log.append(FirstTeamDrawn(self.first_team))
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
        self.guesses_left = self.game.most_guesses(word, number)
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
