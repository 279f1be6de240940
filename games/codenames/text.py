"""Texts of codenames: rules, narration of events, situation of a player."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from arena import (
    Event,
    GameText,
    Observation,
    Panel,
    PlayGuide,
    Squares,
    Tabletop,
    TextLevel,
    Tile,
    TileRow,
    Tone,
)
from games.codenames.game import Codenames
from games.codenames.moves import (
    ASSASSIN,
    NEUTRAL,
    PASS,
    STOP,
    TEAMS,
    UNLIMITED,
    Clue,
    ClueGiven,
    FirstTeamDrawn,
    GuessesEnded,
    GuessWord,
    KeyDealt,
    WordRevealed,
    WordsDealt,
    clue_text,
)
from games.codenames.table import CodenamesTable


def seats_text(players: int, team: int) -> str:
    """Return who does what in a team: `Player 0 gives the clues, Players 2 and 4 guess`."""
    *first, last = map(str, range(2 + team, players, 2))
    guess = f"Players {', '.join(first)} and {last} guess" if first else f"Player {last} guesses"
    return f"Player {team} gives the clues, {guess}"


def _meaning(owner: str) -> str:
    if owner in TEAMS:
        return f"it belongs to {owner}"
    return "it is the assassin" if owner == ASSASSIN else "it is neutral"


def _by_owner(key: Mapping[str, str], owners: Sequence[str]) -> str:
    """Return the words of each owner; owners without words are left out."""
    parts = []
    # The order of the owners is given: a player reads its own team first.
    for owner in owners:
        words = [word for word, each in key.items() if each == owner]
        if words:
            parts.append(f"{owner} ({len(words)}): {', '.join(words)}.")
    return " ".join(parts)


def _table(observation: Observation) -> CodenamesTable:
    table = observation.notes
    assert isinstance(table, CodenamesTable)
    return table


def _notebook(observation: Observation) -> Iterator[str]:
    """Yield what follows directly from the own events."""
    table, team = _table(observation), observation.player % 2
    own, other = TEAMS[team], TEAMS[1 - team]
    if table.key:
        hidden = {word: table.key[word] for word in table.hidden}
        yield f"Hidden words: {_by_owner(hidden, (own, other, NEUTRAL, ASSASSIN))}"
    elif table.words:
        left = (f"{owner} {table.num_hidden(owner)}" for owner in (own, other, NEUTRAL, ASSASSIN))
        yield f"Hidden words: {', '.join(left)}."
    # Clues with words that are still to be found help later guesses.
    clues = [str(clue) for clue in table.clues if clue.team == team]
    if clues:
        yield f"Clues of your team: {', '.join(clues)}."
    if observation.legal_actions and table.guesses_left:
        limited = table.guesses_left <= UNLIMITED
        yield f"Guesses left in this turn: {table.guesses_left if limited else 'no limit'}."


def _odds(observation: Observation) -> Iterator[str]:
    """Yield the probabilities of a guess; by the counts alone all hidden words are alike."""
    table = _table(observation)
    if table.key or not table.words:
        return  # A clue giver knows the owners.
    team, hidden = observation.player % 2, len(table.hidden)
    shares = (
        f"{owner} {100 * table.num_hidden(owner) / hidden:.0f}%"
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
    notes_type = CodenamesTable

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
        if game.options.first_team == "random":
            teams, begins = ("the team that begins", "the other team"), "which begins is drawn"
        else:
            teams, begins = TEAMS, "blue begins"
        if game.options.substrings:
            letters = "be a form or a part of a hidden word on the table, or the reverse"
        else:
            letters = "contain, or be contained in, a word on the table that is still hidden"
        zero = (
            " With the number 0, or `unlimited` in place of the number, guesses have no limit."
            if game.options.unlimited
            else ""
        )
        return (
            f"Codenames, {players} players in two teams. Blue: {blue}. "
            f"Orange: {orange}. On the table are {game.num_words} words. A "
            "key, which only the two clue givers see, gives each word an owner: "
            f"{counts[TEAMS[0]]} words belong to {teams[0]}, {counts[TEAMS[1]]} to {teams[1]}, "
            f"{neutral} neutral, 1 is the assassin. A team wins as soon as all its words are "
            "revealed, whoever reveals the last one. A team that reveals the assassin loses at "
            f"once.\nThe teams take turns; {begins}. First the clue giver gives a clue for words "
            "of the own team: one English word and a number from 0 to 9, which tells how many "
            "words the clue is about. The clue consists of letters and hyphens. It must not "
            f"{letters}. Then the guesser guesses hidden words, one by one. After each guess all "
            "players see the owner of the word. A word of the own team allows another guess, up to "
            f"number + 1 guesses in a turn; any other word ends the turn.{zero} The first guess is "
            "an obligation; after it the guesser may stop. A clue giver may pass instead of giving "
            f"a clue; then the guesser guesses exactly once.{several} Players say nothing but "
            "clues.\n"
            "Your action as a clue giver: clue WORD NUMBER | pass. For example: clue animal 2\n"
            "Your action as a guesser: guess WORD | stop. For example: guess horse"
        )

    def narrate(self, event: Event) -> str:  # noqa: PLR0911 - one case for each kind.
        """Return one event as a sentence."""
        names = self.game.seat_names
        match event:
            case WordsDealt(words):
                return f"The words on the table: {', '.join(words)}."
            case KeyDealt(words, owners):
                key = dict(zip(words, owners, strict=True))
                return f"The key: {_by_owner(key, (*TEAMS, NEUTRAL, ASSASSIN))}"
            case FirstTeamDrawn(team):
                return f"{TEAMS[team].capitalize()} begins and has one word more."
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
        table = _table(observation)
        lines = [self._introduction(observation), self.omission_notice]
        # Omitted events are replaced by their result, at the level "events" too.
        if table.words:
            lines.append(self.narrate(WordsDealt(table.words)))
        if table.revealed:
            lines.append(f"Revealed: {_by_owner(table.revealed, (*TEAMS, NEUTRAL, ASSASSIN))}")
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
LATEST = 2
"""Clues of each team that are shown."""


class CodenamesView:
    """The table as one viewer sees it; a clue giver, who has seen the key, sees all owners."""

    def __init__(self, game: Codenames, seat: int | None) -> None:
        self._columns, self._is_seat = game.options.columns, seat is not None
        self._teams = tuple(
            f"{name}: {seats_text(game.num_players, team)}" for team, name in enumerate(TEAMS)
        )
        # The number of the player matters to texts only; the events decide what is known.
        self._table = CodenamesTable(game, 0)

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self._table.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        tiles, width = tuple(map(self._tile, self._table.words)), self._columns
        # Before the deal there is nothing to draw.
        if not tiles:
            return Tabletop(())
        rows = tuple(TileRow(tiles[at : at + width]) for at in range(0, len(tiles), width))
        columns = tuple(str(number + 1) for number in range(width))
        clues = tuple(map(self._clues, range(len(TEAMS))))
        lists = Panel("Teams", lines=self._teams), Panel("Clues", lines=clues)
        return Tabletop((Squares("Words", rows, columns, shape="wide"), *lists), CAPTION)

    def _tile(self, word: str) -> Tile:
        owner = self._table.owner(word)
        # The letter says what the colour says: not every reader sees colours.
        label = word if owner is None else f"{word} {owner[0]}"
        revealed = word in self._table.revealed
        title = ", ".join((word, owner or "unknown", "revealed" if revealed else "hidden"))
        picks = () if revealed or not self._is_seat else (f"guess {word}",)
        return Tile(label.upper() if revealed else label, TONES[owner], title, picks)

    def _clues(self, team: int) -> str:
        # The latest clues only: a line has 78 columns.
        clues = [str(clue) for clue in self._table.clues if clue.team == team]
        left = self._table.num_hidden(TEAMS[team])
        return f"{TEAMS[team]}, {left} left: {', '.join(clues[-LATEST:]) or 'no clue yet'}"
