"""The games of a run: those of its steps, and held-out ones of its checkpoints beside the start."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, TypeAdapter

from arena.core.errors import ArenaError, UsageError
from arena.core.event import WIN_RATE
from arena.core.game import Game
from arena.core.spec import Spec, stream
from arena.episodes.files import ReplayFile, write_whole
from arena.episodes.job import LOOKAHEAD, GameJob, LocalExecutor, run_job, run_jobs
from arena.episodes.record import Episode
from arena.evaluation.records import Interval, Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.evaluation.statistics import clustered_mean, rate
from arena.llm.service import LLMService
from trainers.config.config import TrainConfig
from trainers.hosts.host import TrainingHost
from trainers.loop.setup import evaluation_opponents
from trainers.loop.training import MIXTURE_POOL, RunLog, TrainingView, kept_steps, pool_steps
from trainers.rollouts.rollouts import (
    FINAL,
    NEWEST,
    PERIODIC,
    GroupSetup,
    OpponentMix,
    PlayedStep,
    Rollouts,
    RolloutSetting,
    policy_spec,
    schedule_step,
)
from trainers.rollouts.trajectories import check_context, decision_statuses
from trainers.runs.records import HeldOutResult

REPLAYED_SHARE = 0.05
"""Share of the rollouts whose replays are saved."""
RECORDED_GAMES = 5
"""Games of the final evaluation whose replays are saved, per checkpoint."""

Progress = Callable[[int, int], None]
"""Receives the number of finished games and their total."""


@dataclass(frozen=True, slots=True)
class HeldOutEvaluation:
    """A set of held-out deals and the folder with the starting policy's results."""

    setting: RolloutSetting
    against: Sequence[str]
    games: int
    first_seed: int
    folder: Path

    async def evaluate(
        self,
        step: int,
        llm: LLMService,
        progress: Progress = lambda done, total: None,
        replays: str = "",
    ) -> HeldOutResult:
        """Play the deals with the checkpoint of this step.

        The starting policy plays them once; its results are stored. With X_i, Y_i the returns of
        checkpoint and starting policy on deal i, the delta is the mean of X_i - Y_i, and its
        interval is that of paired differences. The same for wins, which are 0 or 1.

        Replays of some games are written to this folder in `replays`, unless its name is empty.
        Raises ArenaError if too many requests were not answered.
        """
        start = await self._starting_results(llm, progress)
        # Step 0 is the starting policy itself: its delta is 0 on every deal.
        ended = start if step == 0 else await self._play(step, llm, progress, replays)
        won, start_won = ([end.won for end in each] for each in (ended, start))
        result = HeldOutResult(
            games=self.games,
            win_rate=Interval.of(rate(sum(won), self.games)),
            start=Interval.of(rate(sum(start_won), self.games)),
            win_rate_delta=self._mean(
                np.subtract(won, start_won, dtype=float), WIN_RATE.difference
            ),
        )
        scale = self.setting.match.game.return_scale
        if scale.is_win_rate:
            return result
        returns, start_returns = (np.array([e.returns for e in ends]) for ends in (ended, start))
        return result.model_copy(
            update={
                "scale": scale,
                "mean_return": self._mean(returns, scale.bounds),
                "start_return": self._mean(start_returns, scale.bounds),
                "return_delta": self._mean(returns - start_returns, scale.difference),
            }
        )

    def _mean(self, values: NDArray[np.float64], bounds: tuple[float, float]) -> Interval:
        # One game per deal, so each game is a cluster of its own. Pairing removes the luck of the
        # deal from the variance: both policies have the same cards in the same seat.
        return Interval.of(clustered_mean(values, np.arange(self.games), bounds=bounds))

    async def _starting_results(self, llm: LLMService, progress: Progress) -> list[SeatEnd]:
        """Return the results of the starting policy, from its file if that exists."""
        path = self.folder / f"start-{self.first_seed}-{self.games}.json"
        try:
            # The name of the file holds what decides the deals. A broken file is played again.
            ends = SEAT_ENDS.validate_json(path.read_bytes(), strict=True)
            if len(ends) == self.games:
                return ends
        except (FileNotFoundError, ValueError):
            pass
        replays = "before" if self.first_seed == FINAL else ""
        results = await self._play(0, llm, progress, replays)
        write_whole(path, json.dumps(results) + "\n")
        return results

    async def _play(
        self, step: int, llm: LLMService, progress: Progress, replays: str
    ) -> list[SeatEnd]:
        """Play all deals; returns the checkpoint's results in the order of the deals."""
        num_players = self.setting.match.game.num_players
        slots = list(
            evaluation_schedule(
                num_players,
                policy_spec(step),
                self.against,
                None,
                self.games,
                self.first_seed,
                rule="consecutive",
            )
        )
        folder = self.folder / "replays" / replays if replays else None
        jobs = [self._job(slot, folder if slot.number < RECORDED_GAMES else None) for slot in slots]
        games: list[HeldOutGame] = []
        concurrency = self.setting.concurrency
        free = asyncio.Semaphore(concurrency)
        async with LocalExecutor(llm) as executor:
            run = partial(run_job, executor=executor)
            async with aclosing(run_jobs(jobs, run, LOOKAHEAD * concurrency, free)) as playing:
                async for finished in playing:
                    games.append(finished.value)
                    progress(len(games), len(slots))
        _check_answers(games)
        return [game.end for game in games]

    def _job(self, slot: Slot, replays: Path | None) -> GameJob[HeldOutGame]:
        return GameJob(
            f"held-out game {slot.number} (seed {slot.seed})",
            replace(self.setting.match, specs=slot.specs, seed=slot.seed),
            partial(HeldOutGame.of, slot),
            replay=ReplayFile(replays, f"game{slot.number:06}") if replays else None,
        )


class SeatEnd(NamedTuple):
    """Result of the seat under test; a list of two in JSON."""

    won: bool
    returns: FiniteFloat


SEAT_ENDS = TypeAdapter(list[SeatEnd])


@dataclass(frozen=True, slots=True)
class HeldOutGame:
    """Result of one game of an evaluation."""

    end: SeatEnd
    unanswered: bool
    """True if a seat had to move without its provider's answer."""
    decisions: int
    """Decisions for which the model under test was asked."""
    context_overflow: int
    """Number of these whose chat exceeded the model's context."""

    @classmethod
    def of(cls, slot: Slot, _: Game, episode: Episode) -> HeldOutGame:
        """Summarise the episode of a slot: the measurement of its job."""
        seat, seats = slot.seat, range(len(episode.header.players))
        assert seat is not None, "an evaluation has one seat under test"
        tested = list(decision_statuses(episode, seat))
        return cls(
            SeatEnd(episode.outcome.is_winner(seat), episode.outcome.returns[seat]),
            # Of any seat: an opponent that does not answer changes the result as well.
            any(status.unanswered for each in seats for status in decision_statuses(episode, each)),
            len(tested),
            sum(status.context_overflow for status in tested),
        )


def _check_answers(games: Sequence[HeldOutGame]) -> None:
    """Raise ArenaError if too many requests got no answer: the numbers would be meaningless.

    A chat that exceeds the context counts as bad play, since it is the model's own fault.
    """
    # An error only if no decision at all had a prompt that fits.
    check_context(
        sum(game.decisions for game in games), sum(game.context_overflow for game in games)
    )
    failed = sum(game.unanswered for game in games)
    if failed * 20 > len(games):  # More than 5 %.
        raise ArenaError(
            f"in {failed} of {len(games)} held-out games a player had to move without its "
            "provider's answer; check whether the server is running"
        )


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a run after its last finished step."""

    config: TrainConfig
    setting: RolloutSetting
    host: TrainingHost
    llm: LLMService
    log: RunLog
    view: TrainingView
    _served: set[int] = field(default_factory=set)
    """Steps whose checkpoints are registered as backends."""

    def serve(self, step: int) -> None:
        """Register the checkpoint of a step and the starting policy as backends."""
        # Step 0 too: each held-out evaluation compares with it.
        for one in {step, 0} - self._served:
            self.llm.add(policy_spec(one), self.host.policy(one), is_trained=True)
            self._served.add(one)

    def kept(self) -> set[int]:
        """Return the steps whose checkpoints are still needed."""
        newest = self.log.state.step
        # The KL reference of the next update must still exist then.
        reference = self.config.reference_step(newest)
        # So must the weights that play until the next transfer to the server.
        playing = self.config.sampling_step(newest)
        mixture = pool_steps(newest, MIXTURE_POOL) if self.config.keeps_mixture else ()
        return kept_steps(self.log.state, reference, playing, *mixture)

    def is_best(self, evaluation: HeldOutResult) -> bool:
        """Return whether it is better than the starting policy and all earlier checkpoints."""
        value = evaluation.delta.value
        # The starting policy has the delta 0, which the first checkpoint must exceed. Equal is not
        # better: the earlier checkpoint stays.
        return value is not None and value > (self.log.state.best_value or 0.0)

    async def evaluate(
        self,
        step: int,
        about: str = "evaluation",
        first_seed: int = PERIODIC,
        replays: str = "",
    ) -> HeldOutResult:
        """Play the held-out deals from `first_seed` (PERIODIC, FINAL) with a step's checkpoint."""
        deals = HeldOutEvaluation(
            self.setting.at_temperature(self.config.eval_temperature),
            evaluation_opponents(self.config, self.setting.match.game),
            self.config.final_eval_games if first_seed == FINAL else self.config.eval_games,
            first_seed,
            self.log.files.folder,
        )
        self.serve(step)
        return await deals.evaluate(step, self.llm, partial(self.view.phase, about), replays)

    async def evaluate_final(self) -> dict[str, HeldOutResult]:
        """Return the results of the newest and the best checkpoint on the final deals."""
        state, games = self.log.state, self.config.final_eval_games
        # A resumed run keeps results with the same number of games; 0 games keeps all of them.
        final = {name: one for name, one in state.final.items() if games in (0, one.games)}
        # `newest` comes first, so that an equal `best` can take over its result. `best_step` is
        # None if no checkpoint was better than the start.
        for name, step, replays in (
            ("newest", state.step, "after"),
            ("best", state.best_step, "best"),
        ):
            if not games or not step or name in final:
                continue
            if name == "best" and step == state.step and "newest" in final:
                final[name] = final["newest"]
            else:
                final[name] = await self.evaluate(step, "last evaluation", FINAL, replays)
        return final

    async def exploitability(self) -> dict[str, float]:
        """Return the exact exploitability of the start, the newest weights and the mixture.

        Empty without a mixture, and in a game whose tree is too large.
        """
        start, step = self.host.checkpoint(0), self.log.state.step
        if not self.config.keeps_mixture or not step or start is None:
            return {}
        from trainers.exploitability import run_exploitability

        self.view.phase("exploitability")
        # A crash may have left checkpoints that would play in the mixture.
        await self.host.keep(self.kept())
        match, kept = self.setting.match, self.log.files.checkpoints
        try:
            # In a thread: the event loop must not stand still meanwhile.
            return await asyncio.to_thread(run_exploitability, match, start, kept, step)
        except UsageError as error:
            self.view.notify(f"the exploitability is not computed: {error}")
            return {}


@dataclass(frozen=True, slots=True)
class StepGames:
    """The games that a run plays, step by step."""

    config: TrainConfig
    mix: OpponentMix
    rollouts: Rollouts
    checkpoints: Checkpoints
    view: TrainingView

    async def play(self, number: int) -> PlayedStep:
        """Play the games of a step. Raises StopPlaying if no game can be played."""
        return await self.rollouts.play(
            self._deal(number),
            self.config.rollouts_per_group,
            number - 1,
            partial(self._replay_folder, number),
            # Trajectories carry the version of the weights that play.
            self.config.sampling_step(number - 1),
            partial(self.view.phase, "rollouts"),
        )

    def _deal(self, number: int) -> list[GroupSetup]:
        """Return the groups of a step and register the checkpoints that play in them."""
        finished = number - 1
        seats = self.checkpoints.setting.match.game.num_players
        setups = schedule_step(self.config, seats, self.mix, pool_steps(finished), finished)
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
