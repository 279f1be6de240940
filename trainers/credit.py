"""Credit: advantages of the turns of a step's groups, and the groups that are trained on.

With R_i the reward of game i of a group and mean(R) over the games of that group,

    game    A_t = R_i - mean(R), for every turn t of the game (outcome supervision: Shao et al.
            2024, arXiv:2402.03300)
    judged  A_t = sum_k w_k (q_k - b_k) + w_game (R_i - mean(R))

where q_k are the values of the decision by exact knowledge (`GameAnalysis.decision_kinds`), w_k
their weights, and b_k the mean over all decisions of the step whose values are compared with it, or
0 for values that are absolute. So a deduction is rewarded in the turn in which it is made. Answers
that are not legal have the one value -1 of the kind `illegal`, at their own turn. The advantage is
that of the action: a notebook's entry before it does not have it.

Trainers of other programs subtract baselines of their own: OpenEnv, verifiers and the exports give
them sum_k w_k q_k, the reward of the turn (`Credit.turn_reward`), and w_game R_i for the last turn.

A judged value looks no further than its decision. Where giving up value now wins more games later,
as with a bluff, it pulls away from the best play; the guide to training has figures. A baseline by
information set (q minus its expectation under the policy) has the same expected gradient, so it
changes nothing.

The group shares the deal and the seat, so its mean is a baseline that takes out the luck of the
deal. ART and the GRPO paper divide R_i - mean(R) by the group's standard deviation + 1e-6. Since an
information set spans deals, this weighs the worlds that the player cannot tell apart by 1/std, and
so moves the optimum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from arena.core.errors import UsageError
from arena.core.event import Ply
from arena.core.game import Game
from trainers.config.config import CreditName, TrainConfig
from trainers.rewards import TermSummary, decision_values
from trainers.runs.records import GroupCounts
from trainers.trajectory import ILLEGAL, ILLEGAL_REPLY, Judgements, TrajectoryGroup, Turn

GAME = "game"
JUDGED_WEIGHTS = {GAME: 0.5, ILLEGAL: 1.0}
"""Weights of `judged` beside those of the game's kinds of decisions."""
_ABOUT = {
    GAME: "the game's advantage, at each of its turns",
    ILLEGAL: "-1 for each reply without a legal action",
}


@dataclass(frozen=True, slots=True)
class Credit:
    """An estimator with its weights."""

    name: CreditName = "game"
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of `judged` by kind of decision; also `game` and `illegal`."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """The set of decisions that each kind is compared with, by kind; a kind without is absolute."""

    @classmethod
    def parse(cls, config: TrainConfig, game: Game) -> Credit:
        """Return the credit that a config means. Raises UsageError."""
        if (config.credit or default_credit(config, game)) != "judged":
            return cls()
        return cls.judged(game)

    @classmethod
    def judged(cls, game: Game) -> Credit:
        """Return the credit by exact knowledge of a game. Raises UsageError if it has none."""
        kinds = game.analysis.decision_kinds
        if not kinds:
            raise UsageError(
                f"--credit judged: {game.name} does not value single decisions; take game"
            )
        weights = dict.fromkeys(kinds, 1.0) | JUDGED_WEIGHTS
        compared = {kind: each.compared for kind, each in kinds.items() if each.compared}
        return cls("judged", weights, compared)

    def describe(self, game: Game) -> list[TermSummary]:
        """Return the parts of the advantages and their weights, as a dry run prints them."""
        about = {name: kind.about for name, kind in game.analysis.decision_kinds.items()}
        about |= _ABOUT
        return [
            TermSummary(f"decision:{name}", f"{about[name]}.", weight, True)
            for name, weight in self.weights.items()
        ]

    def assign(self, groups: Sequence[TrajectoryGroup]) -> list[TrajectoryGroup]:
        """Return the groups of a step, in which no game failed, with advantages of their turns."""
        baselines = self._baselines(groups)
        return [self._by_game(group, baselines) for group in groups]

    def _by_game(self, group: TrajectoryGroup, baselines: Mapping[str, float]) -> TrajectoryGroup:
        """Give each turn its share of the game and its own part."""
        judged, game = self.name == "judged", self.weights.get(GAME, 1.0)
        advantages = group_advantages([one.reward for one in group.trajectories])

        def advantage(number: int, turn: Turn) -> float:
            own = self.turn_reward(turn.judgements, baselines) if judged else 0.0
            return game * advantages[number] + own

        trajectories = tuple(
            one.with_advantages([advantage(number, turn) for turn in one.turns], judged)
            for number, one in enumerate(group.trajectories)
        )
        return replace(group, trajectories=trajectories)

    def turn_reward(
        self, judgements: Judgements, baselines: Mapping[str, float] | None = None
    ) -> float:
        """Return the sum of w_k (q_k - b_k) of a turn, without baselines that of w_k q_k."""
        means = baselines or {}
        return math.fsum(
            self.weights[one.kind] * (one.value - means.get(self.baselines.get(one.kind, ""), 0.0))
            for one in judgements
        )

    def judge(self, game: Game, seat: int) -> Callable[[Ply], float]:
        """Return a function that gives the reward of each ply of a game, in order, for a seat.

        Plies of other seats have the reward 0. Some values, of hints for example, depend on what
        another seat knows: a reward is for the trainer, not for the player.
        """
        assessor = game.analysis.assessor((seat,), game.analysis.decision_kinds.keys())
        assert assessor is not None, "a game that values decisions has an assessor"

        def reward(ply: Ply) -> float:
            values = decision_values(game, assessor.ply(ply))
            return self.turn_reward(values.get(ply.number, ()))

        return reward

    @property
    def illegal_reward(self) -> float:
        """Reward of a reply that names no legal action."""
        return self.turn_reward(ILLEGAL_REPLY)

    def _baselines(self, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        """Return the mean value of the decisions that are compared, by the name of their set."""
        values = defaultdict[str, list[float]](list)
        turns = (turn for group in groups for turn in group.turns)
        for one in (judgement for turn in turns for judgement in turn.judgements):
            if one.kind in self.baselines:
                values[self.baselines[one.kind]].append(one.value)
        return {name: math.fsum(each) / len(each) for name, each in values.items()}


def default_credit(config: TrainConfig, game: Game) -> CreditName:
    """Return the credit of a run without --credit."""
    # ART's hosts compute advantages of their own, one for each game.
    own = config.trainer_host == "embedded"
    return "judged" if own and game.analysis.is_judged_by_default else "game"


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """Return R_i - mean(R) for each game of a group, in the unit of the reward."""
    if not rewards:
        return []
    share = 1 / len(rewards)
    # The group's mean is the baseline: its games share the deal, so luck of the deal cancels.
    mean = math.fsum(share * reward for reward in rewards)
    return [reward - mean for reward in rewards]


@dataclass(frozen=True, slots=True)
class SelectedGroups:
    """The groups of a step that are trained on, and the number of all groups by result."""

    trained: list[TrajectoryGroup]
    counts: GroupCounts


def complete_groups(groups: Sequence[TrajectoryGroup], games: int) -> list[TrajectoryGroup]:
    """Return the groups in which no game failed."""
    return [group for group in groups if len(group.trajectories) == games]


def select_groups(
    groups: Sequence[TrajectoryGroup], credited: Sequence[TrajectoryGroup], penalised: bool = False
) -> SelectedGroups:
    """Select the groups that change the weights.

    `credited` are the groups in which no game failed, with advantages. With `penalised` a penalty
    has a gradient also where all advantages are 0.
    """
    trained = [
        group for group in credited if penalised or any(turn.advantage for turn in group.turns)
    ]
    counts = GroupCounts(
        trained=len(trained),
        incomplete=len(groups) - len(credited),
        no_variance=len(credited) - len(trained),
    )
    return SelectedGroups(trained, counts)
