"""The settings of a hosted game: rules, opponents, texts, reward and limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arena.agents.chat import ChatOptions
from arena.agents.seating import default_bot
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.episodes.match import Match
from arena.episodes.reward import SeatEpisode
from arena.episodes.runner import Watcher
from arena.episodes.session import EXTERNAL
from arena.llm.backend import ModelService


class ScoredEpisode(Protocol):
    """The reward of one seat of a finished game, and its terms by name, unweighted."""

    @property
    def reward(self) -> float: ...
    @property
    def terms(self) -> Mapping[str, float]: ...


Scoring = Callable[[SeatEpisode], ScoredEpisode]
"""Scores a finished game for one seat. Raises ArenaError if that fails."""


@dataclass(frozen=True, slots=True)
class GameReturn:
    """The default score: the return that the game gives the seat."""

    reward: float

    @property
    def terms(self) -> Mapping[str, float]:
        return {}


def game_return(seat_episode: SeatEpisode) -> GameReturn:
    """Score a game by its own return for the seat."""
    return GameReturn(seat_episode.episode.outcome.returns[seat_episode.seat])


def no_watchers(_match: Match) -> Sequence[Watcher]:
    """Watch no game."""
    return ()


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
    """How models among the opponents are asked."""
    llm: ModelService | None = None
    """Answers for them."""
    score: Scoring = game_return
    watchers: Callable[[Match], Sequence[Watcher]] = no_watchers
    """Make the watchers of one game, for example the writer of its replay."""
    turn_seconds: float | None = None
    """Time for one decision of a session, after which a fallback move is played."""
    join_seconds: float = 30.0
    """Time for all sessions of an episode to join it."""
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
        """Return the match of one episode; sessions have these seats, opponents the others."""
        specs, free = [EXTERNAL] * self.game.num_players, 0
        for seat in range(self.game.num_players):
            if seat not in seats:
                specs[seat] = self.specs[free % len(self.specs)]
                free += 1
        return Match(self.game, specs, seed, self.text_level, self.chat, self.max_turns)
