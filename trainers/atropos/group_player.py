"""Games of an environment: one item is a deal at one table, played once for each row of a group.

A row holds the ids that the server read and sampled. A chat that only grows is one row. Where the
server read a prompt that does not continue the ids so far (a shortened chat, a template that
rewrites an answer), the trajectory goes on in another row. Row k of all trajectories is one group.
A trajectory with fewer rows repeats its last one there, with the override `set_advantage_to_zero`:
a group always has the registered size, and its scores are always those of all its games, so every
row has the advantage of its game. With other credit than `game` a group has advantages by token.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.core.game import Game
from arena.llm.backend import BackendTraits, Completion, Request
from arena.llm.service import LLMService
from arena.llm.settings import BudgetLimits
from backends.openai_http import HTTPBackend
from backends.openai_wire import parse_policy_version
from trainers.atropos.client import MASKED, NOT_SAMPLED, ScoredData
from trainers.config.config import TrainConfig
from trainers.credit import complete_groups
from trainers.hosts.host import check_used
from trainers.loop.setup import parse_config, rollout_setting
from trainers.rollouts.rollouts import Rollouts, schedule_step
from trainers.rollouts.trajectories import RolloutCounts
from trainers.trajectory import (
    AnswerTokens,
    TokenSequence,
    Trajectory,
    TrajectoryGroup,
    split_answers,
)


def scored_groups(
    group: TrajectoryGroup,
    facts: dict[str, JsonValue],
    temperature: float,
    with_advantages: bool = False,
) -> list[ScoredData]:
    """Return the groups of rows of a trajectory group, most often one.

    There is none if a trajectory has no sampled token, for example of a seat that never had to
    decide.

    Args:
        group: Complete trajectories of one deal and seat, with rewards.
        facts: What the trainer may want to know, sent as `group_overrides["arena"]`.
        temperature: Of sampling; the log-probabilities are those of this temperature.
        with_advantages: Send the advantages of the turns by token.

    Raises StopPlaying if the server does not report the ids of its tokens.
    """
    # By trajectory its rows; nearly always one.
    by_trajectory = [trajectory_rows(trajectory) for trajectory in group.trajectories]
    if not all(by_trajectory):
        return []
    return [
        ScoredData(
            tokens=[row.ids for row in rows],
            masks=[_masks(row) for row in rows],
            advantages=[_by_token(row) for row in rows] if with_advantages else None,
            scores=[float(trajectory.reward) for trajectory in group.trajectories],
            inference_logprobs=[_logprobs(row) for row in rows],
            generation_params={"temperature": temperature},
            overrides=[
                {"set_advantage_to_zero": True} if number >= len(own) else {}
                for own in by_trajectory
            ],
            group_overrides={"arena": {**facts, "part": number}},
        )
        for number in range(max(map(len, by_trajectory)))
        for rows in [[own[min(number, len(own) - 1)] for own in by_trajectory]]
    ]


def trajectory_rows(trajectory: Trajectory) -> list[TokenSequence]:
    """Return the rows of one trajectory, in the order of play. Raises StopPlaying."""
    if not all(turn.prompt_ids for turn in trajectory.turns):
        raise StopPlaying(
            "the server does not report the ids of its prompts, so its games cannot be trained: "
            "use arena serve, or vLLM 0.11 or later, which know return_token_ids"
        )
    answers = (AnswerTokens(one.prompt_ids, one.tokens, one.advantage) for one in trajectory.turns)
    return list(split_answers(answers, TokenSequence(0, 0)))


def _masks(row: TokenSequence) -> list[int]:
    # Position 0 is never sampled: a prompt precedes it.
    trained = set(row.sampled_positions)
    return [token if place in trained else MASKED for place, token in enumerate(row.ids)]


def _logprobs(row: TokenSequence) -> list[float]:
    logprobs = [NOT_SAMPLED] * len(row.ids)
    for place, logprob in zip(row.sampled_positions, row.sampled_logprobs, strict=True):
        # Rounding may bring a certain token slightly above 0.
        logprobs[place] = min(0.0, logprob)
    return logprobs


def _by_token(row: TokenSequence) -> list[float]:
    sampled = dict(zip(row.sampled_positions, row.advantages, strict=True))
    return [sampled.get(place, 0.0) for place in range(len(row.ids))]


EQUAL, TOO_LONG, FAILED, EMPTY = "equal scores", "too long", "a failed game", "no sampled token"
"""Reasons to drop a group, as they are reported."""


@dataclass(frozen=True, slots=True)
class PlayedItem:
    """The groups of one item, and what was dropped."""

    groups: list[ScoredData]
    counts: RolloutCounts
    """Statistics of all games, also those of dropped groups."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Groups by the reason."""


GAME_SETTINGS = BudgetLimits.model_fields.keys() | {
    "text_level", "seed", "prompt", "self_play",
    "opponents", "reward", "reward_fn", "credit", "rollouts_per_group", "max_tokens",
    "temperature", "guided",
}  # fmt: skip
"""Settings of `TrainConfig` that the games of an environment read; others would have no effect."""


class GroupPlayer:
    """Plays items with the model NEWEST of a service.

    `rollouts_per_group` in the config is the size of a group. `keep_equal` keeps groups whose
    scores are all equal; a trainer learns nothing from them. Raises UsageError if the config names
    unknown players or rewards, or has settings without effect.
    """

    def __init__(
        self,
        config: TrainConfig,
        game: Game,
        llm: LLMService,
        *,
        keep_equal: bool = False,
        timeout: float = 600.0,
    ) -> None:
        reason = "without effect on the games of arena atropos serve; leave it out"
        check_used(config, GAME_SETTINGS, reason)
        # The stock trainer reads scores only: advantages by token must be asked for.
        credit = config.credit or "game"
        self.config = config.model_copy(update={"groups_per_step": 1, "credit": credit})
        parsed = parse_config(self.config, game, llm)
        if "past" in parsed.mix.names:
            raise UsageError("--opponents past: an environment has no earlier checkpoints")
        self._mix, self._rewards, self._credit = parsed.mix, parsed.rewards, parsed.credit
        self._game = game
        self._llm = llm
        self._keep_equal = keep_equal
        # Each item has its own Rollouts, so that its games do not wait for those of other items.
        # The trainer updates the weights while games are played: one game may meet two versions.
        self._setting = replace(
            rollout_setting(self.config, game, self._rewards),
            concurrency=config.rollouts_per_group,
            timeout=timeout,
            fixed_weights=False,
        )

    @property
    def groups_per_item(self) -> int:
        """Groups that an item has at most: one for each learning seat."""
        return self._game.num_players if self.config.self_play else 1

    async def play(self, item: int, version: int | None, max_tokens: int) -> PlayedItem:
        """Play an item; the same number gives the same deal and table.

        `version` is the policy version if the server reports none. A row of `max_tokens` tokens or
        more is dropped with its group. Raises StopPlaying if no further game can be played.
        """
        size = self.config.rollouts_per_group
        # One group per step, so the number of the item is the number of the step.
        setups = schedule_step(self.config, self._game.num_players, self._mix, (), item)
        rollouts = Rollouts(self._setting, self._llm, self._rewards.score_seat)
        played = await rollouts.play(setups, size, item)
        result = PlayedItem([], played.counts)
        complete = complete_groups(played.groups, size)
        # A group is sent whole or not at all: a mean over the other games would be biased.
        result.dropped[FAILED] += len(played.groups) - len(complete)
        for group in self._credit.assign(complete):
            groups, reason = self._rows(group, version, max_tokens)
            result.groups.extend(groups)
            result.dropped[reason] += bool(reason)
        return result

    def _rows(
        self, group: TrajectoryGroup, version: int | None, max_tokens: int
    ) -> tuple[list[ScoredData], str]:
        """Return the groups of rows, or none and the reason."""
        by_turn = self._credit.name != "game"
        # Compared exactly, as in `arena train`.
        scores = {trajectory.reward for trajectory in group.trajectories}
        differs = any(turn.advantage for turn in group.turns)
        if not (differs if by_turn else len(scores) > 1) and not self._keep_equal:
            return [], EQUAL
        facts = self._facts(group, version)
        rows = scored_groups(group, facts, self.config.temperature, by_turn)
        if not rows:
            return [], EMPTY
        is_too_long = any(len(row) >= max_tokens for part in rows for row in part.tokens)
        return ([], TOO_LONG) if is_too_long else (rows, "")

    def _facts(self, group: TrajectoryGroup, version: int | None) -> dict[str, JsonValue]:
        """Return what `group_overrides["arena"]` holds."""
        versions = [version for one in group.trajectories for version in one.versions]
        # Deal and seat are those of all trajectories of the group.
        first = group.trajectories[0]
        return {
            "game": self._game.name,
            "seed": first.seed,
            "seat": first.seat,
            # The oldest weights that answered: a trainer measures staleness by them.
            "policy_version": min(versions, default=version),
            "newest_policy_version": max(versions, default=version),
            "won": [one.won for one in group.trajectories],
        }


FRESH_SECONDS = 1.0
"""Age of the list of models up to which it is not asked for again."""
GONE = frozenset({"bad_request", "configuration"})
"""Causes of an error for a name that the server does not have (any more): status 400 or 404."""


class NewestModel:
    """Answers with the adapter NAME@k of the largest k, and without one with the base model.

    A trainer loads the adapter of each step under a new name and unloads older ones. Requests that
    name the base model would play with its weights for ever. `close` closes the server.
    """

    traits = BackendTraits(is_remote=True)

    def __init__(self, server: HTTPBackend) -> None:
        self.model = ""
        """Name of the weights that answer; empty before the first call."""
        self.context_length: int | None = None
        self._server = server
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def complete(self, request: Request) -> Completion:
        """Answer once. The completion's `policy_version` is k. Raises BackendError."""
        name = await self._newest(time.monotonic() - FRESH_SECONDS)
        try:
            return await self._server.complete_with(name, request)
        except BackendError as error:
            if error.cause not in GONE:
                raise
            # Unloaded since the list was read, or the server was restarted with other weights.
            newer = await self._newest(time.monotonic())
            if newer == name:
                raise
        return await self._server.complete_with(newer, request)

    async def _newest(self, after: float) -> str:
        """Return the newest name, from a list that was read after this monotonic time."""
        async with self._reading:
            if self._read_at <= after:
                read_at = time.monotonic()
                cards = await self._server.models()
                # The base model has no version; of several models without one the first is taken.
                versions = [(parse_policy_version(card.id), card) for card in cards]
                newest = max(versions, key=lambda pair: -1 if pair[0] is None else pair[0])[1]
                base = next((card for card in cards if not card.parent), newest)
                self.model, self._read_at = newest.id, read_at
                self.context_length = newest.max_model_len or base.max_model_len
            return self.model

    async def close(self) -> None:
        await self._server.close()
