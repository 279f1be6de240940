"""GRPO on the batches of a trajectory API: environments play, this process trains.

A step takes one batch, makes one step of the optimizer, transfers the weights to the server that
answers the environments, proves them there, and records itself. A run that is killed at any point
repeats the step from the last checkpoint, with the next batch.

For row i of a group with the scores s_1 … s_G:

    A_i = (s_i - mean(s)) / std(s)              std is the population's

or the advantages by token that the environment sent. With r = p_new / p_old, where p_old is the
probability that the token was sampled with, the loss is the mean over rows of the mean over a row's
trained tokens of

    -min(r A, clip(r, 1 - e, 1 + e) A)

It is PPO's (Schulman et al., arXiv:1707.06347), with the right sign of the clip for negative
advantages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import fmean, pstdev

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.evaluation.records import Interval
from arena.llm.settings import Settings
from backends.embedded import find_checkpoint
from backends.embedded.architecture import read_architecture
from trainers.atropos.client import (
    MASKED,
    BatchLost,
    ReceivedBatch,
    ScoredData,
    TrainerRegistration,
    TrajectoryClient,
)
from trainers.atropos.options import BatchOptions, run_id
from trainers.config.config import TrainConfig
from trainers.hosts.embedded import EmbeddedHost
from trainers.hosts.host import HostRequest
from trainers.loop.training import (
    Session,
    Timer,
    TrainingView,
    kept_steps,
    step_record,
)
from trainers.rollouts.trajectories import RolloutCounts, RolloutResult
from trainers.runs.records import GroupCounts, RunState, StepRecord
from trainers.trajectory import TokenSequence

POLL_SECONDS = 0.25
SILENCE = 60.0
"""Seconds without a batch after which the reason is looked for."""
SHOWN_REASONS = 3
"""Refused groups of a batch whose reasons are recorded."""


async def train_from_batches(
    config: TrainConfig,
    options: BatchOptions,
    *,
    folder: Path,
    view: TrainingView,
    settings: Settings,
) -> RunState:
    """Start or resume a run in a folder; returns the final state.

    If the folder has finished steps, the run is resumed. Raises UsageError if the settings are not
    valid, before anything is trained, and ArenaError if the run cannot continue. Finished steps are
    on disk.
    """
    host = EmbeddedHost(HostRequest(config, folder, settings))
    host.preflight()
    client = TrajectoryClient(options.url, options.patience, view.notify)
    return await BatchTrainer(config, options, host, client, folder, view).complete()


class BatchTrainer:
    """A run that trains on batches of a trajectory API; see `train_from_batches`."""

    def __init__(
        self,
        config: TrainConfig,
        options: BatchOptions,
        host: EmbeddedHost,
        client: TrajectoryClient,
        folder: Path,
        view: TrainingView,
    ) -> None:
        """Prepare the run, which closes the client at its end."""
        architecture = read_architecture(find_checkpoint(config.base_model))
        self.config = config
        self.options = options
        self.host = host
        self.view = view
        self.session = Session(config, host, folder, view, f"batches of {client.url}")
        self.log = self.session.log
        self.batch_size = options.batch_size * options.accumulation
        longest = min(options.seq_len or architecture.context, architecture.context)
        self.limits = ModelLimits(architecture.vocabulary, longest)
        self._client = client
        # The loss is that of `batch`.
        self.update = replace(
            config.update,
            epsilon=options.clip_eps,
            minibatches=1,  # One step of the optimizer for each batch, as atropos-grpo.
        )

    async def complete(self) -> RunState:
        """Do everything from the last finished step to the last one; returns the final state."""
        async with self.session.opened() as stack:
            stack.push_async_callback(self._client.close)
            await self.session.load_weights()
            # Environments start to play when the trainer asks for its first batch, and the server
            # must answer them with its weights then.
            await self._register()
            for number in self.session.steps():
                self.session.record(record := await self.step(number))
                self.view.step(record)
                await self._keep()
            # A kill within the end of the last step has left them.
            await self._keep()
            return self.session.finish()

    async def step(self, number: int) -> StepRecord:
        """Do one step: batch, update, transfer."""
        timer = Timer()
        with timer.measure("rollouts"):
            received = await self._receive()
        with timer.measure("update"):
            batch = self._select(received, number)
            self.view.phase("update")
            update = await self._update(batch)
        counts = rollout_counts(received.groups)
        record = step_record(self.config, number, counts, {}, update).model_copy(
            update={
                "groups": GroupCounts(
                    trained=batch.trained,
                    no_variance=batch.equal,
                    stale=len(batch.stale),
                    refused=len(batch.refused),
                ),
                "warnings": tuple(batch.refused[:SHOWN_REASONS]),
                "time": timer.seconds,
                "seconds": timer.total,
            }
        )
        if not any("won" in facts_of(group) for group in received.groups):
            record = record.model_copy(update={"win_rate": Interval()})
        return record

    async def _keep(self) -> None:
        """Delete the checkpoints that are not needed any more."""
        state = self.log.state
        await self.host.keep(kept_steps(state, self.config.sampling_step(state.step)))

    async def _receive(self) -> ReceivedBatch:
        """Poll until there is a batch."""
        started, seconds = time.monotonic(), SILENCE
        self.view.phase("waiting for groups")
        while (batch := await self._take()) is None:
            if time.monotonic() - started > seconds:
                status = await self._client.status()
                self.view.notify(
                    f"no batch for {seconds:g} s: {status.queue_size} groups are waiting at "
                    f"{self._client.url}; is an environment running, with an --env.group_size that "
                    f"divides the batch of {self.batch_size} rows?"
                )
                seconds *= 2
            await asyncio.sleep(POLL_SECONDS)
        return batch

    async def _take(self) -> ReceivedBatch | None:
        """Ask once."""
        try:
            return await self._client.batch()
        except BatchLost as lost:
            self.view.notify(f"{lost}; going on with the next one")
            return None

    async def _register(self) -> None:
        """Register the run, or continue it at the server. Raises ArenaError for another run."""
        registration = TrainerRegistration(
            wandb_group=run_id(self.log.files.folder, self.config.experiment),
            wandb_project=self.config.project,
            batch_size=self.batch_size,
            max_token_len=self.limits.context,
            checkpoint_dir=str(self.log.files.folder.resolve()),
            save_checkpoint_interval=1,
            starting_step=self.log.state.step,
            num_steps=self.config.steps,
        )
        await self._client.register(registration)

    def _select(self, received: ReceivedBatch, number: int) -> TrainingBatch:
        """Return what the batch teaches. Raises ArenaError if all of its groups are refused."""
        batch = training_batch(received.groups, self.limits, number - 1, self.options.max_staleness)
        batch.refused.extend(received.refused)
        groups = len(received.groups) + len(received.refused)
        if batch.refused and len(batch.refused) == groups:
            # A systematic fault: the next batch would be no better.
            raise ArenaError(
                f"all {groups} groups of the batch of step {number} were refused: "
                f"{batch.refused[0]}"
            )
        if not batch.sequences:
            self.view.notify(f"step {number} does not change the weights: no row has an advantage")
        return batch

    async def _update(self, batch: TrainingBatch) -> dict[str, float]:
        """Train and transfer the weights; returns the metrics."""
        metrics = await self.host.train_sequences(batch.sequences, self.update)
        ages = batch.ages
        staleness = {"staleness": sum(ages) / len(ages), "staleness_max": max(ages)} if ages else {}
        return {**metrics, **staleness}


def rollout_counts(groups: Sequence[ScoredData]) -> RolloutCounts:
    """Return what the rows of a batch say about its games."""
    counts, tables = RolloutCounts(), set[str]()
    for number, group in enumerate(groups):
        facts = facts_of(group)
        counts.sampled += sum(mask != MASKED for row in group.masks for mask in row)
        deal, won = facts.get("seed"), facts.get("won")
        table = f"{deal}/{facts.get('seat')}"
        if facts.get("part") and table in tables:
            continue  # Further rows of games that are counted.
        tables.add(table)
        counts.games += group.size
        for row, score in enumerate(group.scores):
            is_won = isinstance(won, list) and row < len(won) and won[row] is True
            place = deal if isinstance(deal, int) else number
            counts.results.append(RolloutResult(place, score, is_won))
    return counts


# What a batch teaches


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of a row that the model can be trained on."""

    vocabulary: int
    context: int
    """Tokens of the longest row."""


@dataclass(slots=True)
class TrainingBatch:
    """The sequences of a batch that have a gradient, and what was left out."""

    sequences: list[TokenSequence] = field(default_factory=list)
    trained: int = 0
    """Groups with at least one sequence, whose `group` is their number from 0."""
    equal: int = 0
    """Groups in which no row has an advantage."""
    stale: list[ScoredData] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Reason against each group that cannot be trained."""
    ages: list[int] = field(default_factory=list)
    """Steps since the oldest weights that played, for each group that reports them."""


def training_batch(
    groups: Sequence[ScoredData], limits: ModelLimits, version: int, max_staleness: int
) -> TrainingBatch:
    """Return what these groups teach.

    Args:
        groups: Groups after the checks of `ScoredData`.
        limits: Of the model.
        version: Number of steps of the weights that are about to be updated.
        max_staleness: Groups that older weights than `version` - `max_staleness` have played are
            left out; a group that names no version stays.
    """
    batch, indices = TrainingBatch(), count()
    for group in groups:
        if reason := reason_against(group, limits):
            batch.refused.append(reason)
            continue
        played = policy_version(group)
        if played is not None:
            # An environment may count batches that this trainer has not yet finished.
            batch.ages.append(max(0, version - played))
            if version - played > max_staleness:
                batch.stale.append(group)
                continue
        sequences = list(_sequences(group, batch.trained, indices))
        if sequences:
            batch.trained += 1
            batch.sequences += sequences
        else:
            batch.equal += 1
    return batch


def reason_against(group: ScoredData, limits: ModelLimits) -> str:
    """Return why a group cannot be trained; empty if it can."""
    if group.inference_logprobs is None:
        return "no inference_logprobs: without p_old there is no importance ratio"
    if group.size == 1 and group.advantages is None:
        return "a group of one row without advantages: its score has no baseline"
    for row, tokens in enumerate(group.tokens):
        largest = max(tokens)
        if largest >= limits.vocabulary:
            return (
                f"tokens, row {row}: id {largest} is outside of the vocabulary of "
                f"{limits.vocabulary} tokens: the environment's server has another tokenizer or "
                "checkpoint than --model-name"
            )
        if len(tokens) > limits.context:
            return f"tokens, row {row}: {len(tokens)} tokens, but the limit is {limits.context}"
    return ""


def facts_of(group: ScoredData) -> Mapping[str, JsonValue]:
    """Return what an environment of arena reports about its games; empty for another one."""
    facts = (group.group_overrides or {}).get("arena")
    return facts if isinstance(facts, dict) else {}


def policy_version(group: ScoredData) -> int | None:
    """Return the step of the oldest weights that played; None if it is not reported."""
    played = facts_of(group).get("policy_version")
    return played if isinstance(played, int) else None


def _sequences(group: ScoredData, number: int, indices: Iterator[int]) -> Iterator[TokenSequence]:
    """Yield the rows of a group that have an advantage."""
    assert group.inference_logprobs is not None, "checked before"
    for row, (masks, logprobs) in enumerate(
        zip(group.masks, group.inference_logprobs, strict=True)
    ):
        # The first token has no predecessor that predicts it.
        positions = [place for place in range(1, len(masks)) if masks[place] != MASKED]
        advantages = _advantages(group, row, positions)
        if not any(advantages):
            continue
        index = next(indices)
        yield TokenSequence(
            index,
            number,
            # What follows the last trained token predicts nothing.
            group.tokens[row][: positions[-1] + 1],
            positions,
            [logprobs[place] for place in positions],
            weight=1 / len(positions),
            advantages=advantages,
            temperature=_temperature(group, row),
        )


def _advantages(group: ScoredData, row: int, positions: Sequence[int]) -> list[float]:
    # A row that only fills up its group, see `group_player`.
    if _override(group, row, "set_advantage_to_zero"):
        return [0.0] * len(positions)
    if group.advantages is not None:
        return [group.advantages[row][place] for place in positions]
    # Over all rows, padding included: its scores are those of the group's games.
    deviation = pstdev(group.scores)
    own = (group.scores[row] - fmean(group.scores)) / deviation if deviation > 0 else 0.0
    return [own] * len(positions)


def _override(group: ScoredData, row: int, name: str) -> JsonValue:
    return group.overrides[row].get(name) if group.overrides else None


def _temperature(group: ScoredData, row: int) -> float:
    """Return the temperature of sampling; the row's own before that of the group."""
    sources = (group.generation_params or {}), (group.group_overrides or {})
    values = [_override(group, row, "temperature"), *(one.get("temperature") for one in sources)]
    given = [float(value) for value in values if isinstance(value, int | float)]
    # Greedy sampling reports the probabilities of temperature 1.
    return given[0] if given and given[0] > 0 else 1.0
