"""The bots' ladder with error bars: does each rung beat the one below?

One candidate sits among players of the lower rung. On every deal the seat is played twice, once by
the better and once by the lesser bot; the difference of the two results is what is averaged (the
seat rotates with the deal). 95 % intervals by the normal approximation over independent deals.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from dataclasses import dataclass
from typing import Any

import pytest

from arena.playing import play, seat_agents
from games.cluedo.game import Cluedo

LADDER = (("novice", "random"), ("detective", "novice"), ("oracle", "detective"))


@dataclass(frozen=True, slots=True)
class Paired:
    """Win rates of two candidates in the same seats of the same deals."""

    better: float
    worse: float
    difference: float
    half_width: float

    def __str__(self) -> str:
        low, high = self.difference - self.half_width, self.difference + self.half_width
        interval = f"{self.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
        return f"{self.better:6.1%} {self.worse:6.1%}   {interval}"


def compare(game: Cluedo, better: str, worse: str, deals: int) -> Paired:
    """Play `deals` pairs of games."""
    results: list[tuple[float, float]] = []
    for seed in range(deals):
        seat = seed % game.num_players
        pair = []
        for bot in (better, worse):
            specs = [f"bot:{worse}"] * game.num_players
            specs[seat] = f"bot:{bot}"
            episode = asyncio.run(play(game, seat_agents(game, specs, seed), seed))
            pair.append(episode.outcome.returns[seat])
        results.append((pair[0], pair[1]))
    differences = [first - second for first, second in results]
    return Paired(
        statistics.mean(first for first, _ in results),
        statistics.mean(second for _, second in results),
        statistics.mean(differences),
        1.96 * statistics.stdev(differences) / math.sqrt(deals),
    )


@pytest.mark.parametrize("players", [3, 6])
@pytest.mark.parametrize("variant", ["cards", "classic"])
@pytest.mark.parametrize(("better", "worse"), LADDER)
def test_ladder(
    benchmark: Any,
    capsys: pytest.CaptureFixture[str],
    better: str,
    worse: str,
    variant: str,
    players: int,
) -> None:
    game = Cluedo(variant=variant, players=players)
    deals = 300 if better == "oracle" else 100
    paired = benchmark.pedantic(compare, (game, better, worse, deals), rounds=1)
    with capsys.disabled():
        print(
            f"\n{variant:8} {players} players  {better:>9} over {worse:<9} {deals} deals  {paired}"
        )
    assert paired.difference > paired.half_width, "the interval of the difference includes 0"
