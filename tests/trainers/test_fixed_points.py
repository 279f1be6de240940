"""The loss has the right optimum: a table of logits trained on exact gradients of Kuhn poker.

Groups are infinitely large: all games of a deal, weighted by their probability. A deal fixes all
results of chance. The learner has one seat; the others have a fixed policy. Each iteration takes
the gradient of `policy_loss` over all games, and steps along the natural gradient, which has the
same fixed points:

    theta(I, a) <- theta(I, a) + rate * g(I, a) / (P(I) pi(a | I)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from arena.core.action import CHANCE, Action
from arena.core.game import State
from arena.evaluation.exact import Floats, GameTree, InformationSet, game_tree
from arena.plugins.catalog import make_game
from trainers.algorithms.loss import TokenTargets, normalise, policy_loss
from trainers.config.config import UpdateOptions

TREE = game_tree(make_game("kuhn_poker"))
HARD = ((7, 1), (11, 1))
"""Seed of the opponent and seat of the learner, where a division by std misses the optimum."""
ITERATIONS, RATE = 100, 3.0

Deal = tuple[Action, ...]
"""The results of chance, in their order."""


@dataclass(frozen=True)
class Game:
    """The end of a game, for the learner's seat."""

    deal: Deal
    chance: float
    """Probability of the deal."""
    others: float
    """Probability of the others' moves."""
    own: tuple[int, ...]
    """The learner's choices, as pairs of the tree."""
    value: float


def games_by_deal(tree: GameTree, policy: Floats, seat: int) -> list[list[Game]]:
    """Return the games of every deal if the other seats follow the policy."""
    games = list(_games(tree, policy, seat))
    chances = {game.deal: game.chance for game in games}
    # A game that ends before the last move of chance belongs to all deals that begin like it.
    whole = [d for d in chances if not any(o != d and o[: len(d)] == d for o in chances)]
    return [
        [
            Game(deal, chances[deal], game.others, game.own, game.value)
            for game in games
            if deal[: len(game.deal)] == game.deal
        ]
        for deal in whole
    ]


def first_pairs(tree: GameTree) -> dict[InformationSet, int]:
    """Return the first pair of each information set with several actions."""
    return {
        InformationSet.of(situation.observation): int(pair)
        for pair, situation in zip(tree.first_pairs, tree.situations, strict=True)
    }


def _games(tree: GameTree, policy: Floats, seat: int) -> Iterator[Game]:
    first = first_pairs(tree)

    def visit(state: State, game: Game) -> Iterator[Game]:
        deal, chance, others, own = game.deal, game.chance, game.others, game.own
        if state.is_terminal:
            yield Game(deal, chance, others, own, state.returns()[seat])
            return
        player = state.to_act[0]
        after: list[tuple[Action, Game]] = []
        if player == CHANCE:
            for one in state.chance_outcomes():
                dealt = Game((*deal, one.action), chance * one.probability, others, own, 0.0)
                after.append((one.action, dealt))
        else:
            observation = state.observe(player)
            pair = first.get(InformationSet.of(observation))
            for number, action in enumerate(observation.legal_actions):
                if pair is None:  # A forced move.
                    after.append((action, game))
                elif player == seat:
                    own_ = (*own, pair + number)
                    after.append((action, Game(deal, chance, others, own_, 0.0)))
                else:
                    p = others * float(policy[pair + number])
                    after.append((action, Game(deal, chance, p, own, 0.0)))
        for action, following in after:
            child = state.clone()
            child.apply(player, action)
            yield from visit(child, following)

    yield from visit(tree.game.initial_state(), Game((), 1.0, 1.0, (), 0.0))


def advantages_of(values: Floats, weights: Floats, scale: bool) -> Floats:
    """Return R - E[R], divided by std(R) + 1e-6 if scaled: `group_advantages` of a large group."""
    shares = weights / weights.sum()
    centred: Floats = values - shares @ values
    return centred / (np.sqrt(shares @ centred**2) + 1e-6) if scale else centred


def fixed_point(
    tree: GameTree, policy: Floats, seat: int, options: UpdateOptions, scale: bool = False
) -> Floats:
    """Return the policy after training, in which the choices of `seat` are the learner's."""
    groups = games_by_deal(tree, policy, seat)
    games = [game for group in groups for game in group]
    before = torch.tensor([game.chance * game.others for game in games], dtype=torch.float64)
    ends = np.cumsum([len(group) for group in groups])[:-1]
    returns = np.split(np.array([game.value for game in games]), ends)
    # One token for each decision of each game.
    in_game = torch.tensor([n for n, game in enumerate(games) for _ in game.own])
    pairs = torch.tensor([pair for game in games for pair in game.own])
    sets, numbers = torch.tensor(tree.sets), torch.arange(len(pairs))
    logits = torch.tensor(np.log(tree.uniform()))
    for _ in range(ITERATIONS):
        logits.requires_grad_()
        sums = torch.zeros(len(tree.situations), dtype=torch.float64)
        logs = logits - torch.log(sums.index_add(0, sets, logits.exp()))[sets]
        new = logs[pairs]
        # P(game) = P(deal) * (the others' moves) * (own moves).
        reached = before * torch.zeros_like(before).index_add(0, in_game, new.detach()).exp()
        weights = np.split(reached.numpy(), ends)
        advantages = [advantages_of(*group, scale) for group in zip(returns, weights, strict=True)]
        advantage, weight = torch.tensor(np.concatenate(advantages))[in_game], reached[in_game]
        known, legal = new.detach(), torch.ones(len(new), dtype=torch.bool)
        targets = TokenTargets(known, advantage, weight, known, numbers, legal)
        # `normalise` divides the weights by their mean.
        loss = policy_loss(new, normalise(targets), options).loss * weight.mean()
        (gradient,) = torch.autograd.grad(loss, logits)
        reach = torch.zeros_like(sums).index_add(0, sets[pairs], weight)
        divisor = (reach[sets] * logs.detach().exp()).clamp_min(1e-30)
        # Bounded steps: where a group hardly varies, its standard deviation makes them huge.
        step = (RATE * gradient / divisor).clamp(-3, 3)
        logits = (logs.detach() - step).clamp_min(-50)
    return np.where(tree.players == seat, tree.softmax(logits.detach().numpy()), policy)


def lost(seed: int, seat: int, options: UpdateOptions, scale: bool = False) -> float:
    """Return what the trained seat earns less than a best response to a drawn policy."""
    rng = np.random.default_rng(seed)
    opponent = TREE.softmax(np.log(rng.exponential(size=len(TREE.sets))))
    policy = fixed_point(TREE, opponent, seat, options, scale)
    best = TREE.best_response(policy, seat)
    return float(TREE.values(best)[0, seat] - TREE.values(policy)[0, seat])


@pytest.mark.parametrize(("seed", "seat"), HARD)
@pytest.mark.parametrize("options", [UpdateOptions(), UpdateOptions(loss_fn="ppo")])
def test_the_fixed_point_is_a_best_response(seed: int, seat: int, options: UpdateOptions) -> None:
    assert lost(seed, seat, options) < 0.01


@pytest.mark.parametrize(("seed", "seat"), HARD)
def test_division_by_the_standard_deviation_moves_the_optimum(seed: int, seat: int) -> None:
    assert lost(seed, seat, UpdateOptions(), scale=True) > 0.1
