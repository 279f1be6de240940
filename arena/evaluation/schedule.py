"""Who plays whom, in which seat, on which deal: the schedules of evaluations and tournaments.

Pure: the same arguments give the same slots, and a longer schedule starts with the shorter one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, cycle, islice

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import UsageError
from arena.core.json import Json
from arena.core.seeds import stream
from arena.evaluation.records import Slot

LineUp = tuple[str, ...]
"""Who sits where."""

ROTATED_EFFICIENCY = {3: 0.69, 4: 0.36, 6: 0.26}
"""By number of players: games that independent deals need for an absolute win rate, per game that
is needed when one candidate plays all seats of each deal. Measured on small forms of Cluedo."""


TABLES_TRIED = 8
"""Tables from which the next one of a tournament is chosen."""


def evaluation_schedule(
    num_players: int,
    player: str,
    against: Sequence[str],
    baseline: str | None,
    games: int,
    seed: int,
) -> Iterator[Slot]:
    """One slot per deal, or with a baseline two: `player`, then `baseline` in the same place.

    Deal k has the seed `seed + k` and draws the seat under test and the order of the opponents
    from a generator of its own. So deals are independent and identically distributed, and
    estimates stay valid wherever the schedule is cut off. Fewer opponents than seats are cycled;
    of more, each deal draws some. Raises UsageError if nobody is there to play against.
    """
    if num_players > 1 and not against:
        raise UsageError("an evaluation needs at least one opponent to play against")
    roles = 1 if baseline is None else 2
    for deal in range(games):
        rng = stream(seed + deal, "seat")
        seat = rng.randrange(num_players)
        others = _opponents(against, num_players - 1, rng)
        specs = (*others[:seat], player, *others[seat:])
        yield Slot(roles * deal, seed + deal, specs, "player", seat)
        if baseline is not None:
            specs = (*others[:seat], baseline, *others[seat:])
            yield Slot(roles * deal + 1, seed + deal, specs, "baseline", seat)


def _opponents(against: Sequence[str], seats: int, rng: random.Random) -> list[str]:
    """Shuffled once to decide who sits (more often), once more to decide where."""
    chosen = list(islice(cycle(rng.sample(against, len(against))), seats))
    rng.shuffle(chosen)
    return chosen


def first_games(slots: Iterable[Slot], games: int) -> frozenset[int]:
    """The numbers of the slots in which somebody plays one of its first `games` games.

    Where one seat is under test, only its player counts.
    """
    played: Counter[str] = Counter()
    found = []
    for slot in slots:
        who = set(slot.specs) if slot.seat is None else {slot.specs[slot.seat]}
        if any(played[player] < games for player in who):
            found.append(slot.number)
        played.update(who)
    return frozenset(found)


def design_text(num_players: int, paired: bool) -> str:
    """The design of an evaluation and its reason, for whoever reads the numbers."""
    text = "Deals are independent, each played once by the player, in a seat drawn at random"
    if num_players in ROTATED_EFFICIENCY:
        share = ROTATED_EFFICIENCY[num_players]
        text += (
            f" (a game tells {share} times as much about a win rate where one deal is played in "
            f"all {num_players} seats)"
        )
    if paired:
        text += (
            ". The baseline plays the same deals in the same seats against the same opponents: "
            "most of the luck cancels in the difference"
        )
    return text + "."


def tournament_schedule(
    players: Sequence[str],
    num_players: int,
    games: int,
    seed: int,
    tables: int | None = None,
    done: Sequence[Slot] = (),
) -> list[Slot]:
    """Slots until each player sits in `games` games, so that pairs and seats come out balanced.

    Each table takes those with the fewest games so far, among them those who have met the others
    at the table least, and seats them where they have sat least. With fewer players than seats,
    players sit several times at a table. With `tables`, at most so many line-ups are drawn, which
    then take turns on further deals.

    `done` are slots that exist: they are kept, and each new one seats somebody who lacks games. A
    player that is added thus costs only its own games (and line-ups). The seeds go on from `seed`
    or from the last of `done`. Raises UsageError for players who cannot make a tournament, and
    for too few `tables` to seat everybody.
    """
    _check(players, num_players, tables)
    slots = list(done)
    number = max((slot.number for slot in done), default=-1) + 1
    next_seed = max((slot.seed for slot in done), default=seed - 1) + 1
    tally = _Tally.of(players, num_players, done)
    while min(tally.games) < games:
        rng = stream(next_seed, "table")
        line_up = _next_line_up(tally, games, tables, rng)
        tally.add(line_up)
        slots.append(Slot(number, next_seed, line_up))
        number, next_seed = number + 1, next_seed + 1
    return slots


def _check(players: Sequence[str], num_players: int, tables: int | None) -> None:
    if len(players) < 2:
        raise UsageError("a tournament needs at least two players")
    twice = [player for player, count in Counter(players).items() if count > 1]
    if twice:
        raise UsageError(f"players are named once in a tournament; named twice: {twice[0]}")
    needed = -(-len(players) // num_players)
    if tables is not None and tables < needed:
        raise UsageError(f"tables={tables}: {len(players)} players need {needed} tables or more")


@dataclass
class _Tally:
    """What has been played so far, counted. Players are indices; strangers are not counted."""

    index: dict[str, int]
    games: NDArray[np.int64]
    """(players,) games in which one sits."""
    meetings: NDArray[np.int64]
    """(players, players) games in which both sit; symmetric, the diagonal is 0."""
    held: NDArray[np.int64]
    """(players, seats) games in which one holds the seat."""
    line_ups: Counter[LineUp] = field(default_factory=Counter)
    """How often each was played, in the order of their first games."""

    @classmethod
    def of(cls, players: Sequence[str], num_players: int, slots: Sequence[Slot]) -> _Tally:
        n = len(players)
        tally = cls(
            {player: i for i, player in enumerate(players)},
            games=np.zeros(n, np.int64),
            meetings=np.zeros((n, n), np.int64),
            held=np.zeros((n, num_players), np.int64),
        )
        for slot in slots:
            tally.add(slot.specs)
        return tally

    @property
    def players(self) -> list[str]:
        return list(self.index)

    def add(self, line_up: LineUp) -> None:
        self.line_ups[line_up] += 1
        for seat, player in enumerate(line_up):
            if player in self.index:
                self.held[self.index[player], seat] += 1
        sitting = sorted({self.index[player] for player in line_up if player in self.index})
        self.games[sitting] += 1
        for one, other in combinations(sitting, 2):
            self.meetings[one, other] += 1
            self.meetings[other, one] += 1

    def lacking(self, games: int) -> set[str]:
        return {player for player, i in self.index.items() if self.games[i] < games}


def _next_line_up(tally: _Tally, games: int, tables: int | None, rng: random.Random) -> LineUp:
    """A new line-up, or the least used old one that seats somebody who lacks games.

    A player is owed its share of the tables. Rounded down, all shares together need no more than
    `tables`; said per player, the rule also holds for one who is added later.
    """
    if tables is None:
        return _draw_line_up(tally, tally.games, rng)
    num_players = tally.held.shape[1]
    share = tables * min(num_players, len(tally.index)) // len(tally.index)
    lacking = tally.lacking(games)
    sat = Counter(player for line_up in tally.line_ups for player in set(line_up))
    if any(sat[player] < share for player in lacking):
        drawn = np.array([sat[player] for player in tally.index])
        # There may be few line-ups in all, so the seats are balanced less and less strictly.
        for luck in range(1, 11):
            line_up = _draw_line_up(tally, drawn, rng, luck)
            if line_up not in tally.line_ups and not lacking.isdisjoint(line_up):
                return line_up
    useful = (line_up for line_up in tally.line_ups if not lacking.isdisjoint(line_up))
    return min(useful, key=lambda line_up: tally.line_ups[line_up])


def _draw_line_up(
    tally: _Tally, sat: NDArray[np.int64], rng: random.Random, luck: int = 1
) -> LineUp:
    """Those who have `sat` least, which counts games or line-ups; then those who have met least.

    Who is left over sits next. So of several tables that one is taken after which, and after those
    who are left, all pairs have met most evenly.
    """
    num_players = tally.held.shape[1]
    lots = np.array([rng.random() for _ in tally.index])
    more = random.Random(lots.tobytes())
    draws = [lots, *(np.array([more.random() for _ in lots]) for _ in range(TABLES_TRIED - 1))]
    tables = [_exchanged(tally, sat, _table(tally, sat, num_players, each)) for each in draws]
    table = min(tables, key=lambda table: _unevenness(tally, sat, table))
    return tuple(tally.players[i] for i in _seated(table, tally.held, rng, luck))


def _table(
    tally: _Tally, sat: NDArray[np.int64], num_players: int, lots: NDArray[np.float64]
) -> list[int]:
    """One player after the other, each the one who has met those at the table least."""
    table: list[int] = []
    seatings = tally.held.sum(axis=1)
    copies = np.zeros_like(seatings)
    for _ in range(num_players):
        met = tally.meetings[table].sum(axis=0)
        chosen = int(np.lexsort((lots, met, seatings + copies, sat, copies))[0])
        copies[chosen] += 1
        table.append(chosen)
    return table


def _left(sat: NDArray[np.int64], table: list[int]) -> list[int]:
    """Who will sit next: those who have sat least and are not at the table."""
    return [i for i in range(len(sat)) if i not in table and sat[i] == sat.min()]


def _unevenness(tally: _Tally, sat: NDArray[np.int64], table: list[int]) -> float:
    """Of the meetings of all pairs after this table and the next one; the extremes count most."""
    after = tally.meetings.copy()
    for sitting in (sorted(set(table)), _left(sat, table)):
        after[np.ix_(sitting, sitting)] += 1
    pairs = after[np.triu_indices(len(after), 1)]
    return float(((pairs - pairs.mean()) ** 4).sum())


def _exchanged(tally: _Tally, sat: NDArray[np.int64], table: list[int]) -> list[int]:
    """Players who have sat equally often change places as long as fewer meet again by it."""
    meetings, left = tally.meetings, _left(sat, table)
    while True:
        closer = meetings[:, table].sum(axis=1) - meetings[:, left].sum(axis=1)
        gains = [
            (closer[one] - closer[other] + 2 * meetings[one, other], place, other)
            for place, one in enumerate(table)
            for other in left
            if sat[one] == sat[other] and table.count(one) == 1
        ]
        gain, place, other = max(gains, default=(0, 0, 0))
        if gain <= 0:
            return table
        left[left.index(other)] = table[place]
        table = [*table[:place], other, *table[place + 1 :]]


def _seated(table: list[int], held: NDArray[np.int64], rng: random.Random, luck: int) -> list[int]:
    """By seat: the assignment in which players take the seats that they have held least.

    Luck outweighs fewer than `luck` games in all: at 1 it only decides between equals.
    """
    from scipy.optimize import linear_sum_assignment

    lots = [[rng.random() * luck / (len(table) + 1) for _ in table] for _ in table]
    seats = linear_sum_assignment(held[table] + np.array(lots))[1]
    return [table[place] for place in np.argsort(seats)]


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the most of some counts."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly a schedule treats its players."""

    games: Span
    """Games in which a player sits."""
    meetings: Span
    """Games in which both of a pair sit."""
    held: Span
    """Games in which a player holds a seat."""

    def __str__(self) -> str:
        return (
            f"each player sits in {self.games} games, each pair meets in {self.meetings}, "
            f"each seat is held {self.held} times by each player"
        )

    def to_json(self) -> dict[str, Json]:
        spans = {"games": self.games, "meetings": self.meetings, "held": self.held}
        return {name: [span.low, span.high] for name, span in spans.items()}


def balance(slots: Sequence[Slot], players: Sequence[str], num_players: int) -> Balance:
    """Measured on the slots; whoever is not among the players is left out."""
    tally = _Tally.of(players, num_players, slots)
    pairs = tally.meetings[np.triu_indices(len(players), 1)]
    return Balance(_span(tally.games), _span(pairs), _span(tally.held))


def _span(counts: NDArray[np.int64]) -> Span:
    return Span(int(counts.min()), int(counts.max())) if counts.size else Span(0, 0)
