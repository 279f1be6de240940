"""Training of a table of logits with exact expected gradients of the product's loss, no sampling.

Groups are infinitely large: all games of a deal, weighted by their probability. A deal fixes all
results of chance. The learner has one seat; the others have a fixed policy. Each iteration takes
the gradient of `policy_loss` over all games, with advantages of `group_advantages`, and steps along
the natural gradient, which has the same fixed points:

    theta(I, a) <- theta(I, a) + rate * g(I, a) / (P(I) pi(a | I)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from arena.core.action import CHANCE, Action
from arena.core.state import State
from arena.evaluation.exact.game_tree import Floats, GameTree, InformationSet
from trainers.algorithms.loss import (
    TokenTargets,
    normalise,
    policy_loss,
)
from trainers.config.config import LossName, UpdateOptions
from trainers.credit import group_advantages

ITERATIONS = 100
RATE = 3.0
"""Step size of the natural gradient."""
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


def fixed_point(
    tree: GameTree,
    policy: Floats,
    seat: int,
    scale: bool = False,
    loss_fn: LossName = "cispo",
) -> Floats:
    """Return the policy after training, in which the choices of `seat` are the learner's.

    With `scale`, advantages are divided by the standard deviation of the group.
    """
    options = UpdateOptions(loss_fn=loss_fn)
    groups = games_by_deal(tree, policy, seat)
    games = [game for group in groups for game in group]
    before = torch.tensor([game.chance * game.others for game in games], dtype=torch.float64)
    ends = np.cumsum([len(group) for group in groups])[:-1]
    returns = [[game.value for game in group] for group in groups]
    # One token for each decision of each game.
    in_game = torch.tensor([n for n, game in enumerate(games) for _ in game.own])
    pairs = torch.tensor([pair for game in games for pair in game.own])
    sets, own = torch.tensor(tree.sets), tree.players == seat
    logits = torch.tensor(np.log(tree.uniform()))
    numbers = torch.arange(len(pairs))
    for _ in range(ITERATIONS):
        logits.requires_grad_()
        logs = torch.log(
            torch.zeros(len(tree.situations), dtype=torch.float64).index_add(0, sets, logits.exp())
        )
        logs = logits - logs[sets]
        new = logs[pairs]
        # P(game) = P(deal) * (the others' moves) * (own moves).
        reached = before * torch.zeros_like(before).index_add(0, in_game, new.detach()).exp()
        advantages = _advantages(returns, np.split(reached.numpy(), ends), scale)
        weight = reached[in_game]
        advantage = torch.tensor(advantages)[in_game]
        targets = TokenTargets(new.detach(), advantage, weight, numbers, new.detach(), numbers)
        targets = normalise(targets, False)
        # `normalise` has divided the weights by their mean.
        loss = policy_loss(new, targets, options, None).loss * weight.mean()
        (gradient,) = torch.autograd.grad(loss, logits)
        reach = torch.zeros(len(tree.situations), dtype=torch.float64)
        reach.index_add_(0, sets[pairs], weight)
        divisor = (reach[sets] * logs.detach().exp()).clamp_min(1e-30)
        # Bounded steps: where a group hardly varies, its standard deviation makes them huge.
        step = (RATE * gradient / divisor).clamp(-3, 3)
        logits = (logs.detach() - step).clamp_min(-50)
    return np.where(own, tree.softmax(logits.detach().numpy()), policy)


def _advantages(
    returns: Sequence[list[float]], reached: Sequence[NDArray[np.float64]], scale: bool
) -> list[float]:
    """Return the advantage of each game, in the limit of large groups."""
    found: list[float] = []
    for values, weights in zip(returns, reached, strict=True):
        found += group_advantages(values, scale, list(weights / weights.sum()))
    return found


def lost(tree: GameTree, policy: Floats, seat: int) -> float:
    """Return how much the seat's policy earns less than a best response."""
    best = tree.best_response(policy, seat)
    return float(tree.values(best)[0, seat] - tree.values(policy)[0, seat])


def drawn_policy(tree: GameTree, seed: int) -> Floats:
    """Return a policy whose rows are drawn evenly from all distributions."""
    rng = np.random.default_rng(seed)
    return tree.softmax(np.log(rng.exponential(size=len(tree.sets))))
