"""Train a model at Kuhn poker with ART's own classes, on a CPU.

    python docs/examples/art_kuhn.py --steps 20

Needs `pip install '.[art]'`. The same command continues from the newest checkpoint. Only
the backend is arena's: with `art.local.LocalBackend` the same loop trains on a GPU.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from statistics import fmean
from typing import Any

from trainers.hosts.art.embedded_backend import EmbeddedBackend  # Imports ART first, and quietly.

# isort: split
import art

from arena import Decision, Match, Observation, make_game, play
from trainers.pretrain.random_init import make_random_init

GAME = make_game("kuhn_poker")
DEALS, GAMES = 4, 8
"""Groups per step, and games of each: the same cards in the same seat."""
Model = art.TrainableModel[Any, Any]


class Learner:
    """Plays one seat with the model's newest weights, and collects its trajectory."""

    def __init__(self, model: Model, seed: int) -> None:
        self.trajectory = art.Trajectory(messages_and_choices=[], reward=0.0)
        self._model = model
        self._seed = seed

    async def act(self, observation: Observation) -> Decision:
        """Ask the model for one of the legal actions."""
        items = self.trajectory.messages_and_choices
        items.append({"role": "user", "content": observation.text("notes")})
        legal = {str(action): action for action in observation.legal_actions}
        reply = await self._model.openai_client().chat.completions.create(
            model=self._model.get_inference_name(),
            messages=self.trajectory.messages(),
            max_tokens=8,
            seed=self._seed,
            logprobs=True,  # Without them ART trains nothing.
            extra_body={
                "structured_outputs": {"choice": list(legal)},
                "return_token_ids": True,
            },
        )
        # A `Choice` is trained; dicts, such as the question above, are context.
        items.append(reply.choices[0])
        return Decision(legal[reply.choices[0].message.content or ""])


async def rollout(model: Model, deal: int, number: int) -> art.Trajectory:
    """Play one game against a bot; the reward is the return in chips."""
    agents = Match(GAME, ["bot:random"] * 2, seed=deal).seat()
    learner, seat = Learner(model, seed=1000 * deal + number), deal % 2
    agents[seat] = learner
    episode = await play(Match(GAME, (), seed=deal), agents)
    learner.trajectory.reward = episode.outcome.returns[seat]
    return learner.trajectory


async def train(folder: Path, steps: int) -> list[float]:
    """Train until the model has done `steps` steps; returns the mean reward of each."""
    base = folder / "base"
    if not base.exists():
        make_random_init(GAME, base)
    backend = EmbeddedBackend(base, path=folder / ".art", device="cpu")
    model: Model = art.TrainableModel(
        name="kuhn", project="arena", base_model="scratch", report_metrics=[]
    )
    await model.register(backend)
    deal = (model.read_state() or {}).get("next_deal", 0)  # A resumed run plays new deals.
    rewards = []
    while await model.get_step() < steps:
        groups = await art.gather_trajectory_groups(
            [
                art.TrajectoryGroup(rollout(model, deal + k, n) for n in range(GAMES))
                for k in range(DEALS)
            ],
            pbar_desc=None,
        )
        # All arrives in the order of completion; sorted, the same seed gives the same weights.
        for group in groups:
            group.trajectories.sort(key=lambda each: str(each.messages()))
        groups.sort(key=lambda group: str([each.messages() for each in group]))
        result = await backend.train(model, groups, learning_rate=1e-3, threads=1)
        rewards.append(fmean(each.reward for group in groups for each in group))
        await model.log(groups, split="train", metrics=result.metrics, step=result.step)
        deal += DEALS
        model.merge_state({"next_deal": deal})
        await model.delete_checkpoints("train/reward")  # All but the newest and the best.
        print(f"step {result.step}: {rewards[-1]:+.2f} chips a game")
    await backend.close()
    return rewards


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/art-kuhn"))
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    asyncio.run(train(options.folder, options.steps))
