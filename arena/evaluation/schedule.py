"""The schedule of an evaluation: independent deals, with the same deals for a baseline.

Pure: equal arguments give equal slots, and a longer schedule starts with the shorter one.
`tournament_schedule` is the schedule of tournaments.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice

from arena.core.errors import UsageError
from arena.core.seeds import stream
from arena.evaluation.records import Slot


def evaluation_schedule(
    num_players: int,
    player: str,
    against: Sequence[str],
    baseline: str | None,
    games: int,
    seed: int,
) -> Iterator[Slot]:
    """Yield one slot per deal, or with a baseline two: `player`, then `baseline` in its place.

    Deal k has the seed `seed + k` and draws the seat under test and the order of the opponents
    from its own generator. Deals are therefore independent and identically distributed, and
    estimates are valid wherever the schedule is cut off. Fewer opponents than seats are repeated in
    turn; of more, each deal draws some.

    Raises UsageError if there is no opponent.
    """
    if num_players > 1 and not against:
        raise UsageError("an evaluation needs at least one opponent to play against")
    # The two games of a deal differ in one player only: seed, seat and opponents are the same.
    games_per_deal = 1 if baseline is None else 2
    for deal in range(games):
        # The generator depends on the deal's seed only: deal k is the same in a longer schedule.
        rng = stream(seed + deal, "seat")
        seat = rng.randrange(num_players)
        others = _draw_opponents(against, num_players - 1, rng)
        specs = (*others[:seat], player, *others[seat:])
        yield Slot(games_per_deal * deal, seed + deal, specs, "player", seat)
        # Adjacent numbers: a schedule that is cut off has at most one incomplete pair.
        if baseline is not None:
            specs = (*others[:seat], baseline, *others[seat:])
            yield Slot(games_per_deal * deal + 1, seed + deal, specs, "baseline", seat)


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


def design_text(paired: bool) -> str:
    """Return the design of an evaluation and its reason in one or two sentences."""
    text = "Deals are independent, each played once by the player, in a seat drawn at random."
    if paired:
        text += (
            " The baseline plays the same deals in the same seats against the same opponents: "
            "most of the luck cancels in the difference."
        )
    return text
