"""Estimators of credit: advantages of the turns of a step's groups.

With R_i the reward of game i of a group and mean(R) over the games of that group,

    game        A_t = R_i - mean(R), for every turn t of the game (outcome supervision: Shao et al.
                2024, arXiv:2402.03300)
    judged      A_t = sum_k w_k (q_k - b_k) + w_game (R_i - mean(R))
    group-step  A_t = w_game (R_i - mean(R)) + w_step (R_i - mean over S_t of R)
    turn        A_t = sum_k lambda^k delta_(t+k),  delta_t = r_t + V(s_(t+1)) - V(s_t)

where q_k are the values of the decision by exact knowledge (`GameAnalysis.decision_kinds`), w_k
their weights, and b_k the mean over all decisions of the step whose values are compared with it, or
0 for values that are absolute. So a deduction is rewarded in the turn in which it is made. Answers
that are not legal have the one value -1 of the kind `illegal`, at their own turn.

A judged value looks no further than its decision. Where giving up value now wins more games later,
as with a bluff, it pulls away from the best play; the guide to training has figures. A baseline by
information set (q minus its expectation under the policy) has the same expected gradient, so it
changes nothing. With judged_steps = n, w_k is multiplied by max(0, 1 - step / n), and the steps
after n have the optimum of the game.

In `group-step` S_t are the games of the group in which the seat met the same information state: all
that it had observed was equal (GiGPO: Feng et al. 2025, "Group-in-Group Policy Optimization for LLM
Agent Training", arXiv:2505.10978, without discount and by default without scaling). A game whose
state is its own has the step part 0.

`turn` is GAE(lambda) (Schulman et al. 2016, arXiv:1506.02438) over the turns of the seat. r_t is
minus the cost of an illegal reply, and at the last turn the reward of the game is added. V is the
critic (`trainers.credit.critic`) plus w_information (1 - H_t / H_dealt), with H_t the entropy of
the seat's own exact posterior. V(end) = 0 at every end, so this potential moves no optimum (Ng,
Harada and Russell, ICML 1999). A critic that explains too little is left out for the step; then
A_t is that of `game`, and illegal replies keep their cost.

The group shares the deal and the seat, so its mean is a baseline that takes out the luck of the
deal. With `scale` R_i - mean(R) is divided by the group's standard deviation + 1e-6, as ART and the
GRPO paper do. Since an information set spans deals, this weighs the worlds that the player cannot
tell apart by 1/std, and so moves the optimum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arena.core.errors import UsageError
from arena.core.game import Game
from trainers.config.config import CreditName, TrainConfig
from trainers.credit.critic import turn_rewards
from trainers.rewards.scoring import TermSummary, parse_weights
from trainers.rewards.terms import OWN_ENTROPY
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn

GAME, ILLEGAL, STEP, INFORMATION = "game", "illegal", "step", "information"
GAME_SHARE = 0.5
"""Default weight of the game's advantage beside judged decisions."""


@dataclass(frozen=True, slots=True)
class Credit:
    """An estimator with its settings."""

    name: CreditName = "game"
    scale: bool = False
    """Divide by the group's standard deviation."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of `judged`, by kind of decision; also `game`, `illegal`, `step` and `information`."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """The set of decisions that each kind is compared with, by kind; a kind without is absolute."""
    gae_lambda: float = 0.95
    judged_steps: int = 0
    """Steps over which the weights of judged decisions fall to 0; 0: never."""

    @classmethod
    def parse(cls, config: TrainConfig, game: Game) -> Credit:
        """Return the credit that a config means. Raises UsageError."""
        kinds = game.analysis.decision_kinds
        name = config.credit or default_credit(config, game)
        weights = {kind: each.weight for kind, each in kinds.items()} if name == "judged" else {}
        weights |= _OTHER_WEIGHTS[name]
        if name == "judged" and not kinds:
            raise UsageError(
                f"--credit judged: {game.name} does not value single decisions; take game"
            )
        if name == "turn" and game.analysis.assessor((), ("knowledge",)) is None:
            raise UsageError(
                f"--credit turn: {game.name} has no exact knowledge, from which the features of "
                "the critic are made; take game or group-step"
            )
        if name == "turn" and config.scale_advantages:
            raise UsageError(
                "scale_advantages=true: --credit turn is not centred by groups, so there is "
                "nothing to divide; leave it out"
            )
        if config.credit_weights:
            given = parse_weights(config.credit_weights, "credit_weights")
            if name == "game":
                raise UsageError(
                    f"credit_weights={config.credit_weights}: --credit game has no weights; take "
                    "judged, group-step or turn"
                )
            if unknown := sorted(given.keys() - weights.keys()):
                raise UsageError(
                    f"credit_weights: there is no kind '{unknown[0]}'; the kinds are: "
                    f"{', '.join(weights)}"
                )
            weights |= given
        compared = {kind: each.compared for kind, each in kinds.items() if each.compared}
        scale, steps = config.scale_advantages, config.judged_steps
        if steps and name != "judged":
            raise UsageError(
                f"judged_steps={steps}: --credit {name} has no judged decisions; take judged"
            )
        return cls(name, scale, weights, compared, config.gae_lambda, steps)

    def describe(self, game: Game) -> list[TermSummary]:
        """Return the parts of the advantages and their weights, as a dry run prints them."""
        about = {name: kind.about for name, kind in game.analysis.decision_kinds.items()}
        about |= _ABOUT
        return [
            TermSummary(f"decision:{name}", f"{about[name]}.", weight, True)
            for name, weight in self.weights.items()
        ]

    def assign(
        self,
        groups: Sequence[TrajectoryGroup],
        values: Sequence[float] | None = None,
        done: int = 0,
    ) -> list[TrajectoryGroup]:
        """Return the groups of a step, in which no game failed, with the advantages of their turns.

        `values` are the critic's for each turn, in their order; None: there is no critic. `done` is
        the number of finished steps, for `judged_steps`.
        """
        if self.name == "turn" and values is not None:
            return self._by_turn(groups, values)
        baselines = self._baselines(groups)
        share = max(0.0, 1 - done / self.judged_steps) if self.judged_steps else 1.0
        return [self._by_game(group, baselines, share) for group in groups]

    def _by_game(
        self, group: TrajectoryGroup, baselines: Mapping[str, float], share: float
    ) -> TrajectoryGroup:
        """Give each turn its share of the game, its own part, and the cost of an illegal reply."""
        game, cost = self.weights.get(GAME, 1.0), self.weights.get(ILLEGAL, 0.0)
        steps = self._steps(group) if self.name == "group-step" else {}
        advantages = group_advantages([one.reward for one in group.trajectories], self.scale)

        def advantage(number: int, turn: Turn) -> float:
            own = 0.0
            if self.name == "judged":
                own = share * self._judged(turn, baselines)
            elif steps and turn.position is not None:
                own = self.weights[STEP] * steps[turn.position.state][number]
            return game * advantages[number] + own - (0.0 if turn.is_legal else cost)

        return group.with_trajectories(
            [
                one.with_advantages([advantage(number, turn) for turn in one.turns])
                for number, one in enumerate(group.trajectories)
            ]
        )

    def _judged(self, turn: Turn, baselines: Mapping[str, float]) -> float:
        """Return the sum of w_k (q_k - b_k); 0 for a turn without judgements."""
        return math.fsum(
            self.weights[one.kind]
            * (one.value - baselines.get(self.baselines.get(one.kind, ""), 0.0))
            for one in turn.judgements
        )

    def _steps(self, group: TrajectoryGroup) -> dict[str, dict[int, float]]:
        """Return by information state the advantages of the games that share it, by number."""
        # A state occurs once in a game, with one or more turns.
        games = defaultdict[str, dict[int, None]](dict)
        for number, one in enumerate(group.trajectories):
            for turn in one.turns:
                if turn.position is not None:
                    games[turn.position.state][number] = None
        rewards = [one.reward for one in group.trajectories]
        found = {}
        for state, own in games.items():
            advantages = group_advantages([rewards[number] for number in own], self.scale)
            found[state] = dict(zip(own, advantages, strict=True))
        return found

    def _by_turn(
        self, groups: Sequence[TrajectoryGroup], values: Sequence[float]
    ) -> list[TrajectoryGroup]:
        drawn = iter(values)

        def credited(one: Trajectory) -> Trajectory:
            estimates = [next(drawn) + self._potential(turn) for turn in one.turns]
            rewards = turn_rewards(one, self.weights[ILLEGAL])
            # A_t = delta_t + lambda A_(t+1), from the last turn, after which V is 0.
            later, following, advantages = 0.0, 0.0, list[float]()
            for reward, value in zip(reversed(rewards), reversed(estimates), strict=True):
                later = reward + following - value + self.gae_lambda * later
                following = value
                advantages.append(later)
            return one.with_advantages(reversed(advantages))

        return [
            group.with_trajectories([credited(one) for one in group.trajectories])
            for group in groups
        ]

    def _potential(self, turn: Turn) -> float:
        weight = self.weights[INFORMATION]
        return weight * (1 - turn.position.features[OWN_ENTROPY]) if turn.position else 0.0

    def _baselines(self, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        """Return the mean value of the decisions that are compared, by the name of their set."""
        values = defaultdict[str, list[float]](list)
        turns = (turn for group in groups for turn in group.turns)
        for one in (judgement for turn in turns for judgement in turn.judgements):
            if one.kind in self.baselines:
                values[self.baselines[one.kind]].append(one.value)
        return {name: math.fsum(each) / len(each) for name, each in values.items()}


_OTHER_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "game": {},
    "judged": {GAME: GAME_SHARE, ILLEGAL: 1.0},
    # As in GiGPO: the sum of both parts.
    "group-step": {GAME: 1.0, STEP: 1.0, ILLEGAL: 1.0},
    "turn": {INFORMATION: 0.0, ILLEGAL: 1.0},
}
"""Default weights by estimator, without those of the game's kinds of decisions."""
_ABOUT = {
    GAME: "the game's advantage, at each of its turns",
    STEP: "the reward minus the mean of the group's games with the same information state",
    INFORMATION: "potential of the seat's own exact posterior, 0 at every end",
    ILLEGAL: "-1 for each reply without a legal action",
}


def default_credit(config: TrainConfig, game: Game) -> CreditName:
    """Return the credit of a run without --credit."""
    # ART's hosts compute advantages of their own, one for each game.
    own = config.trainer_host in ("auto", "embedded")
    return "judged" if own and game.analysis.is_judged_by_default else "game"


def credit_games(groups: Sequence[TrajectoryGroup], scale: bool) -> list[TrajectoryGroup]:
    """Give each turn the advantage of its game."""
    return Credit("game", scale).assign(groups)


def group_advantages(
    rewards: Sequence[float], scale: bool, probabilities: Sequence[float] | None = None
) -> list[float]:
    """Return R_i - mean(R), divided by std(R) + 1e-6 if scaled, for each game of a group.

    As ART computes it: the standard deviation is the population's. `probabilities` are those of the
    games in the limit of a large group; by default all are equal.
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
