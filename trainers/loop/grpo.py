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
  sync_every and --async-steps those of an earlier one. A step makes `minibatches` optimizer
  steps, not several passes. The old log-probabilities are those that tokens were sampled with: with
  a --temperature other than 1 or with --guided, the importance ratios correct for the difference to
  the model's own distribution, which is the one that is trained, up to their clip range.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from contextlib import AsyncExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

from arena.core.errors import StopPlaying
from arena.core.seeds import stream
from arena.core.spec import Spec
from arena.episodes.executors import make_executor
from arena.llm.ledger import Ledger
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.credit import complete_groups, select_groups
from trainers.hosts.host import TrainingHost
from trainers.hosts.selection import games_at_once
from trainers.loop.checkpoints import Checkpoints
from trainers.loop.metrics import Health, RolloutCounts, Timer, staleness_metrics, step_record
from trainers.loop.setup import make_base, make_host, parse_config, rollout_setting
from trainers.loop.training import (
    ReportWriter,
    RunLog,
    TrainingLoop,
    TrainingView,
    pool_steps,
    update_weights,
)
from trainers.rollouts.rollouts import (
    NEWEST,
    GroupSetup,
    PlayedStep,
    Rollouts,
    policy_spec,
    schedule_step,
)
from trainers.runs.records import RunState, StepRecord
from trainers.runs.trackers import TrackedRun, Trackers

REPLAYED_SHARE = 0.05
"""Share of the rollouts whose replays are saved."""


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
    return await grpo_loop(config, host, folder, view, settings, report).complete()


def grpo_loop(
    config: TrainConfig,
    host: TrainingHost,
    folder: Path,
    view: TrainingView,
    settings: Settings,
    report: ReportWriter | None = None,
) -> TrainingLoop:
    """Return the loop over games that the run plays itself. Raises UsageError as `train` does."""
    log = RunLog(folder)
    games = OwnGames(config, host, log, view, settings)
    return TrainingLoop(config, host, games, log, view, report)


class OwnGames:
    """Source of groups: games that the run plays with the weights that it trains."""

    def __init__(
        self,
        config: TrainConfig,
        host: TrainingHost,
        log: RunLog,
        view: TrainingView,
        settings: Settings,
    ) -> None:
        self.about = f"{host.name} host"
        self.config = config
        self.host = host
        self.log = log
        self.view = view
        self.llm = LLMService(settings, config.limits, notify=view.notify)
        self.game = game = make_game(config.game, **config.options)
        # Everything that may be wrong with the config fails in this constructor.
        parsed = parse_config(config, game, self.llm)
        self.rewards, self.credit = parsed.rewards, parsed.credit
        chats = game.num_players if config.self_play else 1
        setting = rollout_setting(config, game, self.rewards)
        setting = replace(setting, concurrency=games_at_once(config, chats))
        self.executor = make_executor(config.executor, config.workers or None, self.llm)
        self.mix = parsed.mix
        self.rollouts = Rollouts(setting, self.llm, self.rewards.score_seat, self.executor)
        self.health = Health(view.notify, self.rollouts.ages, log.files.folder.parent)
        self.checkpoints = Checkpoints(config, setting, host, self.llm, log, view)
        self._games: dict[int, asyncio.Future[PlayedStep]] = {}
        """Games of steps that are not finished, by the number of the step."""
        self._awaited = 0
        """Number of the step whose games are waited for; 0: none."""
        self._warned_of_overflow = False
        self.trackers: Trackers | None = None
        self._number = 0
        """Number of the step in progress."""
        self._counted = Ledger()
        """Calls of this session that ledger.jsonl holds."""

    async def prepare(self, stack: AsyncExitStack) -> None:
        folder = self.log.files.folder
        make_base(self.config, self.game, folder, self.view.notify, self._show_base)
        stack.push_async_callback(self.llm.close)
        self.llm.add_spent(*self.log.spent())
        # Also of a step that does not end.
        stack.callback(self._log_costs)

    async def open(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.executor)
        stack.push_async_callback(self.cancel_games)
        self.llm.add(NEWEST, self.host.policy(), is_trained=True)

    async def start(self, stack: AsyncExitStack) -> StepRecord | None:
        """Watch the run's health, and evaluate the starting policy on the held-out deals."""
        config = self.config
        watching = asyncio.create_task(self.health.run())
        stack.callback(watching.cancel)
        tracked = TrackedRun.of(config, self.log.files.folder, self.llm.settings)
        self.trackers = Trackers(config.track, tracked, self.view.notify)
        stack.callback(self.trackers.close)
        if self.log.records:
            return None
        evaluation = None
        if config.is_evaluated(0):
            evaluation = await self.checkpoints.evaluate(0, "evaluation of the starting policy")
        cost = self._costs().total().cost
        self._log_costs()
        return StepRecord(step=0, config_hash=config.config_hash, evaluation=evaluation, cost=cost)

    async def step(self, number: int, timer: Timer) -> StepRecord:
        """Do one step: games, rewards, update, evaluation."""
        config = self.config
        self._number = number
        with timer.measure("rollouts"):
            self.view.phase("rollouts", 0, config.groups_per_step * config.rollouts_per_group)
            played = await self.games_of(number)
        counts = played.counts
        # With async_steps most games ended before they were waited for, and workers score games at
        # the same time: their seconds are no part of these.
        if not config.async_steps and config.executor == "local":
            # Games are scored as soon as they finish, within the time of the rollouts.
            timer.move(counts.seconds_scoring, "rollouts", "rewards")
        self._show_faults(counts)
        if not counts.games:
            # No later step would be better, and nothing is learned.
            fault = [*counts.faults, *counts.reward_faults][0]
            raise StopPlaying(f"no game of step {number} could be finished: {fault}")
        with timer.measure("rewards"):
            complete = complete_groups(played.groups, config.rollouts_per_group)
            credited = self.credit.assign(complete)
        selected = select_groups(
            played.groups, credited, bool(config.kl_coef or config.entropy_coef)
        )
        if not selected.trained:
            self.view.notify(f"step {number} does not change the weights: {selected}")
        with timer.measure("update"):
            self.view.phase("update")
            reference = config.reference_step(number - 1)
            update = await update_weights(self.host, selected.trained, reference)
            update |= staleness_metrics(config, number, counts, played.groups, selected.trained)
        # The host reports how much of its update was spent on saving the checkpoint.
        timer.move(update.pop("seconds_saving", 0.0), "update", "saving")
        with timer.measure("evaluation"):
            due = config.is_evaluated(number)
            evaluation = await self.checkpoints.evaluate(number) if due else None
        return step_record(config, number, counts, self.rewards.weights, update).model_copy(
            update={
                "groups": selected.counts,
                "evaluation": evaluation,
                "best": evaluation is not None and self.checkpoints.is_best(evaluation),
                "warnings": (*self.health.take_warnings(), *counts.reward_warnings()),
                "cost": self._costs().total().cost,
            }
        )

    def recorded(self, record: StepRecord) -> None:
        self._log_costs()
        if self.trackers is not None:
            self.trackers.log(record)

    def kept(self) -> Collection[int]:
        return self.checkpoints.kept()

    async def finish(self) -> dict[str, object]:
        """Evaluate the newest and the best checkpoint on the final deals."""
        await self.cancel_games()
        return {"final": await self.checkpoints.evaluate_final()}

    def _show_base(self, part: str, done: int, total: int) -> None:
        """Show the progress of the base model, in run.json at each percent."""
        self.view.phase(f"model: {part}", done, total)
        if 100 * done // total > 100 * (done - 1) // total:
            phase = f"making the base model ({part}: {done} of {total})"
            self.log.commit(self.log.state.model_copy(update={"phase": phase}))

    # Costs of the models among the opponents

    def _costs(self) -> Ledger:
        """Return the calls that ledger.jsonl does not hold yet."""
        return self.llm.ledger.since(self._counted)

    def _log_costs(self) -> None:
        costs = self._costs()
        if costs.tallies:
            self.log.append_costs(self._number, costs)
            self._counted = deepcopy(self.llm.ledger)

    # Games of a step

    async def games_of(self, step: int) -> PlayedStep:
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

    async def cancel_games(self) -> None:
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
        return self.log.files.replays / f"step{number:04}"

    def _show_games(self, number: int, done: int, total: int) -> None:
        # The games of later steps go on unseen.
        if number == self._awaited:
            self.view.phase("rollouts", done, total)

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
