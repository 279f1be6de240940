"""The schedule of a tournament: tables at which games, pairs and seats come out balanced.

Pure: equal arguments give equal slots, and a longer schedule starts with the shorter one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import UsageError
from arena.core.seeds import stream
from arena.evaluation.records import CountRange, Slot
from arena.evaluation.report import ScheduleBalance
from arena.evaluation.schedule import deal_seed

LineUp = tuple[str, ...]
"""The players of a table by seat."""

CANDIDATE_TABLES = 8
"""Tables from which the next one is chosen."""


def tournament_schedule(
    players: Sequence[str],
    num_players: int,
    games: int,
    seed: int,
    tables: int | None = None,
    done: Sequence[Slot] = (),
) -> list[Slot]:
    """Return slots until each player sits in `games` games.

    Each table takes the players with the fewest games so far, among them those who have met the
    others at the table least often, and gives them the seats that they have held least often.

    Args:
        players: At least two different SPECs. Fewer than seats sit several times at a table.
        num_players: Seats of a table.
        games: Games in which each player sits, at least.
        seed: Seed of the run, from which `deal_seed` derives that of each deal.
        tables: Greatest number of different line-ups; these then play further deals in turn.
        done: Existing slots. They are kept, and each new slot seats a player that lacks games, so
            an added player costs only its own games (and line-ups).

    Raises UsageError for players that cannot form a tournament, or too few `tables` to seat all.
    """
    _check(players, num_players, tables)
    slots = list(done)
    # New numbers follow the greatest existing one, so no deal is repeated.
    number = max((slot.number for slot in done), default=-1) + 1
    tally = _Tally(players, num_players, done)
    # Each table seats at least one player that lacks games, so the loop ends.
    while min(tally.games) < games:
        # One generator per deal: the start of the schedule does not depend on its length.
        own_seed = deal_seed(seed, number)
        rng = stream(own_seed, "table")
        line_up = _next_line_up(tally, games, tables, rng)
        tally.add(line_up)
        slots.append(Slot(number, own_seed, line_up))
        number += 1
    return slots


def balance(slots: Sequence[Slot], players: Sequence[str], num_players: int) -> ScheduleBalance:
    """Count games, meetings and seats of these players; other players do not count."""
    tally = _Tally(players, num_players, slots)
    # Above the diagonal, since the matrix is symmetric: each pair once.
    pairs = tally.meetings[np.triu_indices(len(players), 1)]

    def span(counts: NDArray[np.int64]) -> CountRange:
        return CountRange(int(counts.min()), int(counts.max())) if counts.size else CountRange()

    return ScheduleBalance(games=span(tally.games), meetings=span(pairs), held=span(tally.held))


def _check(players: Sequence[str], num_players: int, tables: int | None) -> None:
    if len(players) < 2:
        raise UsageError("a tournament needs at least two players")
    twice = [player for player, count in Counter(players).items() if count > 1]
    if twice:
        raise UsageError(f"players are named once in a tournament; named twice: {twice[0]}")
    # Rounded up: the fewest tables at which all players have a seat.
    needed = -(-len(players) // num_players)
    if tables is not None and tables < needed:
        raise UsageError(f"tables={tables}: {len(players)} players need {needed} tables or more")


class _Tally:
    """Counts of the schedule so far. Players are indices; unknown players are not counted."""

    def __init__(self, players: Sequence[str], num_players: int, slots: Sequence[Slot]) -> None:
        n = len(players)
        self.players = players
        self.index = {player: i for i, player in enumerate(players)}
        self.games = np.zeros(n, np.int64)
        """(players,) games in which a player sits."""
        self.meetings = np.zeros((n, n), np.int64)
        """(players, players) games in which both sit; symmetric, the diagonal is 0."""
        self.held = np.zeros((n, num_players), np.int64)
        """(players, seats) games in which a player holds the seat."""
        self.line_ups: Counter[LineUp] = Counter()
        """Games of each line-up, in the order of their first games."""
        for slot in slots:
            self.add(slot.specs)

    def add(self, line_up: LineUp) -> None:
        self.line_ups[line_up] += 1
        # Seats count one by one: a player in two seats holds both.
        for seat, player in enumerate(line_up):
            if player in self.index:
                self.held[self.index[player], seat] += 1
        # A player that sits twice at a table plays one game and does not meet itself.
        sitting = sorted({self.index[player] for player in line_up if player in self.index})
        self.games[sitting] += 1
        for one, other in combinations(sitting, 2):
            # Both halves of the matrix, so that a row has all meetings of one player.
            self.meetings[one, other] += 1
            self.meetings[other, one] += 1


def _next_line_up(tally: _Tally, games: int, tables: int | None, rng: random.Random) -> LineUp:
    """Return a new line-up, or the least used old one that seats a player that lacks games."""
    if tables is None:
        return _draw_line_up(tally, tally.games, rng)
    num_players = tally.held.shape[1]
    # Each player may ask for its share of the tables. Rounded down, all shares together need at
    # most `tables`. The rule is per player, so it also holds for a player that is added later.
    share = tables * min(num_players, len(tally.index)) // len(tally.index)
    lacking = {player for player, i in tally.index.items() if tally.games[i] < games}
    # Line-ups (not games) in which each player sits.
    sat = Counter(player for line_up in tally.line_ups for player in set(line_up))
    # A player that has its share of line-ups plays further deals at existing tables.
    if any(sat[player] < share for player in lacking):
        # (players,): a new table evens out the line-ups of the players, not their games.
        drawn = np.array([sat[player] for player in tally.index])
        # There may be few possible line-ups, so each try balances the seats less strictly.
        for noise in range(1, 11):
            line_up = _draw_line_up(tally, drawn, rng, noise)
            if line_up not in tally.line_ups and not lacking.isdisjoint(line_up):
                return line_up
    # `min` returns the first of equals: of the least used line-ups the oldest.
    useful = (line_up for line_up in tally.line_ups if not lacking.isdisjoint(line_up))
    return min(useful, key=lambda line_up: tally.line_ups[line_up])


def _draw_line_up(
    tally: _Tally, sat: NDArray[np.int64], rng: random.Random, noise: int = 1
) -> LineUp:
    """Draw a line-up of the players with the lowest counts `sat` (games or line-ups).

    The players that are left over sit at the next table. Among candidate tables, choose the one
    that, with the next table, keeps pair counts most even.
    """
    # (players,): random numbers that decide between players with equal counts.
    lots = np.array([rng.random() for _ in tally.index])
    # Further lots come from a generator of their own, so `rng` advances by one draw per player.
    more = random.Random(lots.tobytes())
    draws = [lots, *(np.array([more.random() for _ in lots]) for _ in range(CANDIDATE_TABLES - 1))]
    # Each candidate is filled greedily, then improved by exchanges with the next table.
    tables = [_exchange(tally, sat, _fill_table(tally, sat, each)) for each in draws]
    table = min(tables, key=lambda table: _unevenness(tally, sat, table))
    return tuple(tally.players[i] for i in _assign_seats(table, tally.held, rng, noise))


def _fill_table(tally: _Tally, sat: NDArray[np.int64], lots: NDArray[np.float64]) -> list[int]:
    """Choose one player after the other, each by its meetings with those already at the table."""
    table: list[int] = []
    # (players,): seats held so far, of any number, and copies at this table.
    seatings = tally.held.sum(axis=1)
    copies = np.zeros_like(seatings)
    for _ in range(tally.held.shape[1]):
        # (players,): meetings with the players at the table so far; all 0 for its first place.
        met = tally.meetings[table].sum(axis=0)
        # lexsort sorts by its last key first: copies at this table, then the counts, then seats
        # held in all, then meetings; lots decide between equals.
        chosen = int(np.lexsort((lots, met, seatings + copies, sat, copies))[0])
        copies[chosen] += 1
        table.append(chosen)
    return table


def _next_players(sat: NDArray[np.int64], table: list[int]) -> list[int]:
    """Return the players for the next table: those with the lowest count, not at this one."""
    return [i for i in range(len(sat)) if i not in table and sat[i] == sat.min()]


def _unevenness(tally: _Tally, sat: NDArray[np.int64], table: list[int]) -> float:
    """Return sum((m - mean(m))^4) of the pairs' meetings m after this table and the next one.

    The fourth power punishes the extremes.
    """
    after = tally.meetings.copy()
    for sitting in (sorted(set(table)), _next_players(sat, table)):
        # This also adds to the diagonal, which is not read below.
        after[np.ix_(sitting, sitting)] += 1
    pairs = after[np.triu_indices(len(after), 1)]
    return float(((pairs - pairs.mean()) ** 4).sum())


def _exchange(tally: _Tally, sat: NDArray[np.int64], table: list[int]) -> list[int]:
    """Exchange players of this and the next table while that lowers the number of meetings.

    Each step takes the best exchange and strictly lowers the number of earlier meetings at the two
    tables, so the loop ends.
    """
    meetings, left = tally.meetings, _next_players(sat, table)
    while True:
        # For each player: meetings with this table minus meetings with the next one.
        closer = meetings[:, table].sum(axis=1) - meetings[:, left].sum(axis=1)
        # Meetings at both tables before minus after the exchange. The sums of `closer` count
        # m(one, other) on both sides although these two do not meet at either table, hence + 2 m.
        # Only players with equal counts are exchanged, so the table keeps the players with the
        # lowest counts. A player that sits twice stays.
        gains = [
            (closer[one] - closer[other] + 2 * meetings[one, other], place, other)
            for place, one in enumerate(table)
            for other in left
            if sat[one] == sat[other] and table.count(one) == 1
        ]
        gain, place, other = max(gains, default=(0, 0, 0))
        # Gains are whole numbers: each exchange saves at least one meeting.
        if gain <= 0:
            return table
        left[left.index(other)] = table[place]
        table = [*table[:place], other, *table[place + 1 :]]


def _assign_seats(
    table: list[int], held: NDArray[np.int64], rng: random.Random, noise: int
) -> list[int]:
    """Return the players by seat: the assignment with the fewest games in the same seats.

    Random numbers are added that sum to less than `noise` games: with 1 they only decide between
    assignments of equal cost.
    """
    from scipy.optimize import linear_sum_assignment

    lots = [[rng.random() * noise / (len(table) + 1) for _ in table] for _ in table]
    # Cost of a player in a seat: the games in which it has held this seat. Shape (places, seats).
    seats = linear_sum_assignment(held[table] + np.array(lots))[1]
    # `seats` has the seat of each place at the table; argsort inverts this permutation.
    return [table[place] for place in np.argsort(seats)]
