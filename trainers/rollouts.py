"""Playing full games to learn from them: groups of games that share a deal and a seat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from arena.agents.model_call import Attempt
from arena.agents.prompt import ChatOptions
from arena.agents.seating import seat_agents
from arena.core.errors import ArenaError, StopPlaying
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.seeds import stream
from arena.episodes.record import Episode, ReplayWriter
from arena.episodes.runner import Watcher, play
from arena.llm.service import LLMService
from trainers.hosts.art import Trajectory, TrajectoryGroup
from trainers.rewards import Scored
from trainers.trajectories import (
    attempts_of,
    belief_failures,
    demand_room,
    endings_of,
    trajectory_of,
)

Score = Callable[[Episode, int], Scored]
"""What a finished game was worth to a seat."""


@dataclass(frozen=True, slots=True)
class Deal:
    """What the games of a group share."""

    seed: int
    specs: tuple[str, ...]
    """Who sits where; the learner is NEWEST."""
    learners: tuple[int, ...]
    """The seats that are trained: one, or with self-play all."""


@dataclass(frozen=True, slots=True)
class Table:
    """How games are played."""

    game: Game
    text_level: TextLevel
    chat: ChatOptions
    max_turns: int | None = None
    concurrency: int = 64
    timeout: float = 300.0
    """Seconds for one game."""
    retries: int = 2


@dataclass(frozen=True, slots=True, order=True)
class Result:
    """What one learning seat got out of one game."""

    deal: int
    """Its seed: games of one deal are not independent."""
    reward: float
    won: bool


@dataclass(slots=True)
class Counts:
    """What was seen while a step's games were played."""

    games: int = 0
    failed: int = 0
    """Games that could not be played, retries included."""
    replies: int = 0
    legal: int = 0
    decisions: int = 0
    overflowed: int = 0
    """Decisions whose chat was too long for the model: they count as illegal replies."""
    sampled: int = 0
    prompt: int = 0
    seconds_scoring: float = 0.0
    results: list[Result] = field(default_factory=list)
    """Of learning seats in finished games, also of those in groups that are dropped; in the order
    in which they finished."""
    judged: list[Result] = field(default_factory=list)
    """The same after a group scorer has changed the rewards; of the groups that it was given."""
    terms: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add_judged(self, groups: Sequence[TrajectoryGroup]) -> None:
        """Take down what a group scorer made of these groups."""
        for trajectory in (each for group in groups for each in group.trajectories):
            told = trajectory.metadata
            self.judged.append(Result(int(str(told["seed"])), trajectory.reward, bool(told["won"])))
            for name in ("group_score", "independent_reward"):
                self.terms.setdefault(name, []).append(float(trajectory.metrics[name]))


class GameFailed(ArenaError):
    """A game could not be played to its end; another try may succeed."""


class Rollouts:
    """Plays the games of training steps."""

    def __init__(
        self,
        table: Table,
        llm: LLMService,
        score: Score,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """`tell` hears how many games of a step are finished, of how many."""
        self._table = table
        self._llm = llm
        self._score = score
        self._tell = tell
        self._started: dict[int, float] = {}
        self._total = 0
        self._free = asyncio.Semaphore(table.concurrency)
        self.counts = Counts()

    def ages(self) -> list[float]:
        """Seconds since each running game began."""
        now = time.monotonic()
        return [now - started for started in self._started.values()]

    async def play(
        self,
        deals: Sequence[Deal],
        games: int,
        step: int,
        keep: Callable[[int], Path | None] = lambda number: None,
    ) -> list[TrajectoryGroup]:
        """`games` games of each deal; a group for each learning seat, in the order of the deals.

        A group in which a game could not be played has exceptions and fewer trajectories than
        games. `keep` names the folder for the replay of the game with this number in the step, or
        None. Raises StopPlaying where nothing can be played any more.
        """
        self.counts = Counts()
        self._total = len(deals) * games
        try:
            async with asyncio.TaskGroup() as tasks:
                begun = [
                    tasks.create_task(self._rollout(deals[n // games], n, step, keep(n)))
                    for n in range(self._total)
                ]
        except ExceptionGroup as errors:  # The others were cancelled.
            raise errors.exceptions[0] from None
        played = [task.result() for task in begun]
        demand_room(self.counts.replies, self.counts.overflowed)
        return [
            _group(played[n * games : (n + 1) * games], n, seat)
            for n, deal in enumerate(deals)
            for seat in deal.learners
        ]

    async def _rollout(
        self, deal: Deal, number: int, step: int, folder: Path | None
    ) -> dict[int, Trajectory] | GameFailed:
        """The learning seats' trajectories of one game, tried again if it fails."""
        tries = self._table.retries + 1
        for attempt in range(tries):
            async with self._free:
                self._started[number] = time.monotonic()
                try:
                    name = f"{step}/{number}/{attempt}"
                    episode = await self._game(deal, name, step, folder)
                    break
                except GameFailed as fault:
                    self.counts.failed += 1
                    self.counts.faults.append(str(fault))
                    if attempt == tries - 1:
                        return fault
                finally:
                    del self._started[number]
        return {seat: self._trajectory(episode, seat, deal, step) for seat in deal.learners}

    async def _game(self, deal: Deal, name: str, step: int, folder: Path | None) -> Episode:
        """One game. Raises GameFailed if it took too long, or the learner was not answered."""
        table = self._table
        # The deal is the same in all games of a group; what agents draw is not.
        agents_seed = stream(deal.seed, f"rollout {name}").getrandbits(62)
        agents = seat_agents(
            table.game, deal.specs, agents_seed, table.text_level, self._llm, table.chat
        )
        watchers: list[Watcher] = []
        if folder is not None:
            watchers.append(ReplayWriter(folder, f"game{name.replace('/', '-')}"))
        try:
            async with asyncio.timeout(table.timeout):
                episode = await play(
                    table.game,
                    agents,
                    deal.seed,
                    players=deal.specs,
                    max_turns=table.max_turns,
                    watchers=watchers,
                    text_level=table.text_level,
                    models=table.chat,
                )
        except TimeoutError:
            raise GameFailed(f"a game took longer than {table.timeout:g} s") from None
        _demand_answers(episode)
        for seat in deal.learners:
            _demand_weights(attempts_of(episode, seat), step)
            if table.chat.guided or table.chat.sampling.temperature != 1:
                _demand_chances(attempts_of(episode, seat))
        return episode

    def _trajectory(self, episode: Episode, seat: int, deal: Deal, step: int) -> Trajectory:
        counts, attempts = self.counts, list(attempts_of(episode, seat))
        started = time.perf_counter()
        scored = self._score(episode, seat)
        counts.seconds_scoring += time.perf_counter() - started
        if seat == deal.learners[0]:
            counts.games += 1
            self._tell(counts.games, self._total)
        attempts = [one for one in attempts if one.failure != "provider_error"]
        too_long = sum(ending.overflowed for ending in endings_of(episode, seat))
        counts.overflowed += too_long
        counts.replies += len(attempts) + too_long
        counts.legal += sum(attempt.failure is None for attempt in attempts)
        counts.decisions += sum(
            ply.player == seat and bool(ply.decision.details) for ply in episode.plies
        )
        counts.sampled += sum(len(attempt.tokens) for attempt in attempts)
        counts.prompt += sum(attempt.prompt_tokens for attempt in attempts)
        won = episode.outcome.winner == seat
        counts.results.append(Result(deal.seed, scored.reward, won))
        for name, value in scored.terms.items():
            counts.terms.setdefault(name, []).append(value)
        trajectory = trajectory_of(episode, seat)
        trajectory.reward = scored.reward
        trajectory.metrics = dict(scored.terms)
        trajectory.metadata = {"seed": deal.seed, "seat": seat, "step": step, "won": won}
        trajectory.initial_policy_version = trajectory.final_policy_version = step
        return trajectory


def _demand_answers(episode: Episode) -> None:
    """Raises GameFailed if somebody could not answer: what was played then is nobody's move.

    A chat that is too long for a model is that model's own fault, and no failure of the game.
    """
    for ply in episode.plies:
        failure, details = ply.decision.failure, ply.decision.details
        if failure and not details and not failure.startswith("forfeit"):
            raise GameFailed(f"seat {ply.player} failed: {failure}")
    for seat, spec in enumerate(episode.header.players):
        for cause in belief_failures(episode, seat):
            if cause != "context_length":
                raise GameFailed(f"seat {seat} ({spec}) was not asked what it believes: {cause}")
        for attempt in attempts_of(episode, seat):
            if attempt.failure == "provider_error" and attempt.cause != "context_length":
                told = attempt.excerpt or attempt.cause
                raise GameFailed(f"seat {seat} ({spec}) was not answered: {told}")


def _demand_weights(attempts: Iterator[Attempt], step: int) -> None:
    """Raises StopPlaying if other weights than this step's have answered."""
    for attempt in attempts:
        if attempt.policy_version not in (None, step):
            raise StopPlaying(
                f"the weights of step {attempt.policy_version} have answered, not those of step "
                f"{step}: what would be trained is not what was sampled"
            )


def _demand_chances(attempts: Iterator[Attempt]) -> None:
    """Raises StopPlaying if nobody knows with which probability a token was drawn."""
    if any(sampled is None for attempt in attempts for _, _, sampled in attempt.tokens):
        raise StopPlaying(
            "the server does not say with which probabilities it draws, so answers at another "
            "--temperature than 1 or with --guided cannot be trained: leave these flags out"
        )


def _group(
    played: Sequence[dict[int, Trajectory] | GameFailed], deal: int, seat: int
) -> TrajectoryGroup:
    """One seat's trajectories of a deal; the games that failed are its exceptions."""
    return TrajectoryGroup(
        [game[seat] for game in played if not isinstance(game, GameFailed)],
        exceptions=[game for game in played if isinstance(game, GameFailed)],
        metadata={"deal": deal, "seat": seat},
    )


def training_chat(chat: ChatOptions) -> ChatOptions:
    """As a trained policy must be asked: with its tokens' ids, and in one growing chat."""
    return replace(chat, logprobs=True, chat="append")
