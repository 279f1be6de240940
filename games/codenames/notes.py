"""All that one viewer of codenames knows, and what is made from it: texts and the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from arena import (
    Card,
    Event,
    GameText,
    Notes,
    Observation,
    Panel,
    PlayGuide,
    Squares,
    Tabletop,
    TextLevel,
    TileRow,
    Tone,
)
from arena.core.observation import NotesView
from arena.core.text import listed
from arena.core.view import Colour, Look
from games.codenames.rules import (
    ASSASSIN,
    NEUTRAL,
    PASS,
    STOP,
    TEAMS,
    Clue,
    ClueGiven,
    Codenames,
    GuessesEnded,
    GuessWord,
    KeyDealt,
    WordRevealed,
    WordsDealt,
    clue_text,
)


@dataclass(frozen=True, slots=True)
class ClueRecord:
    """A clue, and the number of words of the own team that it has brought so far."""

    team: int
    word: str | None
    number: int
    found: int = 0

    def __str__(self) -> str:
        return f"{clue_text(self.word, self.number)} ({self.found} found)"


class CodenamesNotes(Notes):
    """Words, known owners and clues."""

    game: Codenames

    def __init__(self, game: Codenames, player: int) -> None:
        super().__init__(game, player)
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
            case ClueGiven(player, word, number):
                # Seats of one team are all even or all odd.
                self.clues.append(ClueRecord(player % 2, word, number))
                self.guesses_left = number + 1
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
        return self.game.owner_counts[owner] - list(self.revealed.values()).count(owner)

    def hidden_of(self, owner: str) -> tuple[str, ...]:
        """Return the hidden words that are known to have this owner; () for a guesser."""
        return tuple(word for word in self.hidden if self.key.get(word) == owner)

    def owner(self, word: str) -> str | None:
        """Return the owner of a word, if the viewer knows it."""
        return self.revealed.get(word) or self.key.get(word)


# Texts


def seats_text(players: int, team: int) -> str:
    """Return who does what in a team: `Player 0 gives the clues, Players 2 and 4 guess`."""
    guessers = [str(seat) for seat in range(2 + team, players, 2)]
    one = len(guessers) == 1
    guess = f"Player {guessers[0]} guesses" if one else f"Players {listed(guessers)} guess"
    return f"Player {team} gives the clues, {guess}"


def _meaning(owner: str) -> str:
    if owner in TEAMS:
        return f"it belongs to {owner}"
    return "it is the assassin" if owner == ASSASSIN else "it is neutral"


def _by_owner(key: Mapping[str, str], owners: Sequence[str]) -> str:
    """Return the words of each owner; owners without words are left out."""
    # The order of the owners is given: a player reads its own team first.
    words = {owner: [word for word in key if key[word] == owner] for owner in owners}
    parts = (f"{owner} ({len(own)}): {', '.join(own)}." for owner, own in words.items() if own)
    return " ".join(parts)


def _notebook(observation: Observation) -> Iterator[str]:
    """Yield what follows directly from the own events."""
    notes: CodenamesNotes = observation.notes
    team = observation.player % 2
    own, other = TEAMS[team], TEAMS[1 - team]
    if notes.key:
        hidden = {word: notes.key[word] for word in notes.hidden}
        yield f"Hidden words: {_by_owner(hidden, (own, other, NEUTRAL, ASSASSIN))}"
    elif notes.words:
        left = (f"{owner} {notes.num_hidden(owner)}" for owner in (own, other, NEUTRAL, ASSASSIN))
        yield f"Hidden words: {', '.join(left)}."
    # Clues with words that are still to be found help later guesses.
    clues = [str(clue) for clue in notes.clues if clue.team == team]
    if clues:
        yield f"Clues of your team: {', '.join(clues)}."
    if observation.legal_actions and notes.guesses_left:
        yield f"Guesses left in this turn: {notes.guesses_left}."


def _odds(observation: Observation) -> Iterator[str]:
    """Yield the probabilities of a guess; by the counts alone all hidden words are alike."""
    notes: CodenamesNotes = observation.notes
    if notes.key or not notes.words:
        return  # A clue giver knows the owners.
    team, hidden = observation.player % 2, len(notes.hidden)
    shares = (
        f"{owner} {100 * notes.num_hidden(owner) / hidden:.0f}%"
        for owner in (TEAMS[team], TEAMS[1 - team], NEUTRAL, ASSASSIN)
    )
    yield f"Without the clues, a hidden word is: {', '.join(shares)}."


def _actions(observation: Observation) -> Iterator[str]:
    """Yield the legal actions: the words that may be guessed are listed once."""
    legal = observation.legal_actions
    guesses = legal.of(GuessWord)
    if guesses:
        words = ", ".join(guess.word for guess in guesses)
        stop = f" | {STOP}" if STOP in legal else ""
        yield f"Your actions: guess WORD{stop}. The words: {words}."
    elif legal:
        yield f"Your actions: {Clue.notation()} | {PASS}"


class CodenamesText(GameText):
    """Texts of codenames."""

    game: Codenames
    notes_type = CodenamesNotes

    def synonyms(self) -> Mapping[str, str]:
        return {"skip": "pass", "end turn": "stop", "end my turn": "stop", "done": "stop"}

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal=(
                "Have all words of your team revealed before the other team, and never the "
                "assassin."
            ),
            turn=(
                "As the clue giver, say one word and a number: how many words of your team it "
                "is about. As a guesser, pick words one by one, up to one more than the number;"
                " after the first you may stop."
            ),
            end=(
                "The team whose words are all revealed wins. The team that reveals the assassin"
                " loses at once. A word of the other team or a neutral one ends the turn."
            ),
            example=(
                'The clue is "ocean 2". You guess "whale": it is yours, so you go on. You guess'
                ' "boat": neutral, and the turn is over.'
            ),
        )

    def rules(self) -> str:
        """Return the rules and the notation of actions."""
        game = self.game
        players, counts = game.num_players, game.owner_counts
        blue, orange = (seats_text(players, team) for team in (0, 1))
        # The rule about several guessers is left out where it does not matter.
        several = (
            " The guessers of a team take turns: one of them makes all guesses of a turn."
            if players > 4
            else ""
        )
        neutral = "1 is" if counts[NEUTRAL] == 1 else f"{counts[NEUTRAL]} are"
        return (
            f"Codenames, {players} players in two teams. Blue: {blue}. "
            f"Orange: {orange}. On the table are {game.num_words} words. A "
            "key, which only the two clue givers see, gives each word an owner: "
            f"{counts[TEAMS[0]]} words belong to blue, {counts[TEAMS[1]]} to orange, "
            f"{neutral} neutral, 1 is the assassin. A team wins as soon as all its words are "
            "revealed, whoever reveals the last one. A team that reveals the assassin loses at "
            "once.\nThe teams take turns; blue begins. First the clue giver gives a clue for "
            "words of the own team: one English word and a number from 0 to 9, which tells how "
            "many words the clue is about. The clue consists of letters and hyphens. It must not "
            "contain, or be contained in, a word on the table that is still hidden. Then the "
            "guesser guesses hidden words, one by one. After each guess all players see the "
            "owner of the word. A word of the own team allows another guess, up to number + 1 "
            "guesses in a turn; any other word ends the turn. The first guess is an obligation; "
            "after it the guesser may stop. A clue giver may pass instead of giving a clue; then "
            "the guesser guesses "
            f"exactly once.{several} Players say nothing but clues.\n"
            "Your action as a clue giver: clue WORD NUMBER | pass. For example: clue animal 2\n"
            "Your action as a guesser: guess WORD | stop. For example: guess horse"
        )

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        names = self.game.seat_names
        match event:
            case WordsDealt(words):
                return f"The words on the table: {', '.join(words)}."
            case KeyDealt(words, owners):
                key = dict(zip(words, owners, strict=True))
                return f"The key: {_by_owner(key, (*TEAMS, NEUTRAL, ASSASSIN))}"
            case ClueGiven(player, None, _):
                return f"{names[player]} passes and gives no clue."
            case ClueGiven(player, word, number):
                return f"{names[player]} gives the clue: {clue_text(word, number)}."
            case WordRevealed(player, word, owner):
                return f"{names[player]} guesses {word}: {_meaning(owner)}."
            case GuessesEnded(player):
                return f"{names[player]} stops."
            case _:
                raise TypeError(f"{event!r} is not an event of codenames")

    def _introduction(self, observation: Observation) -> str:
        player = observation.player
        role = "clue giver" if player < 2 else "guesser"
        return f"You are {self.game.seat_names[player]}, {role} of {TEAMS[player % 2]}."

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the notebook and the odds at higher levels, then the legal actions."""
        # The notebook is short, so each decision repeats it.
        if level != "events":
            yield from _notebook(observation)
        if level == "deductions":
            yield from _odds(observation)
        yield from _actions(observation)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        """Return the notebook in place of the first `forget` events, and the later ones."""
        notes: CodenamesNotes = observation.notes
        lines = [self._introduction(observation), self.omission_notice]
        # Omitted events are replaced by their result, at the level "events" too.
        if notes.words:
            lines.append(self.narrate(WordsDealt(notes.words)))
        if notes.revealed:
            lines.append(f"Revealed: {_by_owner(notes.revealed, (*TEAMS, NEUTRAL, ASSASSIN))}")
        lines += _notebook(observation)
        lines += map(self.narrate, observation.events_since(forget))
        if level == "deductions":
            lines += _odds(observation)
        return "\n".join((*lines, *_actions(observation)))


# Table


TONES: dict[str | None, Tone] = {
    None: "plain",
    TEAMS[0]: "seat4",  # The colour of the team, on a page and in a terminal.
    TEAMS[1]: "seat1",
    NEUTRAL: "muted",
    ASSASSIN: "bad",
}
"""Tone of a word by its owner; None is unknown."""
CAPTION = "Capitals: revealed. b: blue, o: orange, n: neutral, a: assassin."
SIGNS: dict[str | None, tuple[str, Colour]] = {
    None: ("", ""),
    TEAMS[0]: ("■", "blue"),
    TEAMS[1]: ("●", "orange"),
    NEUTRAL: ("–", ""),
    ASSASSIN: ("✕", "black"),
}
"""Sign and colour of a word's owner on a page."""
LEGEND = tuple(
    (Card(" ", "plain", symbol=SIGNS[owner][0], colour=SIGNS[owner][1], look="covered"), owner)
    for owner in (*TEAMS, NEUTRAL, ASSASSIN)
)
LATEST = 2
"""Clues of each team that are shown."""


class CodenamesView(NotesView):
    """The table as one viewer sees it; a clue giver, who has seen the key, sees all owners."""

    game: Codenames
    notes: CodenamesNotes
    notes_type = CodenamesNotes

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        tiles, width = tuple(map(self._tile, self.notes.words)), self.game.options.columns
        # Before the deal there is nothing to draw.
        if not tiles:
            return Tabletop(())
        rows = tuple(TileRow(tiles[at : at + width]) for at in range(0, len(tiles), width))
        columns = tuple(str(number + 1) for number in range(width))
        players = self.game.num_players
        teams = tuple(f"{name}: {seats_text(players, n)}" for n, name in enumerate(TEAMS))
        clues = tuple(map(self._clues, range(len(TEAMS))))
        lists = Panel("Teams", lines=teams), Panel("Clues", lines=clues)
        board = Squares("Words", rows, columns, LEGEND, "wide")
        prompts = {
            "guess": "Click the word that you guess.",
            "clue": "One word and a number, such as river 2",
        }
        return Tabletop((board, *lists), CAPTION, page_caption="", prompts=prompts)

    def _tile(self, word: str) -> Card:
        owner = self.notes.owner(word)
        # The letter or the sign says what the colour says: not every reader sees colours.
        label = word if owner is None else f"{word} {owner[0]}"
        revealed = word in self.notes.revealed
        title = ", ".join((word, owner or "unknown", "revealed" if revealed else "hidden"))
        picks = () if revealed or self.seat is None else (f"guess {word}",)
        sign, colour = SIGNS[owner]
        look: Look = "covered" if revealed else ""
        label = label.upper() if revealed else label
        return Card(label, TONES[owner], title, picks, None, word, look, sign, colour)

    def _clues(self, team: int) -> str:
        # The latest clues only: a line has 78 columns.
        clues = [str(clue) for clue in self.notes.clues if clue.team == team]
        left = self.notes.num_hidden(TEAMS[team])
        return f"{TEAMS[team]}, {left} left: {', '.join(clues[-LATEST:]) or 'no clue yet'}"
