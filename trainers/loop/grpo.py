"""Group Relative Policy Optimization (GRPO) over full games.

A step plays S deals, each G times with the learner in the same seat, scores every game, gives each
turn an advantage (`trainers.credit`) and trains on them. The advantage of a game is its reward
minus the group's mean, so the luck of the deal cancels:

    A_i = r_i - mean(r_1 … r_G)

Differences from Shao et al. 2024 (GRPO, arXiv 2402.03300), and what ART 0.5.18 does:

- An episode is a whole game with many answers. With `game` credit every sampled token of a game has
  the game's advantage (outcome supervision), as in ART; with other credit a turn has its own.
- Each token has the same weight, and the divisor is the same for all minibatches of a step, so the
  length of a game does not change what is learned (Liu et al. 2025, arXiv 2503.20783). The paper
  averages over the tokens of a sequence; ART gives the tokens of a game the inverse of their
  number.
- The default loss is `cispo` (clipped importance weights times the log-likelihood, MiniMax-M1
  2025), ART's own; `ppo` is the paper's.
- Advantages are not divided by the group's standard deviation, nor scaled over a step as ART does:
  coefficients of penalties are in units of the reward.
- Divergence from a reference policy is a penalty on the advantages: c (mean k - k), with k that of
  the whole answer (ART: of the token), not the paper's separate k3 term. The default is no penalty.
- Groups without any advantage are dropped, unless a penalty has a gradient there. Groups with a
  failed game are dropped completely: a mean over the other games would be biased.
- Old log-probabilities are those of the sampler, with the weights at the start of the step, or with
  sync_every those of an earlier one. A step makes `minibatches` optimizer
  steps, not several passes. The old log-probabilities are those that tokens were sampled with: with
  a --temperature other than 1 or with --guided, the importance ratios correct for the difference to
  the model's own distribution, which is the one that is trained, up to their clip range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from arena.core.errors import StopPlaying
from arena.episodes.job import make_executor
from arena.evaluation.document import Document
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game
from trainers.config.config import TrainConfig
from trainers.credit import complete_groups, select_groups
from trainers.hosts.embedded import games_at_once, reply_tokens
from trainers.hosts.host import TrainingHost
from trainers.loop.checkpoints import Checkpoints, StepGames
from trainers.loop.setup import make_base, make_host, parse_config, rollout_setting
from trainers.loop.training import Session, Timer, TrainingView, staleness_metrics, step_record
from trainers.rollouts.rollouts import NEWEST, Rollouts
from trainers.rollouts.trajectories import RolloutCounts
from trainers.runs.document import document
from trainers.runs.records import RunState, StepRecord
from trainers.runs.training_run import TrainingRun
from trainers.runs.wandb_log import WandbLog

ReportWriter = Callable[[Document, Path], None]
"""Write a run's report to a path."""


async def train(
    config: TrainConfig,
    *,
    folder: Path,
    view: TrainingView,
    settings: Settings,
    report: ReportWriter | None = None,
) -> RunState:
    """Start or resume the training in a folder; returns the final state.

    Raises:
        UsageError: The config is not valid. Nothing has been played then.
        ArenaError: The run cannot continue. Finished steps are on disk.
    """
    host = make_host(config, folder, settings)
    return await GRPO(config, host, folder, view, settings, report).complete()


class GRPO:
    """A run that trains on games that it plays with its own weights."""

    def __init__(
        self,
        config: TrainConfig,
        host: TrainingHost,
        folder: Path,
        view: TrainingView,
        settings: Settings,
        report: ReportWriter | None = None,
    ) -> None:
        """Prepare the run. Everything that may be wrong with the config fails here."""
        self.config = config
        self.host = host
        self.view = view
        self.session = Session(config, host, folder, view, f"{host.name} host")
        self.log = self.session.log
        self.llm = LLMService(settings, config.limits, notify=view.notify)
        self.game = game = make_game(config.game, **config.options)
        parsed = parse_config(config, game, self.llm)
        self.rewards, self.credit = parsed.rewards, parsed.credit
        chats = game.num_players if config.self_play else 1
        fitted = config.model_copy(update={"max_tokens": reply_tokens(config)})
        setting = rollout_setting(fitted, game, self.rewards)
        setting = replace(setting, concurrency=games_at_once(config, chats))
        self.executor = make_executor(config.executor, config.workers or None, self.llm)
        rollouts = Rollouts(setting, self.llm, self.rewards.score_seat, self.executor)
        self.checkpoints = Checkpoints(config, setting, host, self.llm, self.log, view)
        self.games = StepGames(config, parsed.mix, rollouts, self.checkpoints, view)
        self._report = report
        self._warned_of_overflow = False
        self._spent = 0.0
        """US dollars of this session that run.json holds."""

    async def complete(self) -> RunState:
        """Do everything from the last finished step to the report; see `train`."""
        session = self.session
        async with session.opened() as stack:
            wandb = await self._open(stack)
            if not self.log.records:
                session.record(record := await self._starting_record())
                self.view.step(record)
            for number in session.steps():
                record = await self.step(number)
                # From here on the step is finished. Old checkpoints are deleted last: a crash
                # before this point needs them, and a crash after it only leaves some.
                session.record(record)
                if wandb is not None:
                    wandb.log(record)
                self.view.step(record)
                await self.host.keep(self.checkpoints.kept())
            final = await self.checkpoints.evaluate_final()
            exact = await self.checkpoints.exploitability()
            state = session.finish(final=final, exploitability=exact)
            if self._report is not None:
                run = TrainingRun(self.log.files, self.config, state, self.log.records)
                self._report(document(run), self.log.files.report)
            return state

    async def step(self, number: int) -> StepRecord:
        """Do one step: deals, games, rewards, credit, update and transfer, evaluation."""
        config, timer = self.config, Timer()
        with timer.measure("rollouts"):
            self.view.phase("rollouts", 0, config.groups_per_step * config.rollouts_per_group)
            played = await self.games.play(number)
        counts = played.counts
        self._show_faults(counts)
        if not counts.games:
            # No later step would be better, and nothing is learned.
            fault = [*counts.faults, *counts.reward_faults][0]
            raise StopPlaying(f"no game of step {number} could be finished: {fault}")
        complete = complete_groups(played.groups, config.rollouts_per_group)
        credited = self.credit.assign(complete)
        is_penalised = bool(config.kl_coef or config.entropy_coef)
        selected = select_groups(played.groups, credited, is_penalised)
        if not selected.trained:
            self.view.notify(
                f"step {number} does not change the weights: no group has an advantage"
            )
        with timer.measure("update"):
            self.view.phase("update")
            reference = config.reference_step(number - 1)
            # The host also transfers the new weights to what answers the next games.
            update = await self.host.train(selected.trained, reference)
            update |= staleness_metrics(config, number)
        with timer.measure("evaluation"):
            due = config.is_evaluated(number)
            evaluation = await self.checkpoints.evaluate(number) if due else None
        return step_record(config, number, counts, self.rewards.weights, update).model_copy(
            update={
                "groups": selected.counts,
                "evaluation": evaluation,
                "best": evaluation is not None and self.checkpoints.is_best(evaluation),
                "warnings": tuple(counts.reward_warnings()),
                "cost": self._spend(),
                "time": timer.seconds,
                "seconds": timer.total,
            }
        )

    async def _open(self, stack: AsyncExitStack) -> WandbLog | None:
        """Make the base model, load the weights, and open what plays and the log of --wandb."""
        folder = self.log.files.folder
        make_base(self.config, self.game, folder, self.view.notify, self._show_base)
        stack.push_async_callback(self.llm.close)
        self.llm.add_spent(self.log.state.spent)
        # Also of a step that does not end.
        stack.callback(self._spend)
        await self.session.load_weights()
        await stack.enter_async_context(self.executor)
        self.llm.add(NEWEST, self.host.policy(), is_trained=True)
        if not self.config.wandb:
            return None
        log = WandbLog(self.config, folder, self.llm.settings, self.view.notify)
        stack.callback(log.close)
        return log

    async def _starting_record(self) -> StepRecord:
        """Evaluate the starting policy on the held-out deals; returns record 0."""
        evaluation = None
        if self.config.is_evaluated(0):
            evaluation = await self.checkpoints.evaluate(0, "evaluation of the starting policy")
        return StepRecord(
            step=0,
            config_hash=self.config.config_hash,
            evaluation=evaluation,
            cost=self._spend(),
        )

    def _show_base(self, part: str, done: int, total: int) -> None:
        """Show the progress of the base model, in run.json at each percent."""
        self.view.phase(f"model: {part}", done, total)
        if 100 * done // total > 100 * (done - 1) // total:
            phase = f"making the base model ({part}: {done} of {total})"
            self.log.change(phase=phase)

    def _spend(self) -> float:
        """Add to run.json what models have cost since the last call, and return it in dollars."""
        total = self.llm.ledger.total().cost
        cost, self._spent = total - self._spent, total
        if cost:
            self.log.change(spent=self.log.state.spent + cost)
        return cost

    def _show_faults(self, counts: RolloutCounts) -> None:
        """Report the most frequent reasons of failed games, and once the context overflow."""
        for reason, times in Counter(counts.faults).most_common(3):
            self.view.notify(f"{times} of {counts.failed} failed games: {reason}")
        if counts.context_overflow and not self._warned_of_overflow:
            self._warned_of_overflow = True
            self.view.notify(
                f"in {counts.context_overflow} of {counts.decisions} decisions the chat was too "
                "long for the model; they count as illegal: max_context_tokens, --text-level or "
                "--prompt brief may help"
            )
