"""TextArena's environments as games of arena: every move is a text.

L. Guertler et al., "TextArena", arXiv 2504.11442.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pydantic import Field

from arena import Action, ActionSet, Decision, Event, Observation, Seat, Speech, SpeechOffer
from arena.core.errors import UsageError
from arena.core.game import Game, GameOptions
from arena.core.observation import GameText, TextLevel
from arena.core.text import one_line, quote, shorten
from arena.plugins.catalog import FamilyGame, require
from games.adapters.library_game import (
    LibraryFamily,
    LibraryGame,
    LibraryMove,
    LibrarySeed,
    LibraryText,
    clean_lines,
)
from games.adapters.library_state import LibraryState

MOST_PLAYERS = 15
"""Seats that are tried when the option `players` is left open."""

PASS = LibraryMove(0, "pass")
"""The one move without free text; most environments refuse it as invalid."""

BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")


class TextArenaOptions(GameOptions):
    """Options of an environment of TextArena."""

    players: int = Field(
        0, ge=0, le=MOST_PLAYERS, description="Number of seats; 0: the fewest from 2 on, or else 1."
    )


@dataclass(frozen=True, slots=True)
class TextArenaSpeech(Speech):
    """A move as the environment reads it, most often in square brackets: `say [bet]`."""

    max_length: ClassVar[int] = 2_000


@dataclass(frozen=True, slots=True)
class TextArenaOffer(SpeechOffer):
    """The offer to write a move, with the bracketed texts that the seat was shown last."""

    examples: tuple[str, ...] = ()

    def sample(self, rng: random.Random) -> Speech:
        """Return one of the examples, or a number in brackets."""
        if self.examples and rng.random() < 0.8:
            return self.kind(rng.choice(self.examples))
        return self.kind(f"[{rng.randrange(9)}]")


@dataclass(frozen=True, slots=True)
class TextArenaMessage(Event):
    """A message of the environment or of a player, to one seat or to all."""

    sender: int
    """A seat; -1 is the environment."""
    text: str
    to: int | None

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.to is None else (self.to,)


class TextArenaGame(LibraryGame):
    """An environment of TextArena; texts and rules are its own."""

    Options = TextArenaOptions
    Text = "games.adapters.textarena:TextArenaText"
    Position = "games.adapters.textarena:TextArenaState"
    options: TextArenaOptions
    default_bots = ("quoting",)
    speech: ClassVar[tuple[type[Speech], ...]] = (TextArenaSpeech,)

    always_apart = True  # Some environments never end to load.

    def _load(self) -> None:
        self.players = self._allowed_players()

    @property
    def env_id(self) -> str:
        """Name of the environment in TextArena."""
        return self.name.partition("/")[2]

    def _allowed_players(self) -> int:
        """Return the number of seats. Raises UsageError if the environment refuses it."""
        wanted = self.options.players
        reason = ""
        for players in [wanted] if wanted else [*range(2, MOST_PLAYERS + 1), 1]:
            try:
                with isolated(random.Random(0)):
                    self.new_env().reset(num_players=players, seed=0)
                return players
            except Exception as error:  # The library checks with assertions, or fails later.
                reason = reason or f"{type(error).__name__}: {error}"
        seats = wanted or f"1 to {MOST_PLAYERS}"
        raise UsageError(f"{self.name} with {seats} players: {shorten(one_line(reason))}")

    def new_env(self) -> Any:
        """Return a new environment without the wrappers that change texts.

        Call it, and every method of it, within `isolated`.
        """
        from textarena.envs.registration import ENV_REGISTRY

        raw = f"{self.env_id}-raw"
        return textarena().make(raw if raw in ENV_REGISTRY else self.env_id)

    def _all_actions(self) -> Iterable[Action]:
        return (PASS,)


class TextArenaText(LibraryText):
    """Rules of a game of TextArena."""

    game: TextArenaGame

    def rules(self) -> str:
        return (
            f"{self.game.env_id} of TextArena, {self.game.num_players} players. The game explains "
            "its rules in its first message. Where it asks for a move in square brackets, say it "
            f"with them.\nYour action: {TextArenaSpeech.notation()}. For example: say [bet]"
        )

    def narrate(self, event: Event) -> str:
        if not isinstance(event, TextArenaMessage):
            return super().narrate(event)
        if event.sender < 0:
            return event.text
        return f"{self.game.seat_names[event.sender]}: {quote(event.text)}"

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        # A message is never shown again, unlike the texts of other libraries.
        return GameText.describe(self, observation, level, since)


class TextArenaState(LibraryState):
    """An environment and the generator that it draws from."""

    game: TextArenaGame

    def __init__(self, game: TextArenaGame) -> None:
        super().__init__(game)
        self.env: Any = None
        self.generator = random.Random()
        """Random generator of the library; the first action of chance seeds it."""
        self._offered: ActionSet | None = None
        """The legal actions of the seat that acts; None before they are asked for."""

    def _change(self, player: int, action: Action) -> None:
        if isinstance(action, LibrarySeed):
            # Before the environment exists, which may draw when it is made.
            self.generator.seed(action.seed)
        with isolated(self.generator):
            match action:
                case LibrarySeed(seed):
                    self.env = self.game.new_env()
                    self.env.reset(num_players=self.game.num_players, seed=seed)
                case Speech(text) | LibraryMove(text=text):
                    self.env.step(text)
            self._show()

    def _show(self) -> None:
        """Set who must act, and log the new messages."""
        state = self.env.state
        self.to_act = () if state.done else (int(state.current_player_id),)
        self.turn += bool(self.to_act)
        self._offered = None
        for message in _merged(self._new_messages()):
            self.log.append(message)

    def _new_messages(self) -> list[list[tuple[int, str]]]:
        """Take what the environment has for each seat since the last call."""
        state, queues = self.env.state, list[list[tuple[int, str]]]()
        for seat in range(self.game.num_players):
            # An environment may add to the messages of the seat that acts.
            if self.to_act == (seat,):
                _, messages = self.env.get_observation()
            else:
                messages = state.observations.get(seat, [])
                state.observations[seat] = []
            if isinstance(messages, str):
                messages = [(-1, messages)]
            queues.append([(int(m[0]), clean_lines(str(m[1]))) for m in messages or ()])
        return queues

    def _legal_actions(self, player: int) -> ActionSet:
        if self._offered is None:
            self._offered = self._offer(player)
        return self._offered

    def _offer(self, player: int) -> ActionSet:
        texts = [
            event.text
            for event in self.log.witnessed[player][-6:]
            if isinstance(event, TextArenaMessage)
        ]
        shown = dict.fromkeys(found for text in texts for found in BRACKETED.findall(text))
        examples = tuple(text for text in map(one_line, shown) if text)
        offer = TextArenaOffer(TextArenaSpeech, examples)
        return self.game.actions.subset((PASS,), (offer,))

    def returns(self) -> tuple[float, ...]:
        """Return the environment's rewards, which it gives at the end."""
        rewards = (self.env.state.rewards if self.env is not None else None) or {}
        return tuple(float(rewards.get(p) or 0.0) for p in range(self.game.num_players))

    def reason(self) -> str:
        info = getattr(self.env.state, "game_info", None) or {}
        reasons = [str(facts.get("reason")) for facts in info.values() if facts.get("reason")]
        return shorten(one_line(reasons[0])) if reasons else super().reason()


def _merged(queues: list[list[tuple[int, str]]]) -> list[TextArenaMessage]:
    """Empty the queues in order; a message that all seats get next becomes a public event."""
    messages = list[TextArenaMessage]()
    while any(queues):
        first = next(queue for queue in queues if queue)[0]
        if all(queue[:1] == [first] for queue in queues):
            messages.append(TextArenaMessage(*first, to=None))
            for queue in queues:
                del queue[0]
            continue
        # The private ones before the next public one, of the first seat that has any.
        seats = [seat for seat, queue in enumerate(queues) if queue]
        private = (s for s in seats if not all(queues[s][0] in other for other in queues))
        seat = next(private, seats[0])
        messages.append(TextArenaMessage(*queues[seat].pop(0), to=seat))
    return messages


class Quoting:
    """Writes a bracketed text that it was shown last, such as an example of a move."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        offers = observation.legal_actions.speech
        return Decision(offers[0].sample(self._rng) if offers else PASS)


# The library


@cache
def textarena() -> Any:
    """Import the library. Raises MissingDependency without it."""
    require("a game of textarena", ["textarena"], "textarena")
    import textarena as library

    return library


@cache
def environment_ids() -> tuple[str, ...]:
    """Return the environments, without those that differ only in how they wrap texts."""
    textarena()
    from textarena.envs.registration import ENV_REGISTRY

    # A slash in a name ("Taboo-v0-city/country") would look like a family.
    plain = (name for name in ENV_REGISTRY if not {"raw", "train"} & set(name.split("-")))
    return tuple(sorted(name for name in plain if "/" not in name))


@contextmanager
def isolated(generator: random.Random) -> Iterator[None]:
    """Let the library draw from a generator, in place of the global one, which it also seeds."""
    random.setstate(generator.getstate())
    try:
        yield
    finally:
        generator.setstate(random.getstate())


class TextArenaFamily(LibraryFamily):
    """All environments that TextArena registers, by their ids."""

    name, library = "textarena", "TextArena"

    def known(self) -> Sequence[str]:
        return environment_ids()

    def make(self, name: str) -> type[Game]:
        return self.new_class(TextArenaGame, name, name)

    def listed(self, name: str) -> FamilyGame:
        return FamilyGame(f"{self.name}/{name}", name.partition("-v")[0], "", "", ("speech",))

    def games(self) -> Sequence[FamilyGame]:
        """Return one game for each environment, in alphabetical order; not its variants."""
        first = dict[str, str]()
        for name in sorted(self.known(), key=lambda each: (len(each), each)):
            first.setdefault(name.partition("-v")[0], name)
        return [self.listed(name) for _, name in sorted(first.items())]


TEXTARENA = TextArenaFamily()
