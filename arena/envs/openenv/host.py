"""The settings of a hosted game, and the episodes that its sessions share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arena.agents.chat import ChatOptions
from arena.agents.seating import default_bot
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.seeds import check_seed
from arena.episodes.match import Match, Watcher
from arena.episodes.measurement import SeatEpisode
from arena.episodes.session import EXTERNAL, GameSession
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


# Episodes, and the sessions that take seats in them


class SharedEpisode:
    """One episode: the seats that sessions have taken, and its game once all of them have joined.

    Args:
        host: What is played.
        seed: The seed of the game.
        size: The number of sessions.
    """

    def __init__(self, host: HostedGame, seed: int, size: int) -> None:
        self._host = host
        self.seed = seed
        self.size = size
        self.seats: set[int] = set()
        self.started = asyncio.Event()
        self._session: GameSession | None = None

    @property
    def session(self) -> GameSession:
        """The game. Raises UsageError until all sessions have joined."""
        if self._session is None:
            raise UsageError(f"{len(self.seats)} of {self.size} sessions have joined the episode")
        return self._session

    @property
    def is_over(self) -> bool:
        """True if the game has ended."""
        return self._session is not None and self._session.is_over

    def take(self, seat: int | None) -> int:
        """Take a seat, by default the first free one, and start the game with the last one.

        Raises UsageError.
        """
        players = self._host.game.num_players
        free = [each for each in range(players) if each not in self.seats]
        if len(self.seats) == self.size:
            raise UsageError(f"the episode has all of its {self.size} sessions already")
        if seat is not None and (type(seat) is not int or not 0 <= seat < players):
            raise UsageError(f"seat={seat!r}: give a seat from 0 to {players - 1}")
        if seat is not None and seat not in free:
            raise UsageError(f"seat {seat} is taken by another session; free: {free}")
        taken = free[0] if seat is None else seat
        self.seats.add(taken)
        if len(self.seats) == self.size:
            self._start()
        return taken

    def leave(self, seat: int) -> None:
        """Give a seat up; in a game that goes on, fallback moves play it."""
        self.seats.discard(seat)
        if self._session is not None and not self._session.is_over:
            self._session.leave(seat)

    def _start(self) -> None:
        host, match = self._host, self._host.match(self.seed, self.seats)
        self._session = GameSession(
            match,
            sorted(self.seats),
            llm=host.llm,
            watchers=host.watchers(match),
            turn_seconds=host.turn_seconds,
        )
        self.started.set()


class SharedEpisodes:
    """The episodes of a server that several sessions share, by their id."""

    def __init__(self, host: HostedGame) -> None:
        self._host = host
        self._shared: dict[str, SharedEpisode] = {}

    def __len__(self) -> int:
        return len(self._shared)

    async def join(
        self, episode_id: str | None, seed: object, seat: int | None, size: object
    ) -> tuple[SharedEpisode, int]:
        """Take a seat in a new episode, or in one that other sessions of this id share.

        Waits until `size` sessions have joined.

        Raises:
            UsageError: A wrong seed, seat or size, or one that differs from that of the others.
            ArenaError: The others have not joined in time.
        """
        checked = None if seed is None else check_seed(seed)
        players = self._host.game.num_players
        if type(size) is not int or not 1 <= size <= players:
            raise UsageError(f"seats={size!r}: give the number of sessions, from 1 to {players}")
        if size == 1:
            alone = SharedEpisode(self._host, _seed(checked), 1)
            return alone, alone.take(seat)
        if not episode_id:
            raise UsageError(f"seats={size}: sessions that share an episode need its episode_id")
        shared_episode = self._find(episode_id, checked, size)
        taken = shared_episode.take(seat)
        await self._wait(episode_id, shared_episode, taken)
        return shared_episode, taken

    def leave(self, episode_id: str, shared_episode: SharedEpisode, seat: int) -> None:
        """Give a seat up. The last one to leave frees the id."""
        shared_episode.leave(seat)
        if not shared_episode.seats and self._shared.get(episode_id) is shared_episode:
            del self._shared[episode_id]

    def _find(self, episode_id: str, seed: int | None, size: int) -> SharedEpisode:
        """Return the episode of this id, which is made for the first session."""
        shared_episode = self._shared.get(episode_id)
        # After the end the id is free: the sessions of a group reset one after the other.
        if shared_episode is None or shared_episode.is_over:
            shared_episode = self._shared[episode_id] = SharedEpisode(self._host, _seed(seed), size)
        elif shared_episode.size != size:
            raise UsageError(
                f"seats={size}: the episode '{episode_id}' is for {shared_episode.size}"
            )
        elif seed is not None and seed != shared_episode.seed:
            raise UsageError(f"seed={seed}: the episode '{episode_id}' has another seed")
        return shared_episode

    async def _wait(self, episode_id: str, shared_episode: SharedEpisode, seat: int) -> None:
        """Wait for the other sessions; a session that stops waiting leaves."""
        try:
            async with asyncio.timeout(self._host.join_seconds):
                await shared_episode.started.wait()
        except BaseException as error:
            present = f"{len(shared_episode.seats)} of {shared_episode.size}"
            self.leave(episode_id, shared_episode, seat)
            if isinstance(error, TimeoutError):
                seconds = f"{self._host.join_seconds:g} seconds"
                message = f"only {present} sessions joined '{episode_id}' within {seconds}"
                raise ArenaError(message) from None
            raise


def _seed(seed: int | None) -> int:
    """Return the seed, or one that nothing reveals: the seed of a game gives its deal."""
    return random.SystemRandom().getrandbits(31) if seed is None else seed
