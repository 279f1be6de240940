"""Who sits in the other seats: a weighted mix of SPECs, the newest weights, earlier checkpoints."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from arena.agents.agent import Seat
from arena.agents.seating import default_opponent, make_agent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.llm.service import LLMService
from arena.llm.settings import Settings

NEWEST = "policy:newest"
"""The SPEC of the learner, and of opponents called `self`."""


def policy_spec(step: int) -> str:
    """The SPEC of a checkpoint, within a run."""
    return f"policy:{step}"


def policy(model: str, settings: Settings) -> NoReturn:
    """What the catalog holds under "policy": a run adds its own backends under such SPECs."""
    raise UsageError(
        f"policy:{model} is a checkpoint of a run and known within `arena train` only; to play it, "
        "name its folder: --seat 0=embedded:FOLDER"
    )


@dataclass(frozen=True, slots=True)
class Mix:
    """SPECs, `self` and `past`, with their weights."""

    words: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, game: Game) -> Mix:
        """`bot:novice=3,past=1`; a word without a weight has weight 1. Raises UsageError."""
        words, weights = [], []
        for item in (text or default_opponent(game.name)).split(","):
            word, equals, number = item.strip().rpartition("=")
            if not equals:
                word, number = item.strip(), "1"
            try:
                weight = float(number)
            except ValueError:
                word, weight = item.strip(), 1.0  # The "=" belongs to the SPEC.
            if not word or not 0 < weight < float("inf"):
                raise UsageError(f"--opponents {item.strip()!r}: write SPEC=WEIGHT, a weight > 0")
            words.append(word)
            weights.append(weight)
        return cls(tuple(words), tuple(weights))

    def draw(self, seats: int, pool: Sequence[int], rng: random.Random) -> list[str]:
        """SPECs for so many seats; `pool` are the steps that `past` means."""
        drawn = rng.choices(self.words, self.weights, k=seats)
        return [
            NEWEST if word == "self" else policy_spec(rng.choice(pool)) if word == "past" else word
            for word in drawn
        ]

    @property
    def others(self) -> tuple[str, ...]:
        """The SPECs among the words."""
        return tuple(word for word in self.words if word not in ("self", "past"))


def check_spec(spec: str, game: Game, llm: LLMService) -> None:
    """Raises UsageError for a SPEC that names nobody, or a model without its key."""
    make_agent(spec, Seat(game, 0, random.Random(0), llm=llm))
