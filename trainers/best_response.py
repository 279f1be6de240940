"""A best response to frozen players: a small network that learns by groups of full games.

The network reads the array observation x of its seat and gives each action a a score f(x)_a. It
plays

    pi(a | x) proportional to prior(a) exp(f(x)_a)

over the legal actions. The prior is uniform, or a bot of the game whose moves are mixed with a
share `MIX` of uniform ones. The scores begin at 0: such a response begins as the bot and learns
where to deviate from it, which makes games learnable that are hopeless from nothing.

It learns as in `arena train`: G games share a deal and a seat, the advantage of a game is its
return minus the mean of the group, without a division by the group's standard deviation, which
would move the optimum. Each batch makes a few steps of PPO's clipped loss (Schulman et al. 2017,
"Proximal policy optimization algorithms") with Adam and an entropy bonus that ends at 0. After
training the response plays the action of the highest score, since some best response is pure.

Everything is numpy: games of bots take a millisecond, and a call of torch would take half of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena.agents.agent import Agent, KnownPolicy, Seat
from arena.agents.seating import make_agent
from arena.core.action import Action, Speech
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation, ObservedGame
from arena.core.seeds import stream
from arena.core.spec import Spec
from arena.episodes.job import GameJob
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.evaluation.deviation import Deviation
from arena.evaluation.exact.exploitability import Policy

Floats = NDArray[np.float32]

HIDDEN = 64
"""Units of each of the two hidden layers."""
MIX = 0.1
"""Share of uniform moves in the prior that a bot gives."""
GROUP = 4
"""Games of one deal with the learner in one seat."""
STEPS = 60
"""Updates of a training, if its games suffice for groups of `DEALS` deals."""
DEALS = (2, 32)
"""Least and most deals of an update."""
EPOCHS, CLIP = 4, 0.2
"""Passes over a batch, and the greatest change of a probability's ratio that is rewarded."""
LEARNING_RATE, ENTROPY = 5e-3, 0.1
"""At the beginning; both fall to 0 linearly. Entropy in units of the advantages' spread."""
FILE = "response.npz"
BASE = "base"
"""Key of a training decision's details: the base's probabilities by action number."""


@dataclass(frozen=True, slots=True)
class ResponsePolicy:
    """Weights of a response, and how it plays."""

    weights: tuple[Floats, ...]
    """W1, b1, W2, b2, W3, b3."""
    base: str = ""
    """SPEC of the bot in the prior; empty for a uniform prior."""
    explores: bool = False
    """Draw from the policy and record the decisions, to learn; else play the best action."""

    @classmethod
    def new(cls, game: Game, base: str, seed: int) -> ResponsePolicy:
        """Return random hidden layers (He et al. 2015) and scores of 0."""
        rng = np.random.default_rng(seed)
        sizes = [num_features(game), HIDDEN, HIDDEN, len(game.actions)]
        weights: list[Floats] = []
        for rows, columns in pairwise(sizes):
            scale = np.sqrt(2 / rows) if columns == HIDDEN else 0.0
            drawn = rng.standard_normal((rows, columns), np.float32) * np.float32(scale)
            weights += [drawn, np.zeros(columns, np.float32)]
        return cls(tuple(weights), base, explores=True)

    def scores(self, x: Floats) -> Floats:
        """Return the scores (…, actions) of features (…, features)."""
        return self.layers(x)[-1]

    def layers(self, x: Floats) -> list[Floats]:
        """Return the input, both hidden layers and the scores."""
        w1, b1, w2, b2, w3, b3 = self.weights
        first = np.maximum(x @ w1 + b1, 0)
        second = np.maximum(first @ w2 + b2, 0)
        return [x, first, second, second @ w3 + b3]

    def save(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        arrays: dict[str, Any] = {f"w{place}": w for place, w in enumerate(self.weights)}
        with part.open("wb") as file:
            np.savez(file, base=self.base, explores=self.explores, **arrays)
        part.replace(path)


def num_features(game: ObservedGame) -> int:
    """Return the number of features of an observation."""
    return game.num_players + sum(
        int(np.prod(spec.shape, dtype=int)) for spec in game.arrays.specs.values()
    )


def features(observation: Observation) -> Floats:
    """Return the arrays of an observation as one vector, divided by their bounds, and the seat."""
    game = observation.game
    arrays, parts = observation.arrays(), [np.zeros(game.num_players, np.float32)]
    # Some arrays have the observer first, so that the seat is not in them.
    parts[0][observation.player] = 1
    for name, spec in game.arrays.specs.items():
        bound = max(abs(spec.low), abs(spec.high))
        parts.append(arrays[name].astype(np.float32).ravel() / (bound if 0 < bound < inf else 1))
    return np.concatenate(parts)


def log_prior(base: Mapping[int, float], mask: NDArray[np.int8]) -> Floats:
    """Return the log-probabilities (actions,) of the prior; -inf for what is not legal."""
    prior = mask / mask.sum()
    if base:
        prior *= MIX
        prior[list(base)] += (1 - MIX) * np.array(list(base.values()))
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(prior).astype(np.float32)
    return logs


def log_softmax(logits: Floats) -> Floats:
    """Return log-probabilities over the last axis; logits of -inf stay so."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logs: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs


# The agent


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int) -> ResponsePolicy:
    with np.load(path, allow_pickle=False) as file:
        weights = tuple(file[f"w{place}"] for place in range(6))
        return ResponsePolicy(weights, str(file["base"]), bool(file["explores"]))


def read_response(text: str) -> ResponsePolicy:
    """Return the response of a folder of `arena exploit`, or of a file in it.

    Raises UsageError if it is none.
    """
    path = Path(text)
    path = path / FILE if path.is_dir() else path
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"response:{text}: no response of arena exploit is there ({type(error).__name__})"
        ) from None


class ResponseAgent:
    """Agent `response:FOLDER`: the best response that `arena exploit` has trained."""

    def __init__(self, rest: str, seat: Seat) -> None:
        """Read the weights. Raises UsageError if they do not fit the game of the seat."""
        self._policy, self._rng = read_response(rest), seat.rng
        game, (first, *_, last) = seat.game, self._policy.weights
        if (len(first), len(last)) != (num_features(game), len(game.actions)):
            raise UsageError(
                f"response:{rest} was trained on another game, or with other options than {game!r}"
            )
        self._base: Agent | None = (
            make_agent(self._policy.base, seat) if self._policy.base else None
        )

    async def act(self, observation: Observation) -> Decision:
        base: dict[int, float] = {}
        numbers = observation.game.actions.index
        if isinstance(self._base, KnownPolicy):
            base = self._known(self._base, observation)
        elif self._base is not None:
            choice = (await self._base.act(observation)).action
            if isinstance(choice, Speech):  # It has no number: the bot speaks for the response.
                return Decision(choice)
            base = {numbers[choice]: 1.0}
        logs = self._log_probabilities(base, observation)
        if not self._policy.explores:
            return Decision(observation.game.actions[int(logs.argmax())])
        draws = np.exp(logs.astype(np.float64)).cumsum()
        number = int(np.searchsorted(draws, self._rng.random() * draws[-1], side="right"))
        known: dict[str, JsonValue] = {str(each): share for each, share in base.items()}
        return Decision(observation.game.actions[number], details={BASE: known})

    def choice(self, observation: Observation) -> Mapping[Action, float]:
        """Return the trained response's choice as a policy, for a base that states its own."""
        bot = self._base
        base = self._known(bot, observation) if isinstance(bot, KnownPolicy) else {}
        logs = self._log_probabilities(base, observation)
        return {observation.game.actions[int(logs.argmax())]: 1.0}

    @staticmethod
    def _known(bot: KnownPolicy, observation: Observation) -> dict[int, float]:
        numbers = observation.game.actions.index
        return {numbers[action]: p for action, p in bot.probabilities(observation).items() if p}

    def _log_probabilities(self, base: Mapping[int, float], observation: Observation) -> Floats:
        prior = log_prior(base, observation.legal_actions.mask)
        return log_softmax(self._policy.scores(features(observation)) + prior)


def response_policy(spec: str, game: Game) -> Policy:
    """Return the policy of a trained response whose base states its probabilities, or has none."""
    agents = [
        ResponseAgent(Spec.parse(spec).rest, Seat(game, player, Random(0)))
        for player in range(game.num_players)
    ]
    return lambda observation: agents[observation.player].choice(observation)


# Learning


@dataclass(frozen=True, slots=True)
class RecordedChoices:
    """Decisions of the learner in one game, or in several."""

    x: Floats
    """Features, (decisions, features)."""
    log_priors: Floats
    """(decisions, actions)"""
    actions: NDArray[np.int64]
    """Numbers of the chosen actions, (decisions,)."""
    returns: Floats
    """Return of the learner's seat in the game, (decisions,); in a batch the advantage."""


ChosenGame = tuple[float, RecordedChoices]
"""Return of the learner's seat in a game, and its decisions."""


def choices_of(seat: int, game: Game, episode: Episode) -> ChosenGame:
    """Return what the seat has earned, and its decisions: the measurement of a training game."""
    state, found, earned = game.initial_state(), [], episode.outcome.returns[seat]
    for ply in episode.plies:
        if ply.player == seat and ply.decision.failure is not None:
            raise ArenaError(f"the response failed: {ply.decision.failure}")
        base = ply.decision.details.get(BASE) if ply.player == seat else None
        if isinstance(base, dict):
            seen = state.observe(seat)
            prior = log_prior(
                {int(n): float(str(p)) for n, p in base.items()}, seen.legal_actions.mask
            )
            found.append((features(seen), prior, game.actions.index[ply.decision.action]))
        state.apply(ply.player, ply.decision.action)
    x, priors, actions = zip(*found, strict=True) if found else ((), (), ())
    shape = (len(found), -1) if found else (0, 0)
    return earned, RecordedChoices(
        np.array(x, np.float32).reshape(shape),
        np.array(priors, np.float32).reshape(shape),
        np.array(actions, np.int64),
        np.full(len(found), earned, np.float32),
    )


class ResponseLearner:
    """Adam's state and the weights that it changes."""

    def __init__(self, policy: ResponsePolicy) -> None:
        self.policy = policy
        self._means = [np.zeros_like(weight) for weight in policy.weights]
        self._squares = [np.zeros_like(weight) for weight in policy.weights]
        self._updates = 0

    def learn(self, batch: RecordedChoices, left: float) -> None:
        """Make `EPOCHS` updates on a batch; `left` is the share of the training that is left."""
        spread = float(np.sqrt(np.mean(batch.returns**2))) if len(batch.actions) else 0.0
        if spread == 0.0:
            return  # Every group had equal returns: nothing tells its actions apart.
        rows = np.arange(len(batch.actions))
        # One factor for the whole batch: unlike one for each group, it does not move the optimum.
        advantages = batch.returns / spread
        old = log_softmax(self.policy.scores(batch.x) + batch.log_priors)[rows, batch.actions]
        for _ in range(EPOCHS):
            layers = self.policy.layers(batch.x)
            logs = log_softmax(layers[-1] + batch.log_priors)
            probabilities = np.exp(logs)
            ratios = np.exp(logs[rows, batch.actions] - old)
            # The clipped loss has no gradient where the ratio has moved beyond the clip already.
            inside = np.where(advantages > 0, ratios < 1 + CLIP, ratios > 1 - CLIP)
            weights = inside * ratios * advantages
            # d log pi(a) / d f = onehot(a) - pi; dH / d f = -pi (log pi + H).
            gradient = -weights[:, None] * probabilities
            gradient[rows, batch.actions] += weights
            safe = np.where(probabilities > 0, logs, 0)
            entropy = -(probabilities * safe).sum(axis=1, keepdims=True)
            gradient -= ENTROPY * left * probabilities * (safe + entropy)
            self._step(self._gradients(layers, gradient / len(rows)), LEARNING_RATE * left)

    def _gradients(self, layers: Sequence[Floats], scores: Floats) -> list[Floats]:
        """Return the gradients of all weights from that of the scores: backpropagation."""
        _, _, w2, _, w3, _ = self.policy.weights
        second = (scores @ w3.T) * (layers[2] > 0)
        first = (second @ w2.T) * (layers[1] > 0)
        found: list[Floats] = []
        # The last layer is the scores themselves.
        for x, error in zip(layers, (first, second, scores), strict=False):
            errors: Floats = np.asarray(error, np.float32)
            found += [x.T @ errors, errors.sum(axis=0)]
        return found

    def _step(self, gradients: Sequence[Floats], rate: float) -> None:
        """Ascend by Adam (Kingma and Ba 2015)."""
        self._updates += 1
        one, two = 1 - 0.9**self._updates, 1 - 0.999**self._updates
        changed = []
        moments = zip(self.policy.weights, gradients, self._means, self._squares, strict=True)
        for weight, gradient, mean, square in moments:
            mean[...] += 0.1 * (gradient - mean)
            square[...] += 0.001 * (gradient**2 - square)
            changed.append(weight + rate * (mean / one) / (np.sqrt(square / two) + 1e-8))
        self.policy = replace(self.policy, weights=tuple(changed))


@dataclass(frozen=True, slots=True)
class ResponseTraining:
    """Training of one response against a frozen player.

    `base` is the SPEC of the bot in the prior, empty for a uniform one. The match gives the game
    and the limits. The weights are written to `file` at each update.
    """

    match: Match
    player: str
    games: int
    seed: int
    base: str
    file: Path

    async def run(
        self,
        play: Callable[[Iterable[GameJob[ChosenGame]]], AsyncIterator[ChosenGame]],
    ) -> AsyncIterator[int]:
        """Train; yield the number of games after each update. At the end the file plays greedily.

        `play` plays jobs and yields what they measure in order.
        """
        learner = ResponseLearner(ResponsePolicy.new(self.match.game, self.base, self.seed))
        rng = stream(self.seed, f"response {self.base}")
        deals = min(max(self.games // (GROUP * STEPS), DEALS[0]), DEALS[1])
        played = 0
        while played < self.games:
            learner.policy.save(self.file)
            groups = min(deals, -(-(self.games - played) // GROUP))
            jobs = [job for _ in range(groups) for job in self._group(rng)]
            finished = [game async for game in play(jobs)]
            learner.learn(_batch(finished), 1 - played / self.games)
            played += len(finished)
            yield len(finished)
        replace(learner.policy, explores=False).save(self.file)

    def _group(self, rng: Random) -> list[GameJob[ChosenGame]]:
        """Return the games of one deal and one seat, which differ in the agents' draws."""
        # Below 2^52: no deal of a measurement (`deal_seed` in arena.evaluation) is among them.
        deal, seat = rng.getrandbits(52), rng.randrange(self.match.game.num_players)
        specs = Deviation(self.match, self.player).specs(f"response:{self.file}", seat)
        matches = [
            replace(self.match, specs=specs, seed=deal, agents_seed=rng.getrandbits(52))
            for _ in range(GROUP)
        ]
        return [
            GameJob(f"training game of deal {deal}", match, partial(choices_of, seat))
            for match in matches
        ]


def _batch(games: Sequence[ChosenGame]) -> RecordedChoices:
    """Join the games, group after group; the returns become advantages."""
    returns = np.array([earned for earned, _ in games], np.float32).reshape(-1, GROUP)
    advantages = (returns - returns.mean(axis=1, keepdims=True)).ravel()
    used = [
        replace(choices, returns=np.full(len(choices.actions), advantage, np.float32))
        for (_, choices), advantage in zip(games, advantages.tolist(), strict=True)
        if len(choices.actions)
    ]
    if not used:
        return games[0][1]
    fields = ("x", "log_priors", "actions", "returns")
    return RecordedChoices(
        *(np.concatenate([getattr(each, name) for each in used]) for name in fields)
    )
