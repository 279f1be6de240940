"""Which deals a step plays, where the learner sits, and who sits beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from arena.core.seeds import stream
from trainers.config.config import TrainConfig
from trainers.opponents import NEWEST, Mix
from trainers.rollouts import Deal
from trainers.seeds import first_deal


def deals_of(
    config: TrainConfig, seats: int, mix: Mix, pool: Sequence[int], step: int
) -> list[Deal]:
    """The deals of the step that follows `step` finished ones; `pool` are the steps of `past`.

    The same arguments give the same deals; no seed is that of a held-out deal.
    """
    deals = []
    for k in range(config.groups_per_step):
        place = step * config.groups_per_step + k
        if config.dataset_size:
            epoch, within = divmod(place, config.dataset_size)
            place = _order(config.dataset_size, config.seed, epoch)[within]
        seed = first_deal(config.seed) + place
        if config.seats == "all":
            deals.append(Deal(seed, (NEWEST,) * seats, tuple(range(seats))))
            continue
        rng = stream(seed, f"table of step {step}")
        seat = rng.randrange(seats)
        others = mix.draw(seats - 1, pool, rng)
        deals.append(Deal(seed, (*others[:seat], NEWEST, *others[seat:]), (seat,)))
    return deals


@lru_cache(maxsize=2)
def _order(size: int, seed: int, epoch: int) -> list[int]:
    """The deals of a data set, in a new order each time it is gone through."""
    order = list(range(size))
    stream(seed, f"epoch {epoch}").shuffle(order)
    return order
