"""Group Relative Policy Optimization over full games.

A step plays S deals, each G times with the learner in the same seat, scores every game, and trains
on the groups whose rewards differ: a game's advantage is its reward less the mean of its group.

Departures from Shao et al. 2024 (GRPO, arXiv 2402.03300), and what ART 0.5.18 does instead:

- An episode is a whole game with many answers; every sampled token of a game gets the game's
  advantage (outcome supervision). ART does the same.
- Tokens of a game share one weight, the inverse of their number; weights are normalised over the
  whole call, and each minibatch divides by its own number of tokens (ART: by that of a packed row).
  So within a minibatch each game weighs the same, whatever its length, but one in a minibatch of
  short games weighs more than one among long games. The paper averages over a sequence's tokens,
  then over the group.
- The loss is `cispo` by default (clipped importance weights times the log-likelihood, MiniMax-M1
  2025), ART's own; `ppo` is the paper's.
- Divergence from a reference policy is a penalty on the advantages (ART: c (mean k - k) per
  token), not the paper's separate k3 term; by default there is none.
- Advantages are divided by the group's population standard deviation + 1e-6 and then scaled so
  that |advantage| times weight has mean 1 over a step (ART).
- Groups without variance are dropped, not trained with zero gradient; groups with a game that
  could not be played are dropped whole: a mean over those that could be would be biased.
- Old log-probabilities are the sampler's, of the weights at the beginning of the step; a step
  makes `minibatches` optimizer steps, not several passes. They are those that tokens were drawn
  with: with another --temperature than 1 or with --guided, ratios correct for the difference to
  the model's own distribution, which is what is trained, up to their clip range.
- Importance ratios of sequences are averaged over each sequence that is computed as one; ART
  averages over a whole chat, also where it had to be told anew.
- The penalty's mean over tokens is a minibatch's; ART's is a packed row's.
- The baseline is the mean over the same deal and the same seat, so luck of the deal cancels.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from arena.core.errors import ArenaError, BackendError, UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.episodes.record import Episode
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.loader import make_game
from trainers.checks import checked
from trainers.config.config import TrainConfig
from trainers.deal_schedule import deals_of
from trainers.groups import choose, judge, shuffle_rewards, whole
from trainers.heldout_eval import FINAL, PERIODIC
from trainers.hosts.art import TrajectoryGroup
from trainers.hosts.host import TrainingHost
from trainers.opponents import NEWEST, policy_spec
from trainers.rewards import Rollout, Scored
from trainers.rollouts import Counts, Deal, Rollouts
from trainers.runs.health import Health
from trainers.runs.records import Evaluated, RunReport, RunState, StepRecord, TrainingView
from trainers.runs.run_log import RunLog, evenly, go_back, kept_steps, why
from trainers.runs.wandb_log import WandbLog
from trainers.setup import (
    from_scratch,
    held_out,
    make_base,
    make_host,
    table,
)
from trainers.step_metrics import Timer, collapse, numbers, row_of

TRIES = 4
"""Of an update that fails for a passing reason: the first, and three with exponential back-off."""
FIRST_WAIT = 1.0
"""Seconds before the second try; twice as many before each further one."""


async def train(
    config: TrainConfig,
    *,
    folder: Path,
    view: TrainingView,
    settings: Settings,
    report: RunReport | None = None,
) -> RunState:
    """Train, or go on training, in this folder; returns how the run stands.

    Raises UsageError for a wish that cannot be fulfilled, before anything is played, and ArenaError
    for what ends a run; finished steps are kept whatever happens.
    """
    return await Run.of(config, folder, view, settings, report).complete()


class Run:
    """One run, as it goes."""

    def __init__(
        self,
        config: TrainConfig,
        game: Game,
        host: TrainingHost,
        folder: Path,
        view: TrainingView,
        settings: Settings,
        report: RunReport | None = None,
    ) -> None:
        self.config = config
        self.game = game
        self.host = host
        self.view = view
        self.log = RunLog(folder)
        self.llm = LLMService(settings, say=view.say)
        found = checked(config, game, self.llm, self.log.state.step)
        self.mix, self.rewards, self.scorer = found.mix, found.rewards, found.scorer
        self.arguments = host.arguments()
        self.table = table(config, game)
        self.rollouts = Rollouts(self.table, self.llm, self._score, self._tell("rollouts"))
        self.health = Health(config, view.say, self.rollouts.ages, folder.parent)
        self._served: set[int] = set()
        """Steps that the service knows."""
        self._told_of_room = False
        self.wandb: WandbLog | None = None
        self._report = report

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        folder: Path,
        view: TrainingView,
        settings: Settings,
        report: RunReport | None = None,
    ) -> Run:
        """Everything that can be wrong with a config is found here, before anything starts."""
        game = make_game(config.game, **config.options)
        return cls(
            config, game, make_host(config, folder, settings), folder, view, settings, report
        )

    async def complete(self) -> RunState:
        """All that is left to do, from the last finished step to the report."""
        async with AsyncExitStack() as stack:
            try:
                await self.open(stack)
                while self.log.state.step < self.config.total_steps and not self.stopped:
                    await self.step()
                return await self.finish()
            except asyncio.CancelledError:  # Ctrl-C: the step under way is dropped.
                self.log.commit(self.log.state.model_copy(update={"status": "interrupted"}))
                raise
            except OSError as error:
                where = self.log.files.folder
                raise ArenaError(f"cannot write into {where}: {why(error)}") from error

    @property
    def stopped(self) -> str:
        """Why the run was stopped early; empty while it goes on."""
        return self.log.state.reason if self.log.state.status == "stopped" else ""

    async def open(self, stack: AsyncExitStack) -> None:
        """Load the weights, say where we are, and play the starting policy's evaluation."""
        config = self.config
        self.log.begin(config)
        if from_scratch(config):
            make_base(config, self.game, self.log.files.folder, self.view.say)
        stack.push_async_callback(self.host.close)
        stack.push_async_callback(self.llm.close)
        step = await self.host.open(self.log.state.step)
        go_back(Path(self.host.model._get_output_dir()), step)
        if step and not self.log.records:
            raise UsageError(
                f"the host knows a model of this name after {step} steps, and this run has not "
                "begun: choose another --model-name"
            )
        if step != self.log.state.step:
            self.view.say(f"the host has finished step {step} already; its figures are lost")
            self.log.commit(self.log.state.model_copy(update={"step": step}))
        self.llm.add(NEWEST, self.host.policy())
        # A run that was stopped goes on only if the limits of this command let it.
        reason = self._collapse(self.log.records[-1]) if self.log.state.reason else ""
        status = "stopped" if reason else "running"
        self.log.commit(self.log.state.model_copy(update={"status": status, "reason": reason}))
        self.view.begin(config, step, f"{self.host.name} host")
        for record in self.log.records:
            self.view.step(record)
        watching = asyncio.create_task(self.health.run())
        stack.callback(watching.cancel)
        if config.wandb:
            self.wandb = WandbLog.open(config, self.log.files.folder, self.llm.settings)
            stack.callback(self.wandb.close)
        if not self.log.records:
            await self._first_row()

    async def step(self) -> None:
        """One step: games, rewards, an update, a row; then it counts as finished."""
        timer, config, number = Timer(), self.config, self.log.state.step + 1
        with timer.measure("rollouts"):
            self._tell("rollouts")(0, config.groups_per_step * config.rollouts_per_group)
            groups = await self.rollouts.play(
                self._deals(), config.rollouts_per_group, number - 1, self._replay_folder
            )
        counts = self.rollouts.counts
        timer.move(counts.seconds_scoring, "rollouts", "rewards")
        self._tell_faults(counts)
        with timer.measure("rewards"):
            judged = whole(groups, config.rollouts_per_group)
            await self._rescore(judged)
            if self.scorer is not None:
                counts.add_judged(judged)
        chosen = choose(groups, config.rollouts_per_group)
        if not chosen.trained:
            self.view.say(f"step {number} changes nothing: {chosen}")
        with timer.measure("update"):
            self.view.phase("update")
            update = await self._update(chosen.trained)
        timer.move(update.pop("seconds_saving", 0.0), "update", "saving")
        with timer.measure("evaluation"):
            evaluation = await self._evaluate(number) if self._evaluates(number) else None
        with timer.measure("logging"):
            await self.host.model.log(
                chosen.trained or None, split="train", metrics=numbers(update), step=number
            )
        weights = self.rewards.weights if self.scorer is None else {"group_score": 1.0}
        row = row_of(config, number, counts, weights, update).model_copy(
            update={
                "groups": chosen.counted,
                "time": timer.spent,
                "seconds": timer.total,
                "evaluation": evaluation,
                "best": evaluation is not None and self._is_best(evaluation),
                "warnings": self.health.take_warnings(),
            }
        )
        self._finish_step(row)
        await self.host.keep(self._kept())

    async def finish(self) -> RunState:
        """The last evaluation, on deals of its own: the newest checkpoint and the best one."""
        state, games = self.log.state, self.config.final_eval_games
        final = {name: one for name, one in state.final.items() if games in (0, one.games)}
        wanted = {"newest": state.step}
        if state.best_step is not None:  # Else none was better than the starting policy.
            wanted["best"] = state.best_step
        for name, step in wanted.items():
            if games and step and name not in final:
                if name == "best" and step == state.step and "newest" in final:
                    final[name] = final["newest"]
                    continue
                folder = "after" if name == "newest" else "best"
                final[name] = await self._evaluate(step, FINAL, "last evaluation", folder)
        status = "stopped" if self.stopped else "finished"
        self.log.commit(state.model_copy(update={"final": final, "status": status}))
        if self._report is not None:
            self._report(self.config, self.log.records, self.log.state, self.log.files.report)
        return self.log.state

    # The parts of a step

    def _deals(self) -> list[Deal]:
        """The deals of the next step; the checkpoints that sit at their tables are served."""
        step, pool = self.log.state.step, sorted({0, *self._pool()})
        deals = deals_of(self.config, self.game.num_players, self.mix, pool, step)
        for spec in {spec for deal in deals for spec in deal.specs} - {NEWEST}:
            if spec.startswith("policy:"):
                self._known(int(spec.partition(":")[2]))
        return deals

    def _score(self, episode: Episode, seat: int) -> Scored:
        return self.rewards.score(Rollout(self.game, episode, seat))

    def _tell_faults(self, counts: Counts) -> None:
        """Report what made games fail, the most frequent reasons first."""
        for reason, times in Counter(counts.faults).most_common(3):
            self.view.say(f"{times} of {counts.failed} failed games: {reason}")
        if counts.overflowed and not self._told_of_room:
            self._told_of_room = True
            self.view.say(
                f"{counts.overflowed} of {counts.decisions} decisions had a chat that is too long "
                "for the model, and count as illegal: --max-context-tokens, --text-level or "
                "--prompt brief may help"
            )

    async def _rescore(self, groups: Sequence[TrajectoryGroup]) -> None:
        """Let a judge see whole groups; deal rewards out at random for the control."""
        if self.scorer is not None:
            self.view.phase("judging")
            await judge(self.scorer, groups, self.config.group_scorer)
        if self.config.shuffle_rewards:
            shuffle_rewards(groups, self.config.seed, self.log.state.step + 1)

    async def _update(self, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        """The host's update; a failure that may pass is tried again, three times."""
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(TRIES),
                wait=wait_exponential(multiplier=FIRST_WAIT, max=30),
                retry=retry_if_exception(_may_pass),
                reraise=True,
            ):
                with attempt:
                    result = await self.host.backend.train(
                        self.host.model, list(groups), **self._arguments()
                    )
        except (ConnectionError, TimeoutError) as error:
            told = str(error) or type(error).__name__
            raise ArenaError(f"the update failed {TRIES} times, the last time by: {told}") from None
        return dict(result.metrics)

    def _arguments(self) -> dict[str, Any]:
        """Of the next update: the learning rate may change, and the KL penalty's reference."""
        config, step = self.config, self.log.state.step
        changed: dict[str, Any] = {}
        if config.learning_rate_end is not None:
            changed["learning_rate"] = config.learning_rate_at(step)
        if config.kl_coef and config.kl_reference_every:
            changed["kl_penalty_reference_step"] = config.reference_step(step)
        return self.arguments | changed

    def _finish_step(self, record: StepRecord) -> None:
        state: dict[str, object] = {"step": record.step, "final": {}}
        if record.best and record.evaluation:
            state |= {"best_step": record.step, "best_value": record.evaluation.gain.value}
        self.log.append(record)
        reason = self._collapse(record)
        if reason:
            state |= {"status": "stopped", "reason": reason}
            self.view.say(f"stopped: {reason}")
        self.log.commit(self.log.state.model_copy(update=state))
        self.view.step(record)
        if self.wandb is not None:
            self.wandb.log(record)

    def _collapse(self, record: StepRecord) -> str:
        return collapse(self.config, record, self.log.records)

    # Evaluation and checkpoints

    async def _first_row(self) -> None:
        """Row 0: how the starting policy plays the held-out deals."""
        evaluation = None
        if self.config.eval_every:
            evaluation = await self._evaluate(0, about="evaluation of the starting policy")
        record = StepRecord(step=0, config_hash=self.config.config_hash, evaluation=evaluation)
        self.log.append(record)
        self.view.step(record)

    def _evaluates(self, number: int) -> bool:
        every = self.config.eval_every
        return bool(every) and (number % every == 0 or number == self.config.total_steps)

    def _is_best(self, evaluation: Evaluated) -> bool:
        """Whether it is better than the starting policy, and than every checkpoint before."""
        value = evaluation.gain.value
        return value is not None and value > (self.log.state.best_value or 0.0)

    async def _evaluate(
        self, step: int, first_seed: int = PERIODIC, about: str = "evaluation", replays: str = ""
    ) -> Evaluated:
        """How the checkpoint of a step plays deals that were never trained on."""
        deals = held_out(self.config, self.table, self.log.files.folder, first_seed)
        return await deals.evaluate(step, self._known(step), self._tell(about), replays)

    def _known(self, step: int) -> LLMService:
        """The service, which from now on knows this checkpoint and the starting policy."""
        for one in {step, 0} - self._served:
            self.llm.add(policy_spec(one), self.host.policy(one))
            self._served.add(one)
        return self.llm

    def _pool(self) -> list[int]:
        """The earlier checkpoints that `past` draws from."""
        return evenly(range(self.log.state.step + 1), self.config.keep_pool)

    def _kept(self) -> set[int]:
        steps = range(self.log.state.step + 1)
        reference = self.config.reference_step(self.log.state.step)
        return kept_steps(self.log.state, self.config.keep_pool, steps, reference)

    def _replay_folder(self, game: int) -> Path | None:
        """Where the replay of this game of the step goes, if it is in the sample."""
        step = self.log.state.step + 1
        drawn = stream(self.config.seed, f"replay {step}/{game}").random()
        if drawn >= self.config.log_sample_rate:
            return None
        return self.log.files.replays / f"step{step:04}"

    def _tell(self, phase: str) -> Any:
        return lambda done, total: self.view.phase(phase, done, total)


def _may_pass(error: BaseException) -> bool:
    """Whether an update that failed so may be tried again: nothing was trained then."""
    return isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, BackendError) and error.retryable
    )
