"""Policies of games that are small enough for a complete traversal: best responses and mixtures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena.core.action import Action
from arena.core.game import Game
from arena.evaluation.exact.exploitability import (
    Policy,
    expected_returns,
    policy_array,
    probabilities,
)
from arena.evaluation.exact.game_tree import InformationSet, Situation, game_tree


@dataclass(frozen=True, slots=True)
class AgainstOpponent:
    """Return of a policy against an opponent, averaged over the seats, and of the best response."""

    value: float
    best: float

    @property
    def share(self) -> float:
        """The value as a share of the best response's; 1 is optimal."""
        return self.value / self.best


def information_sets(game: Game) -> dict[InformationSet, Situation]:
    """Return all situations in which a player has a choice, in the order of play."""
    return {InformationSet.of(each.observation): each for each in game_tree(game).situations}


def best_response_value(game: Game, policies: Sequence[Policy], player: int) -> float:
    """Return max u_i over the policies of `player` i against the others'; its own does not matter.

    Raises UsageError as `expected_returns` does.
    """
    tree = game_tree(game)
    best = tree.best_response(policy_array(game, policies), player)
    return float(tree.values(best)[0, player])


def against(game: Game, policy: Policy, opponent: Policy) -> AgainstOpponent:
    """Evaluate `policy` in each seat in turn, with `opponent` in all other seats.

    Raises UsageError as `expected_returns` does.
    """
    # Both are means over the seats, so the order of play favours neither policy.
    value, best = [], []
    for player in range(game.num_players):
        policies = [opponent] * game.num_players
        policies[player] = policy
        value.append(expected_returns(game, policies)[player])
        # The best response takes this seat: the policy there is ignored, the opponents stay.
        best.append(best_response_value(game, policies, player))
    return AgainstOpponent(math.fsum(value) / len(value), math.fsum(best) / len(best))


def average(game: Game, policies: Sequence[Policy]) -> Policy:
    """Return the policy equivalent to drawing one of `policies` before the game and keeping it.

    At an information set I, with reach_k(I) the product of the probabilities that policy k gives to
    the player's own moves before I,

        pi(a | I) = sum_k reach_k(I) pi_k(a | I) / sum_k reach_k(I)

    (Kuhn's theorem: H. W. Kuhn, "Extensive games and the problem of information", 1953).
    """
    table: dict[InformationSet, Mapping[Action, float]] = {}
    for key, situation in information_sets(game).items():
        before = situation.before
        # Own moves only: chance and the others contribute one factor to all k, which cancels.
        reaches = [
            math.prod(probabilities(policy, own.observation).get(own.action, 0.0) for own in before)
            for policy in policies
        ]
        if not any(reaches):
            # No policy plays to this information set, so any mixture is equivalent.
            reaches = [1.0] * len(policies)
        mixed = dict.fromkeys(situation.observation.legal_actions, 0.0)
        # The weights reach_k / sum(reaches) add up to 1, so `mixed` is a distribution.
        for policy, reach in zip(policies, reaches, strict=True):
            for action, probability in probabilities(policy, situation.observation).items():
                mixed[action] += probability * reach / sum(reaches)
        table[key] = mixed
    # A forced move has no entry: a policy is not called for it.
    return lambda observation: table[InformationSet.of(observation)]
