"""The schedule of an evaluation, and its games as jobs.

Deals are independent, with the same deals for a baseline. A schedule is pure: equal arguments give
equal slots, and a longer schedule starts with the shorter one. `tournament_schedule` is the
schedule of tournaments.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

from arena.core.errors import UsageError
from arena.core.seeds import stream
from arena.episodes.executors import Executor
from arena.episodes.job import (
    LOOKAHEAD,
    FinishedJob,
    GameJob,
    ReplayFile,
    run_job,
    run_jobs,
)
from arena.episodes.match import Match
from arena.evaluation.records import GameResult, Role, Slot
from arena.evaluation.scoring import measure_game

SELF = "self"
"""Opponent that is replaced by the SPEC under test."""
DealRule = Literal["hashed", "consecutive"]
"""Rule by which deals follow from a seed. Held-out deals of training are consecutive: deal k has
the seed `seed + k`."""
ANYTIME = (
    "The result is therefore judged by a confidence sequence, which is valid at every look; all "
    "other intervals are valid at one look that was fixed before."
)
FIXED_LOOK = "All intervals are valid at one look that was fixed before, so they may be too narrow."
"""Note of a tournament, of several scaffolds, and of a game without a declared range of returns."""
HASHED_DEALS = 2**52
"""Hashed deals have seeds from this one up to 2^53 - 1, the largest that `--seed` accepts and that
JavaScript shows exactly."""


def deal_seed(seed: int, index: int, rule: DealRule = "hashed") -> int:
    """Return the seed of a run's deal, by the run's seed and the number of the deal from 0.

    The deals of a hashed run are numbered from a start that is a hash of its seed:

        2^52 + (SHA-256(seed) + index) mod 2^52.

    So no deal occurs twice in a run, and two runs of n deals share one with probability n / 2^51:
    less than 1e-9 for a million deals. Training deals have smaller seeds, for each training seed
    below 450 million (`trainers.rollouts.rollouts`).
    """
    if rule == "consecutive":
        return seed + index
    start = int.from_bytes(hashlib.sha256(f"{seed}/deals".encode()).digest(), "big")
    return HASHED_DEALS + (start + index) % HASHED_DEALS


def evaluation_schedule(
    num_players: int,
    player: str,
    against: Sequence[str],
    baseline: str | Sequence[str] | None,
    games: int,
    seed: int,
    rule: DealRule = "hashed",
) -> Iterator[Slot]:
    """Yield one slot per deal, or with a baseline two: `player`, then `baseline` in its place.

    Of several baselines, each has a slot of its own per deal.

    Each deal (`deal_seed`) draws the seat under test and the order of the opponents from its own
    generator. Deals are therefore independent and identically distributed, and estimates are valid
    wherever the schedule is cut off. Fewer opponents than seats are repeated in turn; of more, each
    deal draws some. The opponent `self` is the SPEC under test, so that whole teams are compared.

    Raises UsageError if there is no opponent.
    """
    if num_players > 1 and not against:
        raise UsageError("an evaluation needs at least one opponent to play against")
    # The games of a deal differ in one player only: seed, seat and opponents are the same.
    tested: list[tuple[Role, str]] = [("player", player)]
    baselines = [baseline] if isinstance(baseline, str) else baseline or ()
    tested += [("baseline", each) for each in baselines]
    for deal in range(games):
        # The generator depends on the deal's seed only: deal k is the same in a longer schedule.
        own_seed = deal_seed(seed, deal, rule)
        rng = stream(own_seed, "seat")
        seat = rng.randrange(num_players)
        others = _draw_opponents(against, num_players - 1, rng)
        # Adjacent numbers: a schedule that is cut off has at most one incomplete pair.
        for number, (role, spec) in enumerate(tested, start=len(tested) * deal):
            partners = [spec if other == SELF else other for other in others]
            specs = (*partners[:seat], spec, *partners[seat:])
            yield Slot(number, own_seed, specs, role, seat)


def _draw_opponents(against: Sequence[str], seats: int, rng: random.Random) -> list[str]:
    """Draw the opponents of a deal in the order of their seats."""
    # The first shuffle decides who plays (or plays more often), the second one who sits where.
    chosen = list(islice(cycle(rng.sample(against, len(against))), seats))
    rng.shuffle(chosen)
    return chosen


def first_games(slots: Iterable[Slot], games: int) -> frozenset[int]:
    """Return the numbers of the slots that are among the first `games` games of some player.

    Where one seat is under test, only its player counts.
    """
    played: Counter[str] = Counter()
    numbers = []
    for slot in slots:
        # A set: a player in several seats plays one game.
        players = set(slot.specs) if slot.seat is None else {slot.specs[slot.seat]}
        # One player that lacks games is enough, even if the others have theirs.
        if any(played[player] < games for player in players):
            numbers.append(slot.number)
        played.update(players)
    return frozenset(numbers)


def stopping_reason(games: int, planned: int, looks: int) -> str:
    """Return the reason why a run's number of games may depend on its results; "" for none.

    `looks` counts the planned sizes at which results were shown. The interval of a fixed number of
    games is valid at one look: with ten looks at equal players, a fifth of all runs shows a
    difference at one of them.
    """
    if games < planned:
        return f"The run was stopped at {games} of {planned} games, perhaps because of its results."
    return f"This is look {looks} at a run whose number of games was raised." if looks > 1 else ""


def design_text(paired: bool, by_scaffold: bool = False) -> str:
    """Return the design of an evaluation and its reason in one or two sentences."""
    text = "Deals are independent, each played once by the player, in a seat drawn at random."
    if by_scaffold:
        text += (
            " Each deal is played with each scaffold, in the same seat against the same opponents: "
            "most of the luck cancels in differences."
        )
    elif paired:
        text += (
            " The baseline plays the same deals in the same seats against the same opponents: "
            "most of the luck cancels in the difference."
        )
    return text


@dataclass(frozen=True, slots=True)
class ExperimentSetup:
    """Common set-up of all games of an experiment."""

    match: Match
    """The game, text level, chat options and limits; a slot adds players and seed."""
    replays: Path | None = None
    """Folder for the replays, in the folder of the run; None writes none."""
    scored: frozenset[int] | None = None
    """Numbers of the slots whose games are scored by the exact posterior; None means all."""

    def job(self, slot: Slot) -> GameJob[GameResult]:
        """Return the game of a slot as a job."""
        scored = self.scored is None or slot.number in self.scored
        return GameJob(
            f"game {slot.number} (seed {slot.seed})",
            replace(self.match, specs=slot.specs, seed=slot.seed),
            # The time is that of the job (`result_of`).
            partial(measure_game, slot, scored=scored, seconds=0.0),
            # The exact posterior is slow.
            is_slow_to_measure=scored,
            replay=ReplayFile(self.replays, f"game{slot.number:06}") if self.replays else None,
        )


async def play_slot(setup: ExperimentSetup, slot: Slot, executor: Executor) -> GameResult:
    """Play one game of a schedule on an executor, write its replay, and measure it."""
    return result_of(await run_job(setup.job(slot), executor))


def result_of(finished: FinishedJob[GameResult]) -> GameResult:
    """Return the result with the time and the replay of its job."""
    result = replace(finished.value, seconds=finished.seconds)
    path = finished.replay
    if path is None:
        return result
    # The path is relative, so the folder of the experiment may be moved.
    relative = Path(path.parent.name, path.name).as_posix()
    return replace(result, replay=relative, sha256=finished.sha256)


async def run_schedule(
    slots: Sequence[Slot],
    play_one: Callable[[Slot], Awaitable[GameResult]],
    store: Callable[[GameResult], None],
    max_concurrent: int,
    done: Iterable[GameResult] = (),
    finished: Collection[int] = (),
) -> AsyncGenerator[GameResult, None]:
    """Play a schedule and yield its results in order.

    Closing the iterator, or an error of one game, cancels the unfinished games. `store` is called
    with each new result as soon as it exists. `done` are the results of an earlier run in the order
    of the schedule, and `finished` their numbers.
    """
    earlier = iter(done)
    missing = (slot for slot in slots if slot.number not in finished)
    free, ahead = asyncio.Semaphore(max_concurrent), LOOKAHEAD * max_concurrent
    async with aclosing(run_jobs(missing, play_one, ahead, free, store)) as playing:
        for slot in slots:
            if slot.number in finished:
                # A result of a slot that is not in this schedule is left out.
                yield next(result for result in earlier if result.slot.number == slot.number)
            else:
                yield await anext(playing)
