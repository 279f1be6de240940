"""Schedule of a step: its deals, the learner's seat in each, and the opponents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from arena.core.seeds import stream
from trainers.config.config import TrainConfig
from trainers.opponents import NEWEST, OpponentMix
from trainers.rollouts.rollouts import GroupSetup
from trainers.seeds import first_deal


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
        if config.seats == "all":
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
