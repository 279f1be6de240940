"""The schedule of an evaluation: independent deals, with the same deals for a baseline.

Pure: equal arguments give equal slots, and a longer schedule starts with the shorter one.
`tournament_schedule` is the schedule of tournaments.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Literal

from arena.core.errors import UsageError
from arena.core.seeds import stream
from arena.evaluation.records import Slot

SELF = "self"
"""Opponent that is replaced by the SPEC under test."""
DealRule = Literal["hashed", "consecutive"]
"""How the deals of a run follow from its seed. Runs of earlier versions, which store no rule, and
held-out deals of training have consecutive ones: deal k has the seed `seed + k`."""
ANYTIME = (
    "If the game declares the range of its returns, an evaluation therefore judges by a confidence "
    "sequence, which is valid at every look; all other intervals, and those of a tournament, are "
    "valid at one look that was fixed before."
)
HASHED_DEALS = 2**52
"""Hashed deals have seeds from this one up to 2^53 - 1, the largest that `--seed` accepts and that
JavaScript shows exactly."""


def deal_seed(seed: int, index: int, rule: DealRule = "hashed") -> int:
    """Return the seed of a run's deal, by the run's seed and the number of the deal from 0.

    The deals of a hashed run are numbered from a start that is a hash of its seed:

        2^52 + (SHA-256(seed) + index) mod 2^52.

    So no deal occurs twice in a run, and two runs of n deals share one with probability n / 2^51:
    less than 1e-9 for a million deals. Training deals have smaller seeds, for each training seed
    below 450 million (`trainers.seeds`).
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
    # The two games of a deal differ in one player only: seed, seat and opponents are the same.
    games_per_deal = 1 if baseline is None else 2
    for deal in range(games):
        # The generator depends on the deal's seed only: deal k is the same in a longer schedule.
        own_seed = deal_seed(seed, deal, rule)
        rng = stream(own_seed, "seat")
        seat = rng.randrange(num_players)
        others = _draw_opponents(against, num_players - 1, rng)
        specs = _seated(player, seat, others)
        yield Slot(games_per_deal * deal, own_seed, specs, "player", seat)
        # Adjacent numbers: a schedule that is cut off has at most one incomplete pair.
        if baseline is not None:
            specs = _seated(baseline, seat, others)
            yield Slot(games_per_deal * deal + 1, own_seed, specs, "baseline", seat)


def _seated(tested: str, seat: int, others: Sequence[str]) -> tuple[str, ...]:
    """Return the SPECs of all seats, with the one under test in its seat and for each `self`."""
    partners = [tested if other == SELF else other for other in others]
    return (*partners[:seat], tested, *partners[seat:])


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


def stopping_notes(games: int, planned: int, looks: int) -> Iterator[str]:
    """Yield the reason why a run's number of games may depend on its results, if there is one.

    `looks` counts the planned sizes at which results were shown. The interval of a fixed number of
    games is valid at one look: with ten looks at equal players, a fifth of all runs shows a
    difference at one of them.
    """
    if games < planned:
        yield (
            f"The run was stopped at {games} of {planned} games, perhaps because of its results. "
            f"{ANYTIME}"
        )
    elif looks > 1:
        yield f"This is look {looks} at a run whose number of games was raised. {ANYTIME}"


def design_text(paired: bool) -> str:
    """Return the design of an evaluation and its reason in one or two sentences."""
    text = "Deals are independent, each played once by the player, in a seat drawn at random."
    if paired:
        text += (
            " The baseline plays the same deals in the same seats against the same opponents: "
            "most of the luck cancels in the difference."
        )
    return text
