"""The games of a run's steps: their tables, the checkpoints that play in them, their replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from arena.core.seeds import stream
from arena.core.spec import Spec
from trainers.checkpoints import Checkpoints
from trainers.config.config import TrainConfig
from trainers.deal_schedule import schedule_step
from trainers.opponents import NEWEST, OpponentMix, policy_spec
from trainers.rollouts.rollouts import GroupSetup, PlayedStep, Rollouts


@dataclass(frozen=True, slots=True)
class StepGames:
    """Plays the games of any step of a run."""

    config: TrainConfig
    seats: int
    mix: OpponentMix
    rollouts: Rollouts
    checkpoints: Checkpoints
    replays: Path
    """Folder of the run's replays."""
    progress: Callable[[int, int, int], None]
    """Is called with the number of the step, of its finished games, and of all its games."""

    async def play(self, number: int) -> PlayedStep:
        """Play the games of the step with this number. Raises StopPlaying."""
        return await self.rollouts.play(
            self._setups(number),
            self.config.rollouts_per_group,
            number - 1,
            partial(self._replay_folder, number),
            # Trajectories carry the version of the weights that play.
            self.config.sampling_step(number - 1),
            partial(self.progress, number),
        )

    def _setups(self, number: int) -> list[GroupSetup]:
        """Return the groups of a step and register the checkpoints that play in them."""
        config, finished = self.config, number - 1
        pool = self.checkpoints.pool(config.known_step(finished))
        setups = schedule_step(config, self.seats, self.mix, pool, finished)
        if config.async_steps:
            # Several versions play at the same time, so the learner is named by its version.
            playing = policy_spec(config.sampling_step(finished))
            setups = [setup.with_learner(playing) for setup in setups]
        for text in {text for setup in setups for text in setup.specs} - {NEWEST}:
            spec = Spec.parse(text)
            if spec.prefix == "policy":
                self.checkpoints.serve(int(spec.rest))
        return setups

    def _replay_folder(self, number: int, game: int) -> Path | None:
        """Return the folder for the replay of this game; None if it is not in the sample."""
        # A stream for each game: the sample does not depend on the order of completion.
        drawn = stream(self.config.seed, f"replay {number}/{game}").random()
        if drawn >= self.config.log_sample_rate:
            return None
        return self.replays / f"step{number:04}"
