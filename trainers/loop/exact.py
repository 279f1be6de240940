"""Self-play in a game that fits into tables: exact values in place of sampled games.

A step scores the answers at every information set with the newest weights, which is the policy pi_t
of all seats, and computes the value Q_t(I, a) of every action by a traversal of the whole tree. The
weights are then fitted by cross-entropy, each information set with the same weight, to

    p_t proportional to [p_(t-1) rho^(eta alpha) e^(eta G_t)]^(1 / (1 + eta (alpha + tau))),
    G_t = 2 Q_t - Q_(t-1), p_0 uniform:

optimistic mirror descent (A. Rakhlin and K. Sridharan, "Optimization, learning, and games with
predictable sequences", NeurIPS 2013) with the penalties of magnetic mirror descent (S. Sokota et
al., "A unified approach to reinforcement learning, quantal response equilibria, and two-player
zero-sum games", ICLR 2023). p_t is the maximum over p of

    sum_a p(a) G_t(a) - alpha KL(p || rho) + tau H(p) - KL(p || p_(t-1)) / eta,

with alpha = kl_coef, tau = entropy_coef, both in units of the return per nat, and eta = exact_step.
rho is the policy of kl_reference. The targets p_t are kept in a table: the weights decide which
policy is valued, but errors of their fit do not add up. G_t guesses that the values change once
more as they did. Without this guess small penalties need small steps: in Leduc poker, with eta =
0.1 and tau from 1 to 0.02, a table ends at 0.30 chips after 300 steps, with it at 0.03. Fixed
coefficients lead to a point that is the nearer to an equilibrium the smaller they are, and the
longer to reach; `penalty_end` lets them fall.

Chat, tokens, weights and optimizer are those of sampled training. So what is reached here is what a
sampled algorithm could reach with this model, and what is missed is not noise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from arena.agents.chat import Chat, ChatOptions, opening
from arena.core.errors import ArenaError
from arena.evaluation.exact.game_tree import Floats, GameTree, Situation, game_tree
from arena.plugins.loader import make_game
from backends.embedded.architecture import read_architecture
from backends.embedded.layers import torch_threads
from trainers.algorithms.answer_trees import AnswerTrees, ScoredAnswer
from trainers.config.config import TrainConfig
from trainers.hosts.embedded import EmbeddedHost
from trainers.hosts.host import TrainingHost
from trainers.loop.metrics import Timer
from trainers.loop.setup import check_exact, make_base, rollout_setting
from trainers.loop.training import TrainingLoop
from trainers.runs.records import StepRecord
from trainers.runs.run_log import ReportWriter, RunLog, TrainingView, kept_steps

if TYPE_CHECKING:
    from trainers.algorithms.learner import Learner
    from trainers.hosts.embedded_trainer import TrainSettings


def exact_loop(
    config: TrainConfig,
    host: TrainingHost,
    folder: Path,
    view: TrainingView,
    report: ReportWriter | None = None,
) -> TrainingLoop:
    """Return the loop of a run with exact=true. Raises UsageError as `check_exact` does."""
    log = RunLog(folder)
    check_exact(config, make_game(config.game, **config.options), log.state.step)
    assert isinstance(host, EmbeddedHost), "check_exact refuses other hosts"
    return TrainingLoop(config, host, ExactValues(config, host, log, view), log, view, report)


class MirrorDescent:
    """The table of targets of all information sets; see the head of this file."""

    def __init__(self, tree: GameTree) -> None:
        self.tree = tree
        self._state = np.zeros((2, len(tree.sets)))
        """log p_(t-1) up to a constant at each information set, and Q_(t-1)."""
        self._has_values = False

    def step(self, policy: Floats, eta: float, tau: float, pull: Floats | float = 0.0) -> Floats:
        """Return p_t after pi_t; `tau` is the sum alpha + tau above, `pull` alpha log rho."""
        logits, before = self._state
        values = self.tree.action_values(policy)
        guess = 2 * values - before if self._has_values else values
        target = self.tree.softmax((logits + eta * (guess + pull)) / (1 + eta * tau))
        # Bounded: a probability of 0 would never come back.
        self._state = np.stack([np.log(np.maximum(target, 1e-12)), values])
        self._has_values = True
        return target

    def save(self, path: Path) -> None:
        """Write the table as a file of numpy."""
        np.save(path, self._state)

    def load(self, path: Path) -> None:
        """Continue with a written table. Raises OSError and ValueError."""
        self._state, self._has_values = np.load(path, allow_pickle=False), True


class ExactValues:
    """Source of updates: the exact value of every action at every information set."""

    def __init__(
        self, config: TrainConfig, host: EmbeddedHost, log: RunLog, view: TrainingView
    ) -> None:
        self.config = config
        self.host = host
        self.log = log
        self.view = view
        self.game = make_game(config.game, **config.options)
        self.tree = game_tree(self.game)
        sets, pairs = len(self.tree.situations), len(self.tree.sets)
        self.about = f"exact values of {pairs:,} actions at {sets:,} information sets"
        self.table = MirrorDescent(self.tree)
        self._references: dict[int, Floats] = {}
        """The scores of the last KL reference, by step."""

    async def prepare(self, stack: AsyncExitStack) -> None:
        folder = self.log.files.folder
        make_base(self.config, self.game, folder, self.view.notify, self.view.phase)

    async def open(self, stack: AsyncExitStack) -> None:
        sampler = self.host.trainer.sampler
        ends = sampler.end_ids[:1]
        answers = []
        for situation in self.tree.situations:
            prompt = sampler.encode(self._chat(situation).messages)
            texts = [str(action) for action in situation.observation.legal_actions]
            tokens = sampler.tokenizer.encode_plain(texts)
            answers += [ScoredAnswer(prompt, [*ids, *ends]) for ids in tokens]
        self.trees = AnswerTrees(answers, self.config.tokens_per_batch)
        step = self.host.trainer.step
        self.scores = await self._scored(step)
        """log p of each answer under the newest weights, in nats."""
        if step:
            self._load_table(step)

    def _chat(self, situation: Situation) -> Chat:
        """Return the chat up to the decision, with the player's own moves as answers."""
        match = rollout_setting(self.config, self.game).match
        options = match.chat or ChatOptions()
        first = opening(self.game, options, match.text_level, match.turn_limit)
        chat = Chat(first, options.chat, match.text_level)
        for move in situation.before:
            chat.ask(move.observation)
            chat.add_reply(str(move.action))
        chat.ask(situation.observation)
        return chat

    async def start(self, stack: AsyncExitStack) -> StepRecord | None:
        if self.log.records:
            return None
        hash_ = self.config.config_hash
        return StepRecord(step=0, config_hash=hash_, update=self._results())

    async def step(self, number: int, timer: Timer) -> StepRecord:
        """Do one step: exact values, their target, and the fit of the weights to it."""
        config, done = self.config, number - 1
        self.view.phase("update")
        with timer.measure("update"):
            reference = await self._reference(config.reference_step(done))
            target = self._target(reference, config.penalty_at(done))
            # Before the checkpoint of this step, which is useless without it.
            self.table.save(self._table_file(number))
            settings = replace(
                self.host.train_settings(), learning_rate=config.learning_rate_at(done)
            )
            fit = partial(self._fit, target)
            update = await self.host.trainer.train_by(fit, settings)
        timer.move(update.pop("seconds_saving"), "update", "saving")
        # exp(log p) summed over the legal answers of each information set.
        legal = np.add.reduceat(np.exp(self.scores), self.tree.first_pairs)
        return StepRecord(
            step=number,
            config_hash=config.config_hash,
            legal_rate=float(legal.mean()),
            update=update,
        )

    def _target(self, reference: Floats | float, penalty: float) -> Floats:
        """Return p_t, see above, for penalties of `penalty` times their coefficients."""
        config, policy = self.config, self.tree.softmax(self.scores)
        alpha, tau = penalty * config.kl_coef, penalty * config.entropy_coef
        return self.table.step(policy, config.exact_step, alpha + tau, alpha * reference)

    def _table_file(self, step: int) -> Path:
        return self.log.files.folder / f"targets-{step:04d}.npy"

    def _load_table(self, step: int) -> None:
        path = self._table_file(step)
        try:
            self.table.load(path)
        except (OSError, ValueError):
            raise ArenaError(
                f"{path}: the table of targets of step {step} is missing or broken, so the run "
                "cannot continue; start a new one under another --experiment-name"
            ) from None

    def _fit(self, target: Floats, learner: Learner, settings: TrainSettings) -> dict[str, float]:
        """Do `minibatches` steps of the optimizer towards the target; return the metrics."""
        # -sum over I of sum_a pi+(a) log p(a), divided by the number of information sets.
        weights = torch.tensor(target / len(self.tree.situations), dtype=torch.float32)
        with torch_threads(settings.threads):
            for _ in range(settings.minibatches):
                norm = learner.descend(self.trees.losses(learner, weights), settings)
            scores = self.trees.logprobs(learner.weights(), learner.architecture)
        self.scores = scores.double().numpy()
        # KL(target || p), which counts illegal answers too: 0 for a perfect fit.
        gaps = target * (np.log(np.maximum(target, 1e-300)) - self.scores)
        return self._results() | {
            "kl_target": float(gaps.sum()) / len(self.tree.situations),
            "grad_norm": norm,
            "tokens_computed": float(self.trees.rows * settings.minibatches),
        }

    def _results(self) -> dict[str, float]:
        policy = self.tree.softmax(self.scores)
        return {"exploitability": self.tree.exploitability(policy)}

    async def _reference(self, step: int) -> Floats | float:
        """Return log rho of each pair, up to a constant at each information set."""
        if not self.config.kl_coef:
            return 0.0
        if step not in self._references:
            self._references = {step: await self._scored(step)}
        return self._references[step]

    async def _scored(self, step: int) -> Floats:
        """Return log p of each answer under the weights of a step that is kept, in nats."""
        trainer = self.host.trainer
        weights = trainer.reference(step)
        architecture = read_architecture(trainer.checkpoint(0))

        def score() -> Floats:
            with torch_threads(self.config.threads):
                scores: Floats = self.trees.logprobs(weights, architecture).double().numpy()
            return scores

        return await asyncio.to_thread(score)

    def recorded(self, record: StepRecord) -> None:
        self._table_file(record.step - 1).unlink(missing_ok=True)

    def kept(self) -> Collection[int]:
        reference = self.config.reference_step(self.log.state.step)
        return kept_steps(self.log.state, self.config.keep_pool, reference)

    async def finish(self) -> dict[str, object]:
        return {}
