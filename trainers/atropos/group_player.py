"""Games of an environment: one item is a deal at one table, played once for each row of a group."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.llm.service import LLMService
from trainers.atropos.rows import NothingSampled, RowOptions, longest_row, scored_groups
from trainers.atropos.wire import ScoredData
from trainers.checks import parse_config
from trainers.config.config import TrainConfig
from trainers.deal_schedule import schedule_step
from trainers.rewards.credit import complete_groups
from trainers.rollouts.rollouts import Rollouts
from trainers.setup import rollout_setting
from trainers.trajectory import TrajectoryGroup

EQUAL, TOO_LONG, FAILED, EMPTY = "equal scores", "too long", "a failed game", "no sampled token"
"""Reasons to drop a group, as they are reported."""


@dataclass(frozen=True, slots=True)
class PlayedItem:
    """The groups of one item, and what was dropped."""

    groups: list[ScoredData]
    dropped: Counter[str] = field(default_factory=Counter)
    """Groups by the reason."""
    rewards: list[float] = field(default_factory=list)
    """Of all finished games, also those of dropped groups."""
    games: int = 0
    failed: int = 0
    """Failed games. Each retry counts."""


class GroupPlayer:
    """Plays items with the model NEWEST of a service.

    Args:
        config: Game, players, limits and reward; `rollouts_per_group` is the size of a group.
        game: The game.
        llm: Answers for the learner and for models among the opponents.
        options: Fields of all groups.
        keep_equal: Keep groups whose scores are all equal; a trainer learns nothing from them.

    Raises:
        UsageError: The config names unknown players or rewards.
    """

    def __init__(
        self,
        config: TrainConfig,
        game: Game,
        llm: LLMService,
        options: RowOptions,
        *,
        keep_equal: bool = False,
    ) -> None:
        self.config = config.model_copy(update={"groups_per_step": 1})
        parsed = parse_config(self.config, game, llm, 0)
        if "past" in parsed.mix.names:
            raise UsageError("--opponents past: an environment has no earlier checkpoints")
        self._mix, self._rewards = parsed.mix, parsed.rewards
        self._game = game
        self._llm = llm
        self._options = options
        self._keep_equal = keep_equal
        # Each item has its own Rollouts, so that its games do not wait for those of other items.
        # The trainer updates the weights while games are played: one game may meet two versions.
        self._setting = replace(
            rollout_setting(self.config, game),
            concurrency=config.rollouts_per_group,
            fixed_weights=False,
        )

    @property
    def groups_per_item(self) -> int:
        """Groups that an item has at most: one for each learning seat."""
        return self._game.num_players if self.config.seats == "all" else 1

    async def play(self, item: int, version: int | None, max_tokens: int) -> PlayedItem:
        """Play an item; the same number gives the same deal and table.

        Args:
            item: Number of the item.
            version: Policy version if the server reports none.
            max_tokens: Rows of so many tokens or more are dropped with their group.

        Raises:
            StopPlaying: No further game can be played.
        """
        size = self.config.rollouts_per_group
        # One group per step, so the number of the item is the number of the step.
        setups = schedule_step(self.config, self._game.num_players, self._mix, (), item)
        rollouts = Rollouts(self._setting, self._llm, self._rewards.score_seat)
        played = await rollouts.play(setups, size, item)
        counts = played.counts
        result = PlayedItem(
            [],
            rewards=[each.reward for each in counts.results],
            games=counts.games,
            failed=counts.failed,
        )
        complete = complete_groups(played.groups, size)
        # A group is sent whole or not at all: a mean over the other games would be biased.
        result.dropped[FAILED] += len(played.groups) - len(complete)
        for group in complete:
            groups, reason = self._rows(group, version, max_tokens)
            result.groups.extend(groups)
            result.dropped[reason] += bool(reason)
        return result

    def _rows(
        self, group: TrajectoryGroup, version: int | None, max_tokens: int
    ) -> tuple[list[ScoredData], str]:
        """Return the groups of rows, or none and the reason."""
        # Compared exactly, as in `arena train`.
        scores = {trajectory.reward for trajectory in group.trajectories}
        if len(scores) == 1 and not self._keep_equal:
            return [], EQUAL
        try:
            rows = scored_groups(group, self._facts(group, version), self._options)
        except NothingSampled:
            return [], EMPTY
        return ([], TOO_LONG) if longest_row(rows) >= max_tokens else (rows, "")

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
