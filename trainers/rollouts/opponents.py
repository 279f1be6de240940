"""Deals and tables in training: seeds, and a weighted mix of SPECs and checkpoints as opponents.

No training deal has the seed of a held-out deal.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

from arena.agents.seating import default_opponent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.spec import redacted, split_weighted_specs
from arena.llm.settings import Settings
from trainers.config.config import TrainConfig

DEALS_PER_RUN = 10_000_000
"""Consecutive seeds that belong to the runs of one --seed."""
FIRST_RUNS = 40
"""Number of --seed values whose deals have seeds below those of held-out deals."""
HIGH_SEEDS = 1_000_000_000
"""First deal of the other runs, above the seeds of held-out deals."""
PERIODIC, FINAL = 500_000_000, 600_000_000
"""First seeds of the held-out deals. Training deals have other seeds. The final evaluation has
deals of its own, so that the selection of the best checkpoint does not bias its result."""


def first_deal(seed: int) -> int:
    """Return the seed of the first deal of a run with this --seed."""
    # Seeds 0 … 399 999 999 for the first runs. Held-out deals start at 500 000 000 (PERIODIC) and
    # 600 000 000 (FINAL); all other runs lie above 999 999 999.
    if seed < FIRST_RUNS:
        return seed * DEALS_PER_RUN
    return HIGH_SEEDS + (seed - FIRST_RUNS) * DEALS_PER_RUN


NEWEST = "policy:newest"
"""The SPEC of the learner, and of opponents called `self`."""


AVERAGE = "average"
"""Name of the averaged weights of a run with --self-play, in place of a step."""


def policy_spec(step: int | str) -> str:
    """Return the SPEC of a checkpoint, or of AVERAGE. It is known within the run only."""
    return f"policy:{step}"


def policy(model: str, settings: Settings) -> NoReturn:
    """Refuse `policy:STEP` outside of a run: a run registers its own backends of this name."""
    raise UsageError(
        f"policy:{model} is a checkpoint that only its own `arena train` knows; to play it, "
        "name its folder: --seat 0=embedded:FOLDER"
    )


@dataclass(frozen=True, slots=True)
class OpponentMix:
    """Opponents and their weights: SPECs, `self` (newest weights), `past` (a checkpoint)."""

    names: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, game: Game) -> OpponentMix:
        """Parse `bot:novice=3,past=1`; the default weight is 1. Raises UsageError."""
        text = text or default_opponent(game)
        if not all(item.strip() for item in redacted(text).split(",")):
            raise UsageError(f"--opponents {redacted(text)!r}: write SPEC=WEIGHT between commas")
        try:
            items = split_weighted_specs(text)
        except ValueError as error:
            item = redacted(str(error))
            raise UsageError(f"--opponents {item!r}: write SPEC=WEIGHT, a weight > 0") from None
        return cls(tuple(spec for spec, _ in items), tuple(weight for _, weight in items))

    def draw(self, seats: int, pool: Sequence[int], rng: random.Random) -> list[str]:
        """Draw a SPEC for each of `seats` seats; `past` is a step of `pool`."""
        specs = []
        # Independent draws, so a table may hold an opponent twice.
        for name in rng.choices(self.names, self.weights, k=seats):
            if name == "past":
                specs.append(policy_spec(rng.choice(pool)))
            else:
                specs.append(NEWEST if name == "self" else name)
        return specs

    @property
    def specs(self) -> tuple[str, ...]:
        """The names that are SPECs."""
        return tuple(name for name in self.names if name not in ("self", "past"))


@dataclass(frozen=True, slots=True)
class GroupSetup:
    """The deal and the players that the games of a group share."""

    seed: int
    specs: tuple[str, ...]
    """By seat; the learner is NEWEST, or a checkpoint if several versions play."""
    learners: tuple[int, ...]
    """The seats that are trained: one, or all in self-play."""

    def with_learner(self, spec: str) -> GroupSetup:
        """Return the same table with a SPEC in place of NEWEST."""
        specs = tuple(spec if each == NEWEST else each for each in self.specs)
        return replace(self, specs=specs)


def schedule_step(
    config: TrainConfig, seats: int, mix: OpponentMix, pool: Sequence[int], step: int
) -> list[GroupSetup]:
    """Return the groups of the step after `step` finished ones.

    The result depends on the arguments only. `pool` holds the steps of the checkpoints that the
    opponent `past` is drawn from.
    """
    setups = []
    for k in range(config.groups_per_step):
        # Number of the group in the run. Without a data set each group has a deal of its own.
        place = step * config.groups_per_step + k
        if config.dataset_size:
            # place = epoch * dataset_size + index; each epoch has its own permutation.
            epoch, index = divmod(place, config.dataset_size)
            place = _permutation(config.dataset_size, config.seed, epoch)[index]
        seed = first_deal(config.seed) + place
        if config.self_play:
            # In self-play each seat is a learner: one setup gives a group per seat.
            setups.append(GroupSetup(seed, (NEWEST,) * seats, tuple(range(seats))))
            continue
        # The label holds the step: a deal of the data set gets another table in each epoch.
        rng = stream(seed, f"table of step {step}")
        seat = rng.randrange(seats)
        others = mix.draw(seats - 1, pool, rng)
        # `others` are the other seats in their order; the learner is inserted at its seat.
        setups.append(GroupSetup(seed, (*others[:seat], NEWEST, *others[seat:]), (seat,)))
    return setups


# Two: a step may reach from the end of one epoch into the next.
@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the data set's deals in one epoch."""
    order = list(range(size))
    stream(seed, f"epoch {epoch}").shuffle(order)
    return order
