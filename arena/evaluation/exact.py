"""Exact values of policies in small games: the complete tree as arrays, and best responses.

A policy gives each legal action a probability and depends on an `Observation` only. Positions that
a player cannot distinguish form an `InformationSet`: the events that it has observed. As an array
[pairs] of probabilities it has one for each pair of an information set with several legal actions
and one of these actions. With h a position, z an end, pi_-i the product of the probabilities of
chance and of all players but i, and I an information set of player i,

    v_i(h) = sum over the ends z after h of pi(z | h) return_i(z)
    Q(I, a) = sum over h in I of pi_-i(h) v_i(h a) / sum over h in I of pi_-i(h).

The best response to a policy chooses one action per information set, not per position, so it uses
no hidden information. With u_i(pi) the expected return of player i under the policies pi, and n
players,

    NashConv(pi) = sum_i (max_{pi'_i} u_i(pi'_i, pi_-i) - u_i(pi)),
    exploitability(pi) = NashConv(pi) / n.

It is 0 for a Nash equilibrium and positive otherwise. M. Lanctot et al., "A unified game-theoretic
approach to multiagent reinforcement learning", NeurIPS 2017; OpenSpiel's `exploitability` is the
same number.

Assumptions: the game always ends, it lists its chance outcomes, and players have perfect recall
(their observed events determine their own earlier actions and observations). Players that commit at
the same time are traversed one after the other, which is equivalent, since none of them observes
the others' commitments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from arena.agents.agent import KnownPolicy, Seat
from arena.agents.seating import make_agent
from arena.core.action import CHANCE, Action
from arena.core.errors import UsageError
from arena.core.event import Event
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.core.spec import Spec

Floats = NDArray[np.float64]
Policy = Callable[[Observation], Mapping[Action, float]]
"""The probability of each legal action; omitted ones have 0. It is not called if only one action is
legal."""

MOST_POSITIONS = 400_000
"""Positions of the largest tree, which takes a minute to build."""
PROBES = 100
"""Random games from which the number of positions is estimated."""


@dataclass(frozen=True, slots=True)
class InformationSet:
    """All positions that a player cannot distinguish."""

    player: int
    events: tuple[Event, ...]

    @classmethod
    def of(cls, observation: Observation) -> InformationSet:
        return cls(observation.player, observation.events)


@dataclass(frozen=True, slots=True)
class OwnMove:
    """An observation of a player, its action, and the number of this pair."""

    observation: Observation
    action: Action
    pair: int


@dataclass(frozen=True, slots=True)
class Situation:
    """An information set with several legal actions, and its player's moves before it."""

    observation: Observation
    before: tuple[OwnMove, ...]
    """The player's own moves so far, oldest first, without forced ones."""


class GameTree:
    """All positions of a game by depth, and its information sets with several actions."""

    def __init__(self, game: Game) -> None:
        """Visit all positions.

        Raises UsageError if the game has more than `MOST_POSITIONS`, or does not list its chance
        outcomes.
        """
        # The estimate may be wrong by a small factor. The limit itself is checked while counting.
        size = estimated_positions(game)
        if size > 10 * MOST_POSITIONS:
            raise _too_large(game, f"about {size:.0e}")
        found = _Positions(game)
        self.game = game
        self.situations = found.situations
        """Situations by number of the information set."""
        self.first_pairs = np.array(found.first_pairs[:-1])
        """The first pair of each information set; its others follow."""
        self.sets = np.repeat(np.arange(len(found.situations)), np.diff(found.first_pairs))
        """The information set of each pair."""
        players = [situation.observation.player for situation in found.situations]
        self.players = np.array(players, int)[self.sets]
        """The player of each pair."""
        before = [len(situation.before) for situation in found.situations]
        self.depths = np.array(before, int)[self.sets]
        """The number of earlier choices of the same player, for each pair."""
        latest = [each.before[-1].pair if each.before else -1 for each in found.situations]
        self.earlier = np.array(latest, int)[self.sets]
        """The last earlier choice of the same player, for each pair (-1: none)."""
        self.levels = [slice(*ends) for ends in zip(found.starts, found.starts[1:], strict=False)]
        """The positions of each depth."""
        self.parents, self.pairs = np.array(found.parents), np.array(found.pairs)
        """Earlier position of each position, and the pair of the choice between (-1: none)."""
        self.chances, self.returns = np.array(found.chances), np.array(found.returns)
        """Chance of the move to each position, and the returns if it is an end."""
        # The positions after a choice, each with its player and the pair of the choice.
        self._chosen = np.flatnonzero(self.pairs >= 0)
        self._movers = np.full(len(self.pairs), CHANCE)
        self._movers[self._chosen] = self.players[self.pairs[self._chosen]]

    def uniform(self) -> Floats:
        """Return the policy that chooses evenly."""
        return self.softmax(np.zeros(len(self.sets)))

    def softmax(self, logits: Floats) -> Floats:
        """Return the policy proportional to exp(logits) at each information set."""
        # With the maximum subtracted, exp does not overflow.
        weights = np.exp(logits - np.maximum.reduceat(logits, self.first_pairs)[self.sets])
        return self.normalised(weights)

    def values(self, policy: Floats) -> Floats:
        """Return v_i(h) of each position and player if all follow the policy; row 0 is the start.

        Shape [positions, players].
        """
        moves = self._probabilities(policy)[:, None]
        values = self.returns.copy()
        # Bottom up: v(h) = sum over the moves of p(move) v(h move).
        for level in self.levels[:0:-1]:
            np.add.at(values, self.parents[level], moves[level] * values[level])
        return values

    def action_values(self, policy: Floats) -> Floats:
        """Return Q(I, a) of each pair; 0 at an information set that the others never reach."""
        sums, totals = self.counterfactual_values(policy)
        return np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)

    def counterfactual_values(self, policy: Floats) -> tuple[Floats, Floats]:
        """Return the numerator and the denominator of Q(I, a) of each pair."""
        values, reach = self.values(policy), self._reach(policy)
        chosen = self._chosen
        movers, pairs = self._movers[chosen], self.pairs[chosen]
        # The move itself is the player's own, so the reach after it is pi_-i(h).
        weights = reach[chosen, movers]
        number = len(self.sets)
        # With weights the counts are floats, which the stubs of numpy do not say.
        sums = np.bincount(pairs, weights * values[chosen, movers], number).astype(float)
        return sums, np.bincount(pairs, weights, number).astype(float)

    def best_response(self, policy: Floats, player: int) -> Floats:
        """Return the policy with the choices of `player` replaced by a best response."""
        policy = policy.copy()
        # Late choices first: with perfect recall, those before do not change what is best there.
        for depth in range(self.depths.max(initial=0), -1, -1):
            values = self.action_values(policy)
            best = np.maximum.reduceat(values, self.first_pairs)[self.sets]
            greedy = self.normalised((values == best).astype(float))
            policy = np.where((self.players == player) & (self.depths == depth), greedy, policy)
        return policy

    def exploitability(self, policy: Floats) -> float:
        """Return NashConv / players."""
        values = self.values(policy)[0]
        best = [self.values(self.best_response(policy, i))[0, i] for i in range(len(values))]
        return float(np.mean(best - values))

    def plan(self, policy: Floats) -> Floats:
        """Return the realisation plan: the product of the player's choices up to each pair."""
        # The entry at index -1 is that of the empty sequence.
        products = np.append(policy, 1.0)
        for depth in range(1, self.depths.max(initial=0) + 1):
            pairs = np.flatnonzero(self.depths == depth)
            products[pairs] *= products[self.earlier[pairs]]
        return products[:-1]

    def mixture(self, policies: Sequence[Floats], weights: Sequence[float]) -> Floats:
        """Return the policy of players that each draw one of the policies before every game.

        A player that draws policy k with probability w_k has the plan sum_k w_k plan_k, and with
        perfect recall the policy in proportion to it plays as the draw does (Kuhn's theorem; D.
        Koller, N. Megiddo and B. von Stengel, STOC 1994). It is no mean of probabilities: a policy
        counts the more at an information set, the more often its own choices lead there.
        """
        plans = [w * self.plan(policy) for w, policy in zip(weights, policies, strict=True)]
        return self.normalised(np.sum(plans, axis=0))

    def normalised(self, weights: Floats) -> Floats:
        """Return the policy in proportion to weights; even where all are 0."""
        totals = np.add.reduceat(weights, self.first_pairs)[self.sets]
        even = 1 / np.bincount(self.sets)[self.sets]
        return np.divide(weights, totals, out=even, where=totals > 0)

    def _probabilities(self, policy: Floats) -> Floats:
        """Return the probability of the move that leads to each position."""
        moves = self.chances.copy()
        moves[self._chosen] = policy[self.pairs[self._chosen]]
        return moves

    def _reach(self, policy: Floats) -> Floats:
        """Return pi_-i(h) of each position and player, [positions, players]."""
        own = self._movers[:, None] == np.arange(self.game.num_players)
        reach = np.where(own, 1.0, self._probabilities(policy)[:, None])
        for level in self.levels[1:]:
            reach[level] *= reach[self.parents[level]]
        return reach


@lru_cache(maxsize=4)
def game_tree(game: Game) -> GameTree:
    """Return the tree of a game, the same object for the same game. Raises as `GameTree` does."""
    return GameTree(game)


Before = tuple[tuple[OwnMove, ...], ...]
"""The earlier choices of each player."""


class _Positions:
    """The positions of a game, breadth first, as lists."""

    def __init__(self, game: Game) -> None:
        self.game = game
        # Of each position: its parent, the pair of the choice that leads to it (-1: none), the
        # probability of chance otherwise, and the returns if it is an end.
        self.parents, self.pairs, self.chances = [0], [-1], [1.0]
        self.returns: list[tuple[float, ...]] = []
        self.starts = [0]
        """The first position of each depth, and the number of positions."""
        self.situations: list[Situation] = []
        self.first_pairs = [0]
        self._numbers: dict[InformationSet, int] = {}
        no_moves: Before = ((),) * game.num_players
        level = [(game.initial_state(), no_moves)]
        while level:
            level = [child for state, before in level for child in self._visit(state, before)]
            self.starts.append(len(self.returns))

    def _visit(self, state: State, before: Before) -> Iterator[tuple[State, Before]]:
        """Record a position, and yield those after it."""
        number = len(self.returns)
        self.returns.append(tuple(state.returns()) if state.is_terminal else (0.0,) * len(before))
        if len(self.parents) > MOST_POSITIONS:
            raise _too_large(self.game, f"more than {MOST_POSITIONS:,}")
        for player, action, pair, chance, after in self._moves(state, before):
            self.parents.append(number)
            self.pairs.append(pair)
            self.chances.append(chance)
            # A clone, since other actions are tried from the same position.
            child = state.clone()
            child.apply(player, action)
            yield child, after

    def _moves(
        self, state: State, before: Before
    ) -> Iterator[tuple[int, Action, int, float, Before]]:
        """Yield the player, action, pair and chance of each move, and the choices after it."""
        if state.is_terminal:
            return
        player = state.to_act[0]
        if player == CHANCE:
            for outcome in state.chance_outcomes():
                yield player, outcome.action, -1, outcome.probability, before
            return
        observation = state.observe(player)
        legal = list(observation.legal_actions)
        if len(legal) == 1:  # A forced move is no choice.
            yield player, legal[0], -1, 1.0, before
            return
        pair = self._first_pair(Situation(observation, before[player]))
        for action in legal:
            own = (*before[player], OwnMove(observation, action, pair))
            yield player, action, pair, 1.0, (*before[:player], own, *before[player + 1 :])
            pair += 1

    def _first_pair(self, situation: Situation) -> int:
        """Return the first pair of the situation's information set, which may be a new one."""
        # With perfect recall, all positions of a set have the same own moves before them: the
        # first position is enough.
        number = self._numbers.setdefault(
            InformationSet.of(situation.observation), len(self.situations)
        )
        if number == len(self.situations):
            self.situations.append(situation)
            actions = len(situation.observation.legal_actions)
            self.first_pairs.append(self.first_pairs[-1] + actions)
        return self.first_pairs[number]


def estimated_positions(game: Game) -> float:
    """Return an unbiased estimate of the number of positions, from random games.

    D. E. Knuth, "Estimating the efficiency of backtrack programs" (1975): a game with b_1, b_2, …
    possible moves estimates 1 + b_1 + b_1 b_2 + … The result is too small for a game that does not
    list its chance outcomes.
    """
    rng, total = random.Random(0), 0.0
    for _ in range(PROBES):
        state, width = game.initial_state(), 1.0
        while not state.is_terminal:
            total += width
            player = state.to_act[0]
            if player == CHANCE:
                actions = _chance_actions(state, rng)
            else:
                actions = list(state.legal_actions(player))
            width *= len(actions)
            state.apply(player, rng.choice(actions))
        total += width
    return total / PROBES


def _chance_actions(state: State, rng: random.Random) -> list[Action]:
    try:
        return [outcome.action for outcome in state.chance_outcomes()]
    except NotImplementedError:
        return [state.sample_chance(rng)]


def _too_large(game: Game, size: str) -> UsageError:
    return UsageError(f"{game!r} has {size} positions, at most {MOST_POSITIONS:,} are possible")


# Policies of players


def expected_returns(game: Game, policies: Sequence[Policy]) -> list[float]:
    """Return the expected return u_i of each player i if `policies[i]` decides for it.

    Raises UsageError for a wrong number of policies, one that does not give a distribution, or a
    game that is too large.
    """
    returns: list[float] = game_tree(game).values(policy_array(game, policies))[0].tolist()
    return returns


def exploitability(game: Game, policy: Policy) -> float:
    """Return the distance of a policy, used in all seats, from a Nash equilibrium.

    It is in units of the returns, averaged over the players; 0 means an equilibrium. Raises
    UsageError as `expected_returns` does.
    """
    return game_tree(game).exploitability(policy_array(game, [policy] * game.num_players))


def policy_array(game: Game, policies: Sequence[Policy]) -> Floats:
    """Return the policies of all players as an array for `GameTree`.

    Raises UsageError as `expected_returns` does.
    """
    if len(policies) != game.num_players:
        raise UsageError(f"{game!r} needs {game.num_players} policies, not {len(policies)}")
    tree = game_tree(game)
    array = tree.uniform()
    for first, situation in zip(tree.first_pairs, tree.situations, strict=True):
        observation = situation.observation
        chances = probabilities(policies[observation.player], observation)
        legal = observation.legal_actions
        array[first : first + len(legal)] = [chances.get(action, 0.0) for action in legal]
    return array


def probabilities(policy: Policy, observation: Observation) -> dict[Action, float]:
    """Return the legal actions with a probability above 0.

    Raises UsageError if the policy does not give a distribution over the legal actions.
    """
    legal = observation.legal_actions
    # A forced move needs no policy.
    if len(legal) == 1:
        return {legal[0]: 1.0}
    choice = policy(observation)
    # The tolerance of 1e-6 is for rounding; probabilities are used as they are given.
    illegal = any(action not in legal for action in choice)
    if illegal or min(choice.values(), default=0.0) < 0 or abs(sum(choice.values()) - 1) > 1e-6:
        listed = ", ".join(f"{action}: {p:g}" for action, p in choice.items())
        place = f"player {observation.player} after {observation.num_events} events"
        raise UsageError(
            f"a policy gives {{{listed}}} to {place}: not a distribution over "
            f"{', '.join(map(str, legal))}"
        )
    return {action: p for action, p in choice.items() if p > 0}


def stated_policy(spec: str, game: Game) -> Policy | None:
    """Return the policy of a bot that states its probabilities; None for other players.

    Raises UsageError if there is no such bot.
    """
    # Only bots: to make a model's agent may need a server.
    if Spec.parse(spec).prefix != "bot":
        return None

    def bot(player: int) -> KnownPolicy | None:
        # The generator is not used: the probabilities are those before a draw.
        agent = make_agent(spec, Seat(game, player, random.Random(0)))
        return agent if isinstance(agent, KnownPolicy) else None

    def policy(observation: Observation) -> Mapping[Action, float]:
        # A fresh bot each time: the traversal asks in no order of play.
        fresh = bot(observation.player)
        assert fresh is not None
        return fresh.probabilities(observation)

    return None if bot(0) is None else policy
