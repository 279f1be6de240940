"""The settings of a hosted game, and the episodes that its sessions share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arena.agents.chat import ChatOptions
from arena.agents.seating import default_bot
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.seeds import check_seed, draw_seed
from arena.episodes.match import Match, Watcher
from arena.episodes.measurement import SeatEpisode
from arena.episodes.session import EXTERNAL, GameSession, SeatTurn
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
    """Time for all sessions of an episode to join it, from its opening."""
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
        """Return the match of one episode; sessions have these seats, opponents the others."""
        specs, free = [self.session_spec] * self.game.num_players, 0
        for seat in range(self.game.num_players):
            if seat not in seats:
                specs[seat] = self.specs[free % len(self.specs)]
                free += 1
        return Match(self.game, specs, seed, self.text_level, self.chat, self.max_turns)

    def start(self, seed: int, seats: Collection[int]) -> GameSession:
        """Start the game of an episode in which sessions have these seats."""
        match = self.match(seed, seats)
        return GameSession(
            match,
            sorted(seats),
            llm=self.llm,
            watchers=self.watchers(match),
            turn_seconds=self.turn_seconds,
        )

    async def play_alone(self, name: str | None, seed: object, seat: object) -> SeatHandle:
        """Start an episode of one session, by default with a random seed and in seat 0.

        Raises UsageError.
        """
        last, taken = self.game.num_players - 1, 0 if seat is None else seat
        if type(taken) is not int or not 0 <= taken <= last:
            raise UsageError(f"seat={seat!r}: give a seat from 0 to {last}")
        return await SeatHandle.take(name, self.start(_checked_seed(seed), {taken}), taken)


# Episodes, and the sessions that take seats in them


MOST_OPEN = 1_000
"""Seats of a server that may wait for their sessions at the same time."""


@dataclass(slots=True)
class SeatHandle:
    """The seat of a session in the game of an episode."""

    episode_id: str | None
    session: GameSession
    seat: int
    turn: SeatTurn
    read: int = 0
    """Events that the session has read."""
    steps: int = 0

    @classmethod
    async def take(cls, episode_id: str | None, session: GameSession, seat: int) -> SeatHandle:
        """Wait until the seat must decide; a session that stops waiting leaves the game."""
        try:
            return cls(episode_id, session, seat, await session.turn(seat))
        except BaseException:
            session.leave(seat)
            raise


class SharedEpisode:
    """An episode of several sessions. Its game begins once, when all of its seats are taken.

    Args:
        host: What is played.
        seed: The seed of the game.
        seats: The seats of the sessions.
    """

    def __init__(self, host: HostedGame, seed: int, seats: Sequence[int]) -> None:
        self._host = host
        self._seed = seed
        self.tokens = {seat: secrets.token_urlsafe(16) for seat in seats}
        """The token of each seat: the only key to it."""
        self.id = secrets.token_hex(8)
        self.deadline = asyncio.get_running_loop().time() + host.join_seconds
        """Time of the event loop until which sessions can join."""
        self._taken: set[int] = set()
        self._begun: asyncio.Future[GameSession] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """True while sessions can join."""
        in_time = asyncio.get_running_loop().time() < self.deadline
        return in_time and not self._begun.done()

    async def join(self, seat: int) -> SeatHandle:
        """Take a seat and wait for the other sessions; one that stops waiting frees its seat.

        Raises:
            UsageError: The seat is taken.
            ArenaError: The others have not joined in time.
        """
        if seat in self._taken:
            raise UsageError(f"seat {seat} is taken by another session")
        self._taken.add(seat)
        try:
            if len(self._taken) == len(self.tokens):
                self._begun.set_result(self._host.start(self._seed, self._taken))
            async with asyncio.timeout_at(self.deadline):
                # Shielded: a session that stops waiting must not cancel what the others wait for.
                session = await asyncio.shield(self._begun)
        except BaseException as error:
            if self._begun.done():
                self._begun.result().leave(seat)
            elif isinstance(error, TimeoutError):
                present = f"{len(self._taken)} of {len(self.tokens)}"
                limit = f"{self._host.join_seconds:g} seconds after the episode was opened"
                raise ArenaError(f"only {present} sessions have joined {limit}") from None
            self._taken.discard(seat)
            raise
        return await SeatHandle.take(self.id, session, seat)


class SharedEpisodes:
    """The episodes of a server whose sessions have not all joined, by the tokens of their seats."""

    def __init__(self, host: HostedGame) -> None:
        self._host = host
        self._open: dict[str, tuple[SharedEpisode, int]] = {}

    def open(self, seats: Sequence[int], seed: object = None) -> SharedEpisode:
        """Open an episode for several sessions, one for each of these seats.

        Raises UsageError for seats that do not exist, a wrong seed, or too many open episodes.
        """
        players = self._host.game.num_players
        if not seats or len(set(seats)) < len(seats) or not set(seats) <= set(range(players)):
            raise UsageError(f"seats={list(seats)}: give different seats from 0 to {players - 1}")
        self._open = {token: entry for token, entry in self._open.items() if entry[0].is_open}
        if len(self._open) + len(seats) > MOST_OPEN:
            raise UsageError(f"{len(self._open)} seats wait for their sessions already")
        episode = SharedEpisode(self._host, _checked_seed(seed), seats)
        self._open |= {token: (episode, seat) for seat, token in episode.tokens.items()}
        return episode

    async def join(self, token: str) -> SeatHandle:
        """Take the seat of a token, and wait until all sessions of its episode have joined.

        Raises:
            UsageError: No seat waits for this token.
            ArenaError: The others have not joined in time.
        """
        episode, seat = self._open.get(token, (None, 0))
        if episode is None or not episode.is_open:
            raise UsageError(
                "no seat waits for this token: it is unknown, or the episode has begun, or was "
                f"opened more than {self._host.join_seconds:g} seconds ago"
            )
        return await episode.join(seat)


def _checked_seed(seed: object) -> int:
    return draw_seed() if seed is None else check_seed(seed)
