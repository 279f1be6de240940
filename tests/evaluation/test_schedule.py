"""Schedules: independent deals for rates, the same deals for differences, balanced tables."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena.core.errors import UsageError
from arena.evaluation.records import Slot
from arena.evaluation.schedule import (
    HASHED_DEALS,
    deal_seed,
    evaluation_schedule,
    first_games,
    tournament_schedule,
)
from trainers.rollouts.rollouts import DEALS_PER_RUN, FINAL, first_deal

FEW = settings(max_examples=40, deadline=None)
SEATS = st.integers(2, 6)
SEEDS = st.integers(0, 10_000)


def names(count: int) -> list[str]:
    return [f"bot:{i}" for i in range(count)]


@FEW
@given(SEATS, st.integers(1, 8), st.integers(1, 30), SEEDS, st.booleans())
def test_an_evaluation_pairs_player_and_baseline_on_the_same_deals(
    seats: int, opponents: int, games: int, seed: int, paired: bool
) -> None:
    against = names(opponents)
    baseline = "base" if paired else None
    slots = list(evaluation_schedule(seats, "me", against, baseline, games, seed))
    assert [slot.number for slot in slots] == list(range(games * (2 if paired else 1)))
    own = [slot for slot in slots if slot.role == "player"]
    assert [slot.seed for slot in own] == [deal_seed(seed, k) for k in range(games)]
    for slot in own:
        assert slot.seat is not None and slot.specs[slot.seat] == "me"
        others = Counter(slot.specs[: slot.seat] + slot.specs[slot.seat + 1 :])
        assert others.keys() <= set(against)
        counts = [others[name] for name in against]
        assert max(counts) - min(counts) <= 1  # Cycled, or drawn without replacement.
    swapped = [
        Slot(
            slot.number + 1,
            slot.seed,
            tuple("base" if spec == "me" else spec for spec in slot.specs),
            "baseline",
            slot.seat,
        )
        for slot in own
    ]
    assert [slot for slot in slots if slot.role == "baseline"] == (swapped if paired else [])


def test_runs_with_different_seeds_share_no_deal() -> None:
    seeds: list[int] = []
    for seed in range(60):
        seeds += [slot.seed for slot in evaluation_schedule(3, "me", ["a"], None, 60, seed)]
    for seed in range(60, 64):
        seeds += [slot.seed for slot in tournament_schedule(names(4), 3, 9, seed)]
    assert len(set(seeds)) == len(seeds)


@given(st.integers(0, 2**53), st.integers(0, 2**60), st.integers(1, 2**52 - 1))
def test_no_deal_occurs_twice_in_a_run(seed: int, first: int, later: int) -> None:
    deals = [deal_seed(seed, index) for index in (first, first + later)]
    assert deals[0] != deals[1] and all(HASHED_DEALS <= deal < 2**53 for deal in deals)


def test_deals_of_training_and_held_out_deals_have_smaller_seeds() -> None:
    for seed in (0, 39, 40, 449_999_999):
        assert first_deal(seed) + DEALS_PER_RUN <= HASHED_DEALS
    assert FINAL + DEALS_PER_RUN < HASHED_DEALS


def test_held_out_deals_are_consecutive() -> None:
    slots = evaluation_schedule(3, "me", ["a"], "base", 5, 7, "consecutive")
    assert [slot.seed for slot in slots][::2] == [7, 8, 9, 10, 11]


@FEW
@given(SEATS, st.integers(1, 8), st.integers(1, 10), st.integers(1, 10), SEEDS)
def test_a_longer_evaluation_starts_with_the_shorter_one(
    seats: int, opponents: int, games: int, more: int, seed: int
) -> None:
    short = list(evaluation_schedule(seats, "me", names(opponents), "base", games, seed))
    longer = list(evaluation_schedule(seats, "me", names(opponents), "base", games + more, seed))
    assert longer[: len(short)] == short


def test_an_evaluation_needs_an_opponent() -> None:
    with pytest.raises(UsageError, match="at least one opponent"):
        next(evaluation_schedule(3, "me", [], None, 1, 0))


@FEW
@given(st.integers(2, 12), SEATS, st.integers(1, 25), SEEDS)
@example(players=12, seats=6, games=7, seed=0)  # Each table decides the next one, too.
def test_tables_are_balanced(players: int, seats: int, games: int, seed: int) -> None:
    slots = tournament_schedule(names(players), seats, games, seed)
    assert [slot.number for slot in slots] == list(range(len(slots)))
    assert [slot.seed for slot in slots] == [deal_seed(seed, k) for k in range(len(slots))]
    for slot in slots:
        counts = Counter(slot.specs)
        assert max(counts.values()) <= -(-seats // players)
        assert len(counts) == min(players, seats)
    played = Counter(player for slot in slots for player in set(slot.specs))
    meetings = Counter(pair for slot in slots for pair in combinations(sorted(set(slot.specs)), 2))
    held = Counter(chain(*(enumerate(slot.specs) for slot in slots)))
    divisible = games * players % min(seats, players) == 0
    ends = [min(played.values()), max(played.values())]
    assert ends == [games, games + (0 if divisible else 1)]
    pairs = [meetings[pair] for pair in combinations(sorted(names(players)), 2)]
    assert max(pairs) - min(pairs) <= 4
    places = [held[place] for place in product(range(seats), names(players))]
    assert max(places) - min(places) <= 3


@FEW
@given(st.integers(2, 9), SEATS, st.integers(1, 15), st.integers(1, 10), SEEDS)
def test_a_longer_tournament_and_a_resumed_one_start_with_the_shorter_one(
    players: int, seats: int, games: int, more: int, seed: int
) -> None:
    short = tournament_schedule(names(players), seats, games, seed)
    longer = tournament_schedule(names(players), seats, games + more, seed)
    assert longer[: len(short)] == short
    cut = short[: len(short) // 2]
    assert tournament_schedule(names(players), seats, games, seed, cut) == short
    assert tournament_schedule(names(players), seats, games, seed, short) == short


@FEW
@given(st.integers(2, 9), SEATS, st.integers(1, 15), st.integers(1, 3), SEEDS)
def test_players_that_are_added_need_only_their_own_games(
    players: int, seats: int, games: int, added: int, seed: int
) -> None:
    before = tournament_schedule(names(players), seats, games, seed)
    everybody = names(players + added)
    after = tournament_schedule(everybody, seats, games, seed, before)
    assert after[: len(before)] == before
    assert [slot.number for slot in after] == list(range(len(after)))
    assert len({slot.seed for slot in after}) == len(after)
    played = Counter(player for slot in before for player in set(slot.specs))
    for slot in after[len(before) :]:
        assert any(played[player] < games for player in slot.specs)
        played.update(set(slot.specs))
    assert min(played[player] for player in everybody) >= games
    if added == 1:
        assert len(after) - len(before) == games


@pytest.mark.parametrize(
    ("players", "message"),
    [(["a"], "at least two players"), (["a", "b", "a"], "named twice: a")],
)
def test_what_makes_no_tournament(players: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tournament_schedule(players, 3, 10, 0)


@FEW
@given(st.integers(2, 6), SEATS, st.integers(1, 12), st.integers(0, 12), SEEDS)
def test_the_first_games_of_everybody_are_chosen(
    players: int, seats: int, games: int, first: int, seed: int
) -> None:
    slots = tournament_schedule(names(players), seats, games, seed)
    chosen = first_games(slots, first)
    for player in names(players):
        own = [slot.number for slot in slots if player in slot.specs]
        assert set(own[:first]) <= chosen
    assert len(chosen) <= first * players
    assert not first_games(slots, 0)


def test_only_the_player_under_test_counts_in_an_evaluation() -> None:
    slots = list(evaluation_schedule(4, "a", ["b"], "c", 10, 1))
    assert first_games(slots, 3) == frozenset(range(6))
    # Opponents that come late lack games all the time, and are not under test.
    slots = list(evaluation_schedule(4, "a", [f"b{i}" for i in range(30)], "c", 10, 1))
    assert len({spec for slot in slots[6:] for spec in slot.specs}) > 10
    assert first_games(slots, 3) == frozenset(range(6))
