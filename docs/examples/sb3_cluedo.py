"""Train MaskablePPO on Cluedo with all 21 cards, then measure it on `arena/Cluedo-v0`.

    pip install 'arena-games[sb3]'
    python docs/examples/sb3_cluedo.py --steps 400000 --games 400

Most of the 670 actions name three of 21 cards. So the network scores cards instead of actions: the
same weights read every card, and the logit of an action is the sum of the scores of its cards.
Without that, each of 324 accusations would have to be learned on its own.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from seat_vec_env import SeatVecEnv, any_legal
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

import arena
from arena.evaluation.statistics import rate

KINDS = ("Suggest", "Accuse", "Show", "EndTurn")
FIRST_ACCUSATIONS = 0.05
"""About the share of accusations among the learner's first moves; of uniform ones, half are."""
OPPONENTS_ACCUSATIONS = 0.1
"""Of the opponents in training: `bot:random` has 0.02, with which games take longer."""


def action_parts(game: arena.Game) -> Tensor:
    """Return which scores each action sums: shape (4 * cards + 4, actions), of 0 and 1.

    The first rows are the scores of the cards for each kind of action, the last four those of the
    kinds themselves.
    """
    cards = game.deck.index
    parts = torch.zeros(len(KINDS) * (len(cards) + 1), len(game.actions))
    for number, action in enumerate(game.actions):
        kind = KINDS.index(type(action).__name__)
        parts[len(KINDS) * len(cards) + kind, number] = 1.0
        named = getattr(action, "triple", None) or ([action.card] if kind == 2 else [])
        for card in named:
            parts[kind * len(cards) + cards[card], number] = 1.0
    return parts


class CardReader(BaseFeaturesExtractor):
    """Scores of the cards and of the kinds of action, then a summary for the value.

    The same weights read each card: its row of the notebook, beside sums over its category and over
    all cards.
    """

    def __init__(self, space: spaces.Box, game: arena.Game, width: int = 32) -> None:
        cards, seats = len(game.deck.cards), game.num_players
        super().__init__(space, len(KINDS) * (cards + 1) + width)
        self.game, self.cards, self.columns = game, cards, seats + 1
        sizes = torch.tensor([len(names) for names in game.deck.categories])
        category = torch.repeat_interleave(torch.arange(3), sizes)
        self.register_buffer("same", (category[:, None] == category).float())
        # Each entry of the row: has the card, does not have it, unknown.
        self.card = two_layers(3 * self.columns, width)
        self.whole = two_layers(3 * width + 2 * seats, width)
        self.score = nn.Sequential(two_layers(3 * width, width), nn.Linear(width, len(KINDS)))
        self.kind = nn.Linear(width, len(KINDS))
        start = torch.zeros(len(KINDS))
        start[1] = np.log(FIRST_ACCUSATIONS)
        self.register_buffer("start", start)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the scores and the summary: shape (games, features) from (games, observation)."""
        sizes = [int(np.prod(spec.shape)) for spec in self.game.arrays.specs.values()]
        _, book, _, out, turn = torch.split(seen, sizes, dim=1)
        rows = book.view(-1, self.cards, self.columns)
        card = self.card(torch.cat([(rows == value).float() for value in (-1, 0, 1)], dim=2))
        sums = self.same @ card / 3  # By category, for each of its cards.
        first = [0, len(self.game.deck.suspects), self.cards - 1]  # One card of each category.
        whole = self.whole(torch.cat([sums[:, first].flatten(1), out, turn], dim=1))
        beside = whole[:, None].expand(-1, self.cards, -1)
        scores = self.score(torch.cat([card, sums, beside], dim=2))
        kinds = self.kind(whole) + self.start
        return torch.cat([scores.transpose(1, 2).flatten(1), kinds, whole], dim=1)


def two_layers(inputs: int, width: int) -> nn.Sequential:
    """Return two layers with ReLU."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


class SumOfParts(nn.Module):
    """Logits of the actions: sums of the scores of their parts."""

    def __init__(self, parts: Tensor) -> None:
        super().__init__()
        self.register_buffer("parts", parts)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits: shape (games, actions)."""
        return features[:, : len(self.parts)] @ self.parts


class CardPolicy(MaskableActorCriticPolicy):
    """Policy of MaskablePPO whose logits are sums of the scores of `CardReader`."""

    def __init__(self, *args: Any, game: arena.Game, **kwargs: Any) -> None:
        self.game = game
        super().__init__(
            *args,
            net_arch={"pi": [], "vf": [64]},
            features_extractor_class=CardReader,
            features_extractor_kwargs={"game": game},
            ortho_init=False,
            **kwargs,
        )

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = SumOfParts(action_parts(self.game))


class RandomPlayers:
    """`bot:random` for many games at once: it suggests or shows a card, or rarely accuses."""

    def __init__(self, game: arena.Game) -> None:
        kinds = np.array([KINDS.index(type(action).__name__) for action in game.actions])
        self.accusations = (kinds == 1).astype(np.int8)
        self.moves = ((kinds == 0) | (kinds == 2)).astype(np.int8)

    def __call__(self, masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return an action number for each row of the masks."""
        moves, accusations = masks * self.moves, masks * self.accusations
        # The end of the turn is the last choice.
        allowed = np.where(moves.any(axis=1)[:, None], moves, masks - accusations)
        accuses = accusations.any(axis=1) & (rng.random(len(masks)) < OPPONENTS_ACCUSATIONS)
        return any_legal(np.where(accuses[:, None], accusations, allowed), rng)


def train(steps: int, seed: int) -> MaskablePPO:
    """Return a model after so many of its moves."""
    env = SeatVecEnv("cluedo", 256, opponents=RandomPlayers(arena.make_game("cluedo")))
    model = MaskablePPO(
        CardPolicy,
        env,
        policy_kwargs={"game": env.game},
        n_steps=32,
        batch_size=1024,
        n_epochs=3,
        learning_rate=1e-3,
        gamma=1.0,  # A game has a natural end.
        ent_coef=0.003,
        seed=seed,
        verbose=1,
    )
    return model.learn(steps, log_interval=4)


def play(model: MaskablePPO, opponents: str, games: int, seed: int) -> NDArray[np.int64]:
    """Return how many games each seat has won on `arena/Cluedo-v0`; the model has seat 0."""
    env = arena.FlatActionMaskEnv(gymnasium.make("arena/Cluedo-v0", opponents=opponents))
    wins = np.zeros(env.unwrapped.env.game.num_players, np.int64)
    for number in range(games):
        observation, _ = env.reset(seed=seed + number)
        over = False
        while not over:
            action, _ = model.predict(observation, action_masks=env.action_masks())
            observation, _, terminated, truncated, _ = env.step(int(action))
            over = terminated or truncated
        wins += np.array(env.unwrapped.env.state.returns(), np.int64)
    return wins


def main() -> None:
    """Train, measure and print the share of games that each seat wins."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400_000, help="moves of the learner")
    parser.add_argument("--games", type=int, default=400, help="games of the measurement")
    parser.add_argument("--opponents", default="bot:random", help="SPEC of those in these games")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="runs/sb3-cluedo.zip")
    flags = parser.parse_args()

    torch.set_num_threads(1)
    start = time.process_time()
    model = train(flags.steps, flags.seed)
    model.save(flags.out)
    print(f"trained for {time.process_time() - start:.0f} s of processor time")
    # The games of the training have seeds below 2**31.
    for seat, wins in enumerate(play(model, flags.opponents, flags.games, seed=2**31)):
        share = rate(int(wins), flags.games)
        name = "MaskablePPO" if seat == 0 else flags.opponents
        print(f"seat {seat}, {name}: {share.value:.1%} [{share.low:.1%}, {share.high:.1%}]")


if __name__ == "__main__":
    main()
