"""Games of the steps of a run, which with --async-steps are played ahead."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.spec import Spec
from trainers.config.config import TrainConfig
from trainers.loop.checkpoints import Checkpoints
from trainers.loop.training import TrainingView, pool_steps
from trainers.rollouts.rollouts import (
    NEWEST,
    GroupSetup,
    OpponentMix,
    PlayedStep,
    Rollouts,
    policy_spec,
    schedule_step,
)

REPLAYED_SHARE = 0.05
"""Share of the rollouts whose replays are saved."""


class StepGames:
    """The games that a run plays, step by step."""

    def __init__(
        self,
        config: TrainConfig,
        game: Game,
        mix: OpponentMix,
        rollouts: Rollouts,
        checkpoints: Checkpoints,
        view: TrainingView,
    ) -> None:
        self.config = config
        self.game = game
        self.mix = mix
        self.rollouts = rollouts
        self.checkpoints = checkpoints
        self.view = view
        self._games: dict[int, asyncio.Future[PlayedStep]] = {}
        """Games of steps that are not finished, by the number of the step."""
        self._awaited = 0
        """Number of the step whose games are waited for; 0: none."""

    async def of(self, step: int) -> PlayedStep:
        """Return the games of a step; all steps before it must be finished.

        With --async-steps K the games of a step are played with the weights that are K steps older
        than the ones that they update (K = 1: Noukhovitch et al. 2024, arXiv:2410.18252). So they
        start as soon as those weights exist. The loss corrects for it: its ratios divide by the
        probabilities with which the tokens were sampled.

        Which weights play a game depends on its step only, never on the time at which games end. So
        every game that is started is trained, however long it takes, and a run has the same result
        at any speed and after any interruption. Raises StopPlaying if no game can be played.
        """
        # The weights that play in step + async_steps exist since step - 1 is finished.
        last = min(step + self.config.async_steps, self.config.total_steps)
        for number in range(step, last + 1):
            if number not in self._games:
                self._games[number] = asyncio.ensure_future(self._play(number))
        self._awaited = step
        try:
            return await self._games.pop(step)
        finally:
            self._awaited = 0

    async def cancel(self) -> None:
        """Cancel the games that are still played."""
        for games in self._games.values():
            games.cancel()
        # Their errors belong to steps that are not reached.
        await asyncio.gather(*self._games.values(), return_exceptions=True)
        self._games.clear()

    async def _play(self, number: int) -> PlayedStep:
        return await self.rollouts.play(
            self._deal(number),
            self.config.rollouts_per_group,
            number - 1,
            partial(self._replay_folder, number),
            # Trajectories carry the version of the weights that play.
            self.config.sampling_step(number - 1),
            partial(self._show_games, number),
        )

    def _deal(self, number: int) -> list[GroupSetup]:
        """Return the groups of a step and register the checkpoints that play in them."""
        config, finished = self.config, number - 1
        pool = pool_steps(config.known_step(finished))
        setups = schedule_step(config, self.game.num_players, self.mix, pool, finished)
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
        if drawn >= REPLAYED_SHARE:
            return None
        return self.checkpoints.log.files.replays / f"step{number:04}"

    def _show_games(self, number: int, done: int, total: int) -> None:
        # The games of later steps go on unseen.
        if number == self._awaited:
            self.view.phase("rollouts", done, total)
