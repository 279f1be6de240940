"""Rollouts: full games of a training step, in groups that share a deal and the learner's seat.

Opponents are a weighted mix of SPECs and checkpoints. No training deal has the seed of a held-out
deal.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from arena.agents.chat import Attempt, ChatOptions
from arena.agents.seating import default_opponent
from arena.core.errors import StopPlaying, UsageError
from arena.core.game import Game
from arena.core.spec import redacted, split_weighted_specs, stream
from arena.episodes.files import ReplayFile
from arena.episodes.job import Executor, GameJob, LocalExecutor, run_job, run_jobs
from arena.episodes.match import Match
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from trainers.config.config import GAMES_AT_ONCE, TrainConfig
from trainers.rollouts.trajectories import (
    GameFailed,
    RewardedEpisode,
    RewardFailed,
    RolloutCounts,
    Score,
    attempts_of,
    check_context,
    score_seats,
    trajectory_of,
)
from trainers.trajectory import Trajectory, TrajectoryGroup

ATTEMPTS = 3
"""Attempts to play a game to its end."""


@dataclass(frozen=True, slots=True)
class RolloutSetting:
    """Rules and limits of the games of training steps."""

    match: Match
    """The game, text level, chat options and limits; a GroupSetup adds players and seed."""
    concurrency: int = GAMES_AT_ONCE
    """Games played at the same time."""
    timeout: float = 900.0
    """Seconds for one game."""
    fixed_weights: bool = True
    """All answers of a step must come from the weights of that step. False: another program
    updates the weights at any time, and trajectories record the versions that answered."""

    def at_temperature(self, temperature: float) -> RolloutSetting:
        """Return the same setting with another sampling temperature."""
        chat = self.match.chat or ChatOptions()
        chat = replace(chat, sampling=replace(chat.sampling, temperature=temperature))
        return replace(self, match=replace(self.match, chat=chat))


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """The games of a training step."""

    groups: list[TrajectoryGroup]
    """One for each learning seat, in the order of the setups. If a game failed, the group has fewer
    trajectories, and the reasons as its failures."""
    counts: RolloutCounts


@dataclass(frozen=True, slots=True)
class StepInPlay:
    """What the games of one step share while they are played."""

    step: int
    """Number of finished steps."""
    version: int
    """Step of the weights that play."""
    total: int
    """Number of games."""
    progress: Callable[[int, int], None]
    counts: RolloutCounts = field(default_factory=RolloutCounts)


class Rollouts:
    """Player of the games of training steps; several steps may be played at the same time."""

    def __init__(
        self,
        setting: RolloutSetting,
        llm: LLMService,
        score: Score,
        executor: Executor | None = None,
    ) -> None:
        """Prepare to play; `score` computes the reward of a learning seat.

        The caller opens and closes the executor; by default games are scored in this process.
        """
        self._setting = setting
        self._executor: Executor = executor or LocalExecutor(llm)
        self._score = score
        # One semaphore for all steps: it limits games, the service limits requests.
        self._slots = asyncio.Semaphore(setting.concurrency)

    async def play(
        self,
        setups: Sequence[GroupSetup],
        games: int,
        step: int,
        replay_folder: Callable[[int], Path | None] = lambda number: None,
        version: int | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> PlayedStep:
        """Play `games` games of each setup, after `step` finished steps.

        Args:
            setups: The deals and players.
            games: Games per setup.
            step: Number of finished steps.
            replay_folder: Returns the folder for the replay of the game with this number, or None.
            version: Step of the weights that play. Default: `step`.
            progress: Is called with the number of finished games of the step, and their total.

        Raises StopPlaying if no further game can be played.
        """
        version = step if version is None else version
        playing = StepInPlay(step, version, len(setups) * games, progress)

        async def rollout(number: int) -> dict[int, Trajectory] | GameFailed:
            setup, folder = setups[number // games], replay_folder(number)
            return await self._rollout(playing, setup, number, folder)

        # By number, not by completion: the order of the groups is the same in every run.
        results = [each async for each in run_jobs(range(playing.total), rollout, playing.total)]
        counts = playing.counts
        check_context(counts.replies, counts.context_overflow)
        groups = [
            _group(results[n * games : (n + 1) * games], seat)
            for n, setup in enumerate(setups)
            for seat in setup.learners
        ]
        return PlayedStep(groups, counts)

    async def _rollout(
        self, playing: StepInPlay, setup: GroupSetup, number: int, folder: Path | None
    ) -> dict[int, Trajectory] | GameFailed:
        """Play one game with retries; returns the trajectories of the learning seats."""
        counts = playing.counts
        for attempt in range(ATTEMPTS):
            # A slot for each attempt: a retry waits behind the games that have not started yet.
            async with self._slots:
                try:
                    # The name seeds the agents: a retry must not repeat the draws of the failed
                    # game.
                    name = f"{playing.step}/{number}/{attempt}"
                    scored = await self._game(playing, setup, name, folder)
                    break
                except RewardFailed as fault:
                    counts.failed += 1
                    counts.reward_faults.append(str(fault))
                    return fault
                except GameFailed as fault:
                    counts.failed += 1
                    counts.faults.append(str(fault))
                    if attempt == ATTEMPTS - 1:
                        # Returned, not raised: one failed game costs its group, not the step.
                        return fault
        trajectories = {seat: self._trajectory(playing, scored, seat) for seat in setup.learners}
        counts.games += 1
        playing.progress(counts.games, playing.total)
        return trajectories

    async def _game(
        self, playing: StepInPlay, setup: GroupSetup, name: str, folder: Path | None
    ) -> RewardedEpisode:
        """Play one game. Raises GameFailed on a timeout, or if a player got no answer."""
        setting = self._setting
        # All games of a group share the deal. The agents' own draws differ, so that games do.
        # 62 bits fit into a signed 64-bit integer.
        agents_seed = stream(setup.seed, f"rollout {name}").getrandbits(62)
        match = replace(setting.match, specs=setup.specs, seed=setup.seed, agents_seed=agents_seed)
        job = GameJob(
            f"rollout {name}",
            match,
            partial(score_seats, setup.learners, self._score),
            replay=ReplayFile(folder, f"game{name.replace('/', '-')}") if folder else None,
            timeout=setting.timeout,
            # With workers, rewards by exact posteriors leave the event loop to the other games.
            is_slow_to_measure=not isinstance(self._executor, LocalExecutor),
        )
        try:
            scored = (await run_job(job, self._executor)).value
        except TimeoutError:
            raise GameFailed(f"a game took longer than {setting.timeout:g} s") from None
        chat = match.chat or ChatOptions()
        for seat in setup.learners:
            # Importance ratios are relative to the weights that sampled: another step's would be
            # off-policy without any sign of it.
            if setting.fixed_weights:
                _check_policy_version(attempts_of(scored.episode, seat), playing.version)
            if chat.guided or chat.sampling.temperature != 1:
                _check_sampling_probabilities(attempts_of(scored.episode, seat))
        return scored

    def _trajectory(self, playing: StepInPlay, scored: RewardedEpisode, seat: int) -> Trajectory:
        episode, breakdown = scored.episode, scored.rewards[seat]
        playing.counts.add_game(episode, seat, episode.header.seed, breakdown)
        # Without a fixed version, answers of unknown weights stay unknown.
        version = playing.version if self._setting.fixed_weights else None
        trajectory = trajectory_of(episode, seat, version).with_judgements(breakdown.judgements)
        return replace(trajectory, reward=breakdown.reward, metrics=dict(breakdown.terms))


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


def _group(games: Sequence[dict[int, Trajectory] | GameFailed], seat: int) -> TrajectoryGroup:
    """Return the trajectories of one seat of a deal, and the reasons of failed games."""
    return TrajectoryGroup(
        tuple(game[seat] for game in games if not isinstance(game, GameFailed)),
        failures=tuple(str(game) for game in games if isinstance(game, GameFailed)),
    )


def training_chat(chat: ChatOptions) -> ChatOptions:
    """Return the options that training needs: token ids with log-probabilities, a growing chat."""
    return replace(chat, logprobs=True, chat="append")


DEALS_PER_RUN = 10_000_000
"""Consecutive seeds that belong to the runs of one --seed."""
FIRST_RUNS = 40
"""Number of --seed values whose deals have seeds below those of held-out deals."""
HIGH_SEEDS = 1_000_000_000
"""First deal of the other runs, above the seeds of held-out deals."""
PERIODIC, FINAL = 500_000_000, 600_000_000
"""First seeds of the held-out deals. Training deals have other seeds. The final evaluation has
deals of its own, so that the selection of the best checkpoint does not bias its result."""


def first_deal(seed: int) -> int:
    """Return the seed of the first deal of a run with this --seed."""
    # Seeds 0 … 399 999 999 for the first runs. Held-out deals start at 500 000 000 (PERIODIC) and
    # 600 000 000 (FINAL); all other runs lie above 999 999 999.
    if seed < FIRST_RUNS:
        return seed * DEALS_PER_RUN
    return HIGH_SEEDS + (seed - FIRST_RUNS) * DEALS_PER_RUN


NEWEST = "policy:newest"
"""The SPEC of the learner, and of opponents called `self`."""


def policy_spec(step: int) -> str:
    """Return the SPEC of a checkpoint. It is known within the run only."""
    return f"policy:{step}"


def policy(model: str, settings: Settings) -> NoReturn:
    """Refuse `policy:STEP` outside of a run: a run registers its own backends of this name."""
    raise UsageError(
        f"policy:{model} is a checkpoint that only its own `arena train` knows; to play it, "
        "name its folder: --seat 0=embedded:FOLDER"
    )


@dataclass(frozen=True, slots=True)
class OpponentMix:
    """Opponents and their weights: SPECs, `self` (newest weights), `past` (a checkpoint)."""

    names: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, game: Game) -> OpponentMix:
        """Parse `bot:novice=3,past=1`; the default weight is 1. Raises UsageError."""
        text = text or default_opponent(game)
        if not all(item.strip() for item in redacted(text).split(",")):
            raise UsageError(f"--opponents {redacted(text)!r}: write SPEC=WEIGHT between commas")
        try:
            items = split_weighted_specs(text)
        except ValueError as error:
            item = redacted(str(error))
            raise UsageError(f"--opponents {item!r}: write SPEC=WEIGHT, a weight > 0") from None
        return cls(tuple(spec for spec, _ in items), tuple(weight for _, weight in items))

    def draw(self, seats: int, pool: Sequence[int], rng: random.Random) -> list[str]:
        """Draw a SPEC for each of `seats` seats; `past` is a step of `pool`."""
        specs = []
        # Independent draws, so a table may hold an opponent twice.
        for name in rng.choices(self.names, self.weights, k=seats):
            if name == "past":
                specs.append(policy_spec(rng.choice(pool)))
            else:
                specs.append(NEWEST if name == "self" else name)
        return specs

    @property
    def specs(self) -> tuple[str, ...]:
        """The names that are SPECs."""
        return tuple(name for name in self.names if name not in ("self", "past"))


@dataclass(frozen=True, slots=True)
class GroupSetup:
    """The deal and the players that the games of a group share."""

    seed: int
    specs: tuple[str, ...]
    """SPECs by seat; the learner is NEWEST."""
    learners: tuple[int, ...]
    """The seats that are trained: one, or all in self-play."""


def schedule_step(
    config: TrainConfig, seats: int, mix: OpponentMix, pool: Sequence[int], step: int
) -> list[GroupSetup]:
    """Return the groups of the step after `step` finished ones.

    The result depends on the arguments only. `pool` holds the steps of the checkpoints that the
    opponent `past` is drawn from.
    """
    setups = []
    for k in range(config.groups_per_step):
        # Each group of the run has a deal of its own.
        seed = first_deal(config.seed) + step * config.groups_per_step + k
        if config.self_play:
            # In self-play each seat is a learner: one setup gives a group per seat.
            setups.append(GroupSetup(seed, (NEWEST,) * seats, tuple(range(seats))))
            continue
        rng = stream(seed, f"table of step {step}")
        seat = rng.randrange(seats)
        others = mix.draw(seats - 1, pool, rng)
        # `others` are the other seats in their order; the learner is inserted at its seat.
        setups.append(GroupSetup(seed, (*others[:seat], NEWEST, *others[seat:]), (seat,)))
    return setups
