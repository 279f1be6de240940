"""The schedules of evaluations and tournaments, and their games as jobs.

Deals are independent. An evaluation has the same deals for a baseline; at the tables of a
tournament, games, pairs and seats come out balanced. A schedule is pure: equal arguments give equal
slots, and a longer schedule starts with the shorter one.
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
from itertools import cycle, islice, permutations
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import UsageError
from arena.core.spec import stream
from arena.episodes.files import ReplayFile
from arena.episodes.job import LOOKAHEAD, Executor, FinishedJob, GameJob, run_job, run_jobs
from arena.episodes.match import Match
from arena.evaluation.records import GameResult, Role, Slot
from arena.evaluation.scoring import measure_game

SELF = "self"
"""Opponent that is replaced by the SPEC under test."""
DealRule = Literal["hashed", "consecutive"]
"""Rule by which deals follow from a seed. Held-out deals of training are consecutive: deal k has
the seed `seed + k`."""
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
    baseline: str | None,
    games: int,
    seed: int,
    rule: DealRule = "hashed",
) -> Iterator[Slot]:
    """Yield one slot per deal, or with a baseline two: `player`, then `baseline` in its place.

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
    tested += [("baseline", baseline)] if baseline else []
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


# Tournaments


def tournament_schedule(
    players: Sequence[str], num_players: int, games: int, seed: int, done: Sequence[Slot] = ()
) -> list[Slot]:
    """Return slots until each player sits in `games` games.

    Each table takes the players with the fewest games so far, among them those who have met the
    others at the table least often, and gives them the seats that they have held least often.

    Args:
        players: At least two different SPECs. Fewer than seats sit several times at a table.
        num_players: Seats of a table.
        games: Games in which each player sits, at least.
        seed: Seed of the run, from which `deal_seed` derives that of each deal.
        done: Existing slots. They are kept, and each new slot seats a player that lacks games, so
            an added player costs only its own games.

    Raises UsageError for players that cannot form a tournament.
    """
    if len(players) < 2:
        raise UsageError("a tournament needs at least two players")
    twice = [player for player, count in Counter(players).items() if count > 1]
    if twice:
        raise UsageError(f"players are named once in a tournament; named twice: {twice[0]}")
    slots = list(done)
    # New numbers follow the greatest existing one, so no deal is repeated.
    number = max((slot.number for slot in done), default=-1) + 1
    tally = _Tally(players, num_players, done)
    # Each table seats at least one player that lacks games, so the loop ends.
    while min(tally.games) < games:
        # One generator per deal: the start of the schedule does not depend on its length.
        own_seed = deal_seed(seed, number)
        line_up = _draw_line_up(tally, stream(own_seed, "table"))
        tally.add(line_up)
        slots.append(Slot(number, own_seed, line_up))
        number += 1
    return slots


class _Tally:
    """Counts of the schedule so far. Players are indices; unknown players are not counted."""

    def __init__(self, players: Sequence[str], num_players: int, slots: Sequence[Slot]) -> None:
        n = len(players)
        self.players = players
        self._index = {player: i for i, player in enumerate(players)}
        self.games = np.zeros(n, np.int64)
        """(players,) games in which a player sits."""
        self.meetings = np.zeros((n, n), np.int64)
        """(players, players) games in which both sit; symmetric, the diagonal is 0."""
        self.held = np.zeros((n, num_players), np.int64)
        """(players, seats) games in which a player holds the seat."""
        for slot in slots:
            self.add(slot.specs)

    def add(self, line_up: Sequence[str]) -> None:
        """Add a table: its players by seat."""
        # Seats count one by one: a player in two seats holds both.
        for seat, player in enumerate(line_up):
            if player in self._index:
                self.held[self._index[player], seat] += 1
        # A player that sits twice at a table plays one game and does not meet itself.
        sitting = sorted({self._index[player] for player in line_up if player in self._index})
        self.games[sitting] += 1
        for one, other in permutations(sitting, 2):
            self.meetings[one, other] += 1


def _draw_line_up(tally: _Tally, rng: random.Random) -> tuple[str, ...]:
    """Draw a table of the players with the fewest games, by seat."""
    # (players,): random numbers that decide between players with equal counts.
    lots = np.array([rng.random() for _ in tally.players])
    table = _fill_table(tally, lots)
    return tuple(tally.players[i] for i in _assign_seats(table, tally.held, rng))


def _fill_table(tally: _Tally, lots: NDArray[np.float64]) -> list[int]:
    """Choose one player after the other, each by its meetings with those already at the table."""
    table: list[int] = []
    # (players,): seats held so far, of any number, and copies at this table.
    seatings = tally.held.sum(axis=1)
    copies = np.zeros_like(seatings)
    for _ in range(tally.held.shape[1]):
        # (players,): meetings with the players at the table so far; all 0 for its first place.
        met = tally.meetings[table].sum(axis=0)
        # lexsort sorts by its last key first: copies at this table, then games, then seats held in
        # all, then meetings; lots decide between equals.
        chosen = int(np.lexsort((lots, met, seatings + copies, tally.games, copies))[0])
        copies[chosen] += 1
        table.append(chosen)
    return table


def _assign_seats(table: list[int], held: NDArray[np.int64], rng: random.Random) -> list[int]:
    """Return the players by seat: the assignment with the fewest games in the same seats.

    Random numbers are added that sum to less than one game: they only decide between assignments
    of equal cost.
    """
    from scipy.optimize import linear_sum_assignment

    lots = [[rng.random() / (len(table) + 1) for _ in table] for _ in table]
    # Cost of a player in a seat: the games in which it has held this seat. Shape (places, seats).
    seats = linear_sum_assignment(held[table] + np.array(lots))[1]
    # `seats` has the seat of each place at the table; argsort inverts this permutation.
    return [table[place] for place in np.argsort(seats)]


# Games of a schedule


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
