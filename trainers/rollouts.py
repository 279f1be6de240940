"""Rollouts: full games of a training step, in groups that share a deal and the learner's seat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from arena.agents.model_call import Attempt
from arena.agents.prompt import ChatOptions
from arena.core.errors import ArenaError, StopPlaying
from arena.core.seeds import stream
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.replay_writer import ReplayWriter
from arena.episodes.runner import Watcher, play
from arena.llm.service import LLMService
from trainers.hosts.art import Trajectory, TrajectoryGroup
from trainers.rewards import RewardBreakdown
from trainers.step_metrics import RolloutCounts
from trainers.trajectories import attempts_of, belief_failures, check_context, trajectory_of

Score = Callable[[Episode, int], RewardBreakdown]
"""Reward of a seat for a finished game."""


@dataclass(frozen=True, slots=True)
class GroupSetup:
    """The deal and the players that the games of a group share."""

    seed: int
    specs: tuple[str, ...]
    """By seat; the learner is NEWEST."""
    learners: tuple[int, ...]
    """The seats that are trained: one, or all in self-play."""


@dataclass(frozen=True, slots=True)
class RolloutSetting:
    """Rules and limits of the games of training steps."""

    match: Match
    """The game, text level, chat options and limits; a GroupSetup adds players and seed."""
    concurrency: int = 64
    """Games played at the same time."""
    timeout: float = 300.0
    """Seconds for one game."""
    retries: int = 2
    fixed_weights: bool = True
    """All answers of a step must come from the weights of that step. False: another program
    updates the weights at any time, and trajectories record the versions that answered."""


class GameFailed(ArenaError):
    """A game could not be played to its end. A retry may succeed."""


class Rollouts:
    """Player of the games of training steps."""

    def __init__(
        self,
        setting: RolloutSetting,
        llm: LLMService,
        score: Score,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Prepare to play.

        Args:
            setting: How games are played.
            llm: Answers for the learner and for models among the opponents.
            score: Computes the reward of a learning seat.
            progress: Is called with the number of finished games of the step, and their total.
        """
        self._setting = setting
        self._llm = llm
        self._score = score
        self._progress = progress
        self._started: dict[int, float] = {}
        """Start time of each running game, by its number in the step."""
        self._total = 0
        self._version = 0
        """Step of the weights that play in the current step."""
        # One semaphore for all steps: it limits games, the service limits requests.
        self._slots = asyncio.Semaphore(setting.concurrency)
        self.counts = RolloutCounts()
        """Statistics of the last step."""

    def ages(self) -> list[float]:
        """Return the seconds since each running game started."""
        now = time.monotonic()
        return [now - started for started in self._started.values()]

    async def play(
        self,
        setups: Sequence[GroupSetup],
        games: int,
        step: int,
        replay_folder: Callable[[int], Path | None] = lambda number: None,
        version: int | None = None,
    ) -> list[TrajectoryGroup]:
        """Play `games` games of each setup.

        Args:
            setups: The deals and players.
            games: Games per setup.
            step: Number of finished steps.
            replay_folder: Returns the folder for the replay of the game with this number, or None.
            version: Step of the weights that play. Default: `step`.

        Returns:
            A group for each learning seat, in the order of the setups. If a game failed, the group
            has fewer than `games` trajectories, and the failures as its exceptions.

        Raises:
            StopPlaying: No further game can be played.
        """
        self.counts = RolloutCounts()
        self._version = step if version is None else version
        self._total = len(setups) * games
        try:
            # Game n belongs to setup n // games. If one game raises, the others are cancelled.
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._rollout(setups[n // games], n, step, replay_folder(n)))
                    for n in range(self._total)
                ]
        except ExceptionGroup as errors:  # The other games were cancelled.
            # One error in place of a group of them, so that callers catch it by its own class.
            raise errors.exceptions[0] from None
        # By number, not by completion: the order of the groups is the same in every run.
        results = [task.result() for task in tasks]
        check_context(self.counts.replies, self.counts.context_overflow)
        return [
            _group(results[n * games : (n + 1) * games], n, seat)
            for n, setup in enumerate(setups)
            for seat in setup.learners
        ]

    async def _rollout(
        self, setup: GroupSetup, number: int, step: int, folder: Path | None
    ) -> dict[int, Trajectory] | GameFailed:
        """Play one game with retries; returns the trajectories of the learning seats."""
        tries = self._setting.retries + 1
        for attempt in range(tries):
            # A slot for each attempt: a retry waits behind the games that have not started yet.
            async with self._slots:
                self._started[number] = time.monotonic()
                try:
                    # The name seeds the agents: a retry must not repeat the draws of the failed
                    # game.
                    name = f"{step}/{number}/{attempt}"
                    episode = await self._game(setup, name, step, folder)
                    break
                except GameFailed as fault:
                    self.counts.failed += 1
                    self.counts.faults.append(str(fault))
                    if attempt == tries - 1:
                        # Returned, not raised: one failed game costs its group, not the step.
                        return fault
                finally:
                    del self._started[number]
        trajectories = {
            seat: self._trajectory(episode, seat, setup.seed, step) for seat in setup.learners
        }
        self.counts.games += 1
        self._progress(self.counts.games, self._total)
        return trajectories

    async def _game(self, setup: GroupSetup, name: str, step: int, folder: Path | None) -> Episode:
        """Play one game. Raises GameFailed on a timeout, or if a player got no answer."""
        setting = self._setting
        # All games of a group share the deal. The agents' own draws differ, so that games do.
        # 62 bits fit into a signed 64-bit integer.
        agents_seed = stream(setup.seed, f"rollout {name}").getrandbits(62)
        match = replace(setting.match, specs=setup.specs, seed=setup.seed, agents_seed=agents_seed)
        watchers: list[Watcher] = []
        if folder is not None:
            watchers.append(ReplayWriter(folder, f"game{name.replace('/', '-')}"))
        try:
            async with asyncio.timeout(setting.timeout):
                episode = await play(match, llm=self._llm, watchers=watchers)
        except TimeoutError:
            raise GameFailed(f"a game took longer than {setting.timeout:g} s") from None
        check_answers(episode)
        chat = match.chat or ChatOptions()
        for seat in setup.learners:
            # Importance ratios are relative to the weights that sampled: another step's would be
            # off-policy without any sign of it.
            if setting.fixed_weights:
                _check_policy_version(attempts_of(episode, seat), self._version)
            if chat.guided or chat.sampling.temperature != 1:
                _check_sampling_probabilities(attempts_of(episode, seat))
        return episode

    def _trajectory(self, episode: Episode, seat: int, deal: int, step: int) -> Trajectory:
        started = time.perf_counter()
        breakdown = self._score(episode, seat)
        self.counts.seconds_scoring += time.perf_counter() - started
        self.counts.add_game(episode, seat, deal, breakdown)
        trajectory = trajectory_of(episode, seat)
        trajectory.reward = breakdown.reward
        trajectory.metrics = dict(breakdown.terms)
        won = episode.outcome.is_winner(seat)
        trajectory.metadata = {"seed": deal, "seat": seat, "step": step, "won": won}
        if self._setting.fixed_weights:
            trajectory.initial_policy_version = trajectory.final_policy_version = self._version
        else:
            versions = [one.policy_version for one in attempts_of(episode, seat)]
            known = [version for version in versions if version is not None]
            trajectory.initial_policy_version = min(known, default=None)
            trajectory.final_policy_version = max(known, default=None)
        return trajectory


def check_answers(episode: Episode) -> None:
    """Raise GameFailed if a player got no answer: its move was not its own decision.

    A chat that exceeds the model's context is not a failure of the game: it is the model's fault.
    """
    for ply in episode.plies:
        failure, details = ply.decision.failure, ply.decision.details
        # Without details the agent itself raised an error; a forfeit is a legal way to lose.
        if failure and not details and not failure.startswith("forfeit"):
            raise GameFailed(f"seat {ply.player} failed: {failure}")
    for seat, spec in enumerate(episode.header.players):
        for cause in belief_failures(episode, seat):
            if cause != "context_length":
                raise GameFailed(f"seat {seat} ({spec}): the belief question failed: {cause}")
        for attempt in attempts_of(episode, seat):
            if attempt.failure == "provider_error" and attempt.cause != "context_length":
                reason = attempt.excerpt or attempt.cause
                raise GameFailed(f"seat {seat} ({spec}) got no answer: {reason}")


def _check_policy_version(attempts: Iterable[Attempt], step: int) -> None:
    """Raise StopPlaying if weights of another step have answered."""
    for attempt in attempts:
        # None: the server does not report versions.
        if attempt.policy_version not in (None, step):
            raise StopPlaying(
                f"the weights of step {attempt.policy_version} have answered, not those of step "
                f"{step}: the trained weights would not be those that sampled"
            )


def _check_sampling_probabilities(attempts: Iterable[Attempt]) -> None:
    """Raise StopPlaying if the probability that a token was sampled with is unknown."""
    if any(sampled is None for attempt in attempts for _, _, sampled in attempt.tokens):
        raise StopPlaying(
            "the server does not report the probabilities it samples with, so answers with another "
            "--temperature than 1 or with --guided cannot be trained: leave these flags out"
        )


def _group(
    games: Sequence[dict[int, Trajectory] | GameFailed], deal: int, seat: int
) -> TrajectoryGroup:
    """Return the trajectories of one seat of a deal; failed games are its exceptions."""
    return TrajectoryGroup(
        [game[seat] for game in games if not isinstance(game, GameFailed)],
        exceptions=[game for game in games if isinstance(game, GameFailed)],
        metadata={"deal": deal, "seat": seat},
    )


def training_chat(chat: ChatOptions) -> ChatOptions:
    """Return the options that training needs: token ids with log-probabilities, a growing chat."""
    return replace(chat, logprobs=True, chat="append")
