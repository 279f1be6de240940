"""Estimators of credit: advantages of the turns of a step's groups.

With R_i the reward of game i of a group and mean(R) over the games of that group,

    game        A_t = R_i - mean(R), for every turn t of the game (outcome supervision: Shao et al.
                2024, arXiv:2402.03300)
    judged      A_t = sum_k w_k (q_k - b_k) + w_game (R_i - mean(R))

where q_k are the values of the decision by exact knowledge (`GameAnalysis.decision_kinds`), w_k
their weights, and b_k the mean over all decisions of the step whose values are compared with it, or
0 for values that are absolute. So a deduction is rewarded in the turn in which it is made. Answers
that are not legal have the one value -1 of the kind `illegal`, at their own turn.

A judged value looks no further than its decision. Where giving up value now wins more games later,
as with a bluff, it pulls away from the best play; the guide to training has figures.

The group shares the deal and the seat, so its mean is a baseline that takes out the luck of the
deal. With `scale` R_i - mean(R) is divided by the group's standard deviation + 1e-6, as ART and the
GRPO paper do. Since an information set spans deals, this weighs the worlds that the player cannot
tell apart by 1/std, and so moves the optimum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from arena.core.errors import UsageError
from arena.core.game import Game
from trainers.config.config import CreditName, TrainConfig
from trainers.rewards.scoring import TermSummary, parse_weights
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn

GAME, ILLEGAL = "game", "illegal"
GAME_SHARE = 0.5
"""Default weight of the game's advantage beside judged decisions."""


@dataclass(frozen=True, slots=True)
class Credit:
    """An estimator with its settings."""

    name: CreditName = "game"
    scale: bool = False
    """Divide by the group's standard deviation."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of `judged`, by kind of decision; also `game` and `illegal`."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """The set of decisions that each kind is compared with, by kind; a kind without is absolute."""

    @property
    def is_judged(self) -> bool:
        """Whether single decisions are valued."""
        return self.name == "judged"

    @classmethod
    def parse(cls, config: TrainConfig, game: Game) -> Credit:
        """Return the credit that a config means. Raises UsageError."""
        kinds = game.analysis.decision_kinds
        name = config.credit or default_credit(config, game)
        weights = {kind: each.weight for kind, each in kinds.items()}
        weights |= {GAME: GAME_SHARE, ILLEGAL: 1.0}
        if name == "judged" and not kinds:
            raise UsageError(
                f"--credit judged: {game.name} does not value single decisions; take game"
            )
        if config.credit_weights:
            if name != "judged":
                raise UsageError(
                    f"credit_weights={config.credit_weights}: they are those of --credit judged"
                )
            given = parse_weights(config.credit_weights, "credit_weights")
            if unknown := sorted(given.keys() - weights.keys()):
                raise UsageError(
                    f"credit_weights: there is no kind '{unknown[0]}'; the kinds are: "
                    f"{', '.join(weights)}"
                )
            weights |= given
        compared = {kind: each.compared for kind, each in kinds.items() if each.compared}
        return cls(name, config.scale_advantages, weights, compared)

    def describe(self, game: Game) -> list[TermSummary]:
        """Return the values of single decisions and their weights, as a dry run prints them."""
        if not self.is_judged:
            return []
        about = {name: kind.about for name, kind in game.analysis.decision_kinds.items()}
        about[GAME] = "the game's advantage, at each of its turns"
        about[ILLEGAL] = "-1 for each reply without a legal action"
        return [
            TermSummary(f"decision:{name}", f"{about[name]}.", weight, True)
            for name, weight in self.weights.items()
        ]

    def assign(self, groups: Sequence[TrajectoryGroup]) -> list[TrajectoryGroup]:
        """Return the groups with the advantages of their turns."""
        if self.is_judged:
            return self._judged(groups)
        return credit_games(groups, self.scale)

    def _judged(self, groups: Sequence[TrajectoryGroup]) -> list[TrajectoryGroup]:
        baselines = self._baselines(groups)

        def advantage(turn: Turn, of_game: float) -> float:
            if not turn.is_legal:
                return of_game - self.weights[ILLEGAL]
            return of_game + math.fsum(
                self.weights[one.kind]
                * (one.value - baselines.get(self.baselines.get(one.kind, ""), 0.0))
                for one in turn.judgements
            )

        credited = []
        for group in groups:
            shares = group_advantages([one.reward for one in group.trajectories], self.scale)
            own = [
                one.with_advantages(
                    [advantage(turn, self.weights[GAME] * share) for turn in one.turns]
                )
                for one, share in zip(group.trajectories, shares, strict=True)
            ]
            credited.append(group.with_trajectories(own))
        return credited

    def _baselines(self, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        """Return the mean value of the decisions that are compared, by the name of their set."""
        values = defaultdict[str, list[float]](list)
        for turn in turns_of(groups):
            for one in turn.judgements:
                if one.kind in self.baselines:
                    values[self.baselines[one.kind]].append(one.value)
        return {name: math.fsum(each) / len(each) for name, each in values.items()}


def default_credit(config: TrainConfig, game: Game) -> CreditName:
    """Return the credit of a run without --credit."""
    # ART's hosts compute advantages of their own, one for each game.
    own = config.trainer_host in ("auto", "embedded")
    return "judged" if own and game.analysis.is_judged_by_default else "game"


def turns_of(groups: Sequence[TrajectoryGroup]) -> Iterator[Turn]:
    """Yield all turns of these groups, in their order."""
    for group in groups:
        for trajectory in group.trajectories:
            yield from trajectory.turns


def credit_games(groups: Sequence[TrajectoryGroup], scale: bool) -> list[TrajectoryGroup]:
    """Give each turn the advantage of its game."""

    def credited(one: Trajectory, advantage: float) -> Trajectory:
        return one.with_advantages([advantage] * len(one.turns))

    return [
        group.with_trajectories(
            [
                credited(one, advantage)
                for one, advantage in zip(
                    group.trajectories,
                    group_advantages([one.reward for one in group.trajectories], scale),
                    strict=True,
                )
            ]
        )
        for group in groups
    ]


def group_advantages(
    rewards: Sequence[float], scale: bool, probabilities: Sequence[float] | None = None
) -> list[float]:
    """Return R_i - mean(R), divided by std(R) + 1e-6 if scaled, for each game of a group.

    As ART computes it: the standard deviation is the population's.

    Args:
        rewards: of the games.
        scale: divide by the standard deviation.
        probabilities: of the games, in the limit of a large group; None: all are equal.
    """
    if not rewards:
        return []
    shares = probabilities or [1 / len(rewards)] * len(rewards)
    # The group's mean is the baseline: its games share the deal, so luck of the deal cancels.
    mean = math.fsum(share * reward for share, reward in zip(shares, rewards, strict=True))
    variance = math.fsum(
        share * (reward - mean) ** 2 for share, reward in zip(shares, rewards, strict=True)
    )
    # 1e-6 as in ART; equal rewards give advantages of 0, not a division by 0.
    # The unit of A is standard deviations of the group, or without `scale` that of the reward.
    divisor = math.sqrt(variance) + 1e-6 if scale else 1.0
    return [(reward - mean) / divisor for reward in rewards]
