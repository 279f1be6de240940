"""A game whose seats the sessions of other programs play: of OpenEnv and MCP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from arena.agents.chat import ChatOptions
from arena.agents.seating import default_bot
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.episodes.match import Match, Watcher
from arena.episodes.session import EXTERNAL, GameSession
from arena.llm.backend import ModelService


@dataclass(frozen=True, slots=True)
class HostedGame:
    """A game that sessions play, and everything that its host decides.

    Raises UsageError for SPECs that name no agents of this game.
    """

    game: Game
    opponents: Sequence[str] = ()
    """SPECs of the seats without a session, in turn; by default the game's default bot."""
    text_level: TextLevel = "notes"
    max_turns: int | None = None
    chat: ChatOptions | None = None
    """Options for models among the opponents."""
    llm: ModelService | None = None
    """Answers for them."""
    watchers: Callable[[Match], Sequence[Watcher]] = lambda match: ()
    """Make the watchers of one game, for example the writer of its replay."""
    turn_seconds: float | None = None
    """Time for one decision of a session, after which a fallback move is played."""
    session_spec: str = EXTERNAL
    """Name of the seats of sessions in the record."""
    specs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        specs = tuple(self.opponents) or (default_bot(self.game),)
        others = self.game.num_players - 1
        if len(specs) > max(others, 1):
            raise UsageError(
                f"{len(specs)} opponents are given, but there are {others} other seats"
            )
        # The class is frozen, so the assignment goes around it.
        object.__setattr__(self, "specs", specs)
        # Finds a SPEC that names no agent before anything is served.
        self.match(0, ()).seat(self.llm)

    def match(self, seed: int, seats: Collection[int]) -> Match:
        """Return the match of one game; sessions have these seats, opponents the others."""
        specs, free = [self.session_spec] * self.game.num_players, 0
        for seat in range(self.game.num_players):
            if seat not in seats:
                specs[seat] = self.specs[free % len(self.specs)]
                free += 1
        return Match(self.game, specs, seed, self.text_level, self.chat, self.max_turns)

    def start(self, seed: int, seats: Collection[int], *watchers: Watcher) -> GameSession:
        """Start a game in which sessions have these seats."""
        match = self.match(seed, seats)
        return GameSession(
            match,
            sorted(seats),
            llm=self.llm,
            watchers=[*watchers, *self.watchers(match)],
            turn_seconds=self.turn_seconds,
        )
