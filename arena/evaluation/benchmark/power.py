"""Power of the tasks of a suite: whether their deals show what is known about bots.

Bots whose order is known play other deals than those of the suite, the pilot. From these follows
the probability that n new deals show the better bot ahead, by the interval that cards and
leaderboard use. The shares of the outcomes on a deal are uncertain after N pilot deals: they are
drawn from Dirichlet(1, ..., 1) over these deals (the Bayesian bootstrap, Rubin 1981, Annals of
Statistics 9), then n deals from the shares. So the probability is an expected power, or assurance
(O'Hagan, Stevens and Campbell 2005, Pharmaceutical Statistics 4), below the power at the estimate.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial

import numpy as np

from arena.episodes.executors import Executor
from arena.episodes.match import Match
from arena.evaluation.benchmark import Suite, SuiteTask
from arena.evaluation.benchmark.submission import PlayedDeal
from arena.evaluation.paired import games_needed
from arena.evaluation.records import GameResult, Interval, ReportPart
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule, play_slot, run_schedule
from arena.evaluation.statistics.ratings import share_ahead

ENOUGH = 0.95
"""Probability with which the deals of a task show each known order."""
DRAWS = 1000
FEWEST = 4
"""Deals that show a player ahead who is ahead on all: n wins of n have n / (n + 1.96^2) as the
lower end of the interval (`share_ahead`), which is above 1/2 from 4 on."""


class KnownOrder(ReportPart):
    """Two bots whose order is known, and how surely a task shows it."""

    task: str
    better: str
    worse: str
    deals: int
    """Deals of the task."""
    ahead: Interval
    """Share of the pilot deals on which the better one is ahead."""
    power: float
    """Probability that the deals of the task show the better one ahead."""
    needed: int | None
    """Deals that show it with a probability of 95 %; None if no number does."""
    decisions: float
    """Decisions of all seats in a game of the better one, in the mean."""
    seconds: float
    """Time of such a game."""

    @property
    def is_enough(self) -> bool:
        return self.power >= ENOUGH


async def known_orders(
    suite: Suite, pilot: int, seed: int, executor: Executor
) -> AsyncGenerator[list[KnownOrder], None]:
    """Play the pilot of each task, and yield the power of its known pairs."""
    for task in suite.tasks:
        bots = list(dict.fromkeys(bot for pair in task.known for bot in pair))
        if not bots:
            continue
        setup = ExperimentSetup(Match(task.make_game(), seed=seed, max_turns=task.max_turns))
        seats, first, others = setup.match.game.num_players, bots[0], bots[1:]
        # Deals of another seed: the power must not be about the deals of the suite.
        slots = list(evaluation_schedule(seats, first, task.against, others, pilot, seed))
        play = partial(play_slot, setup, executor=executor)
        games = run_schedule(slots, play, lambda _: None, 4 * executor.workers)
        found = [game async for game in games]
        # Of each deal one game per bot, in their order.
        by_bot = {bot: found[place :: len(bots)] for place, bot in enumerate(bots)}
        yield [_order(task, pair, *map(by_bot.__getitem__, pair)) for pair in task.known]


def _order(
    task: SuiteTask,
    pair: tuple[str, str],
    first: Sequence[GameResult],
    second: Sequence[GameResult],
) -> KnownOrder:
    games = zip(first, second, strict=True)
    deals = [PlayedDeal(one.slot.seed, one, other, task) for one, other in games]
    ahead = np.array([deal.ahead for deal in deals])
    return KnownOrder(
        task=task.id,
        better=pair[0],
        worse=pair[1],
        deals=task.deals,
        ahead=Interval.of(share_ahead([(deal.seed, deal.ahead) for deal in deals])),
        power=power(ahead, task.deals),
        needed=deals_needed(ahead),
        decisions=float(np.mean([game.decisions for game in first])),
        seconds=float(np.mean([game.seconds for game in first])),
    )


def deals_needed(ahead: np.ndarray) -> int | None:
    """Return the deals that show a player ahead with a probability of 95 %; None if none do."""
    lead = float(ahead.mean() - 0.5)
    needed = games_needed(lead, float(ahead.std(ddof=1)), ENOUGH) if lead > 0 else None
    return None if needed is None else max(FEWEST, needed)


def power(ahead: Sequence[float] | np.ndarray, deals: int) -> float:
    """Return the probability that new deals show a player ahead whose pilot is `ahead` (N,).

    The entries are 1, 1/2 or 0; see the module.
    """
    rng, outcomes = np.random.default_rng(0), np.array([0.0, 0.5, 1.0])
    counts = (np.asarray(ahead)[:, None] == outcomes).sum(axis=0)
    shown = 0
    # Dirichlet(1, ..., 1) over deals, summed by outcome, is Dirichlet(counts).
    for shares in rng.dirichlet(np.maximum(counts, 1e-9), DRAWS):
        drawn = np.repeat(outcomes, rng.multinomial(deals, shares))
        shown += share_ahead(list(enumerate(drawn.tolist()))).low > 0.5
    return shown / DRAWS
