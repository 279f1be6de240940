"""Hanabi: exact knowledge of the own hand, compared with brute force, assessment, and bots."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from math import log2, perm, prod
from typing import TypeVar

import numpy as np
import pytest
from hanabi_positions import SMALL, deal, move, random_history
from hypothesis import given, settings
from hypothesis import strategies as st
from random_games import plies

from arena import Match, play
from arena.core.action import Step
from arena.core.analysis import sum_measurements
from arena.core.errors import ArenaError
from games.hanabi.bots import ConventionNotes
from games.hanabi.deck import Kinds
from games.hanabi.knowledge import HanabiAssessor, HanabiKnowledge, HandPosterior, replace_hand
from games.hanabi.rules import Hanabi, HanabiState

Notes = TypeVar("Notes", bound=HanabiKnowledge)

# Exact knowledge


def brute_force(unseen: list[int], allowed: list[Kinds]) -> dict[tuple[int, ...], int]:
    """The number of physical hands for each sequence of kinds."""
    hands = {}
    for hand in itertools.product(range(len(unseen)), repeat=len(allowed)):
        if all(allowed[slot] >> kind & 1 for slot, kind in enumerate(hand)):
            weight = prod(perm(unseen[kind], number) for kind, number in Counter(hand).items())
            if weight:
                hands[hand] = weight
    return hands


def check_posterior(posterior: HandPosterior, hands: dict[tuple[int, ...], int]) -> None:
    total = sum(hands.values())
    assert posterior.assignments == total
    assert posterior.hand_count() == len(hands)
    entropy = -sum(n / total * log2(n / total) for n in hands.values())
    assert posterior.entropy() == pytest.approx(entropy, abs=1e-9)
    marginals = np.zeros_like(posterior.marginals)
    for hand, weight in hands.items():
        marginals[range(len(hand)), list(hand)] += weight / total
    assert np.allclose(posterior.marginals, marginals)
    assert tuple(posterior.sample(random.Random(0))) in hands


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_posterior_equals_brute_force(rng: random.Random) -> None:
    kinds, slots = rng.randint(1, 5), rng.randint(0, 4)
    unseen = [rng.randint(0, 3) for _ in range(kinds)]
    allowed = [sum((rng.random() < 0.7) << kind for kind in range(kinds)) for _ in range(slots)]
    hands = brute_force(unseen, allowed)
    if hands:
        check_posterior(HandPosterior(unseen, allowed), hands)
    else:
        with pytest.raises(ValueError, match="no hand agrees"):
            HandPosterior(unseen, allowed)


@pytest.mark.parametrize("seed", range(6))
def test_knowledge_equals_replaying_every_hand(seed: int) -> None:
    """All hands are tried in the real history; those that change nothing seen are possible."""
    game = Hanabi(**SMALL, players=2 + seed % 2)
    state, history = random_history(game, random.Random(seed), 8 + seed)
    for player in range(game.num_players):
        mine, knowledge = state.observe(player), follow(state, HanabiKnowledge(game, player))
        unseen, hands = knowledge.unseen, dict[tuple[int, ...], int]()
        kinds = game.deck.kinds
        for hand in itertools.product(range(len(kinds)), repeat=len(state.hands[player])):
            steps = replace_hand(history, player, [kinds[kind] for kind in hand])
            if fits(game, steps, player, mine.events):
                counts = Counter(hand).items()
                hands[hand] = prod(perm(unseen[kind], number) for kind, number in counts)
        check_posterior(knowledge.posterior, hands)
        assert knowledge.world_count() == len(hands)


def follow(state: HanabiState, notes: Notes) -> Notes:
    for event in state.log.witnessed[notes.player]:
        notes.update(event)
    return notes


def fits(game: Hanabi, steps: list[Step], player: int, events: tuple[object, ...]) -> bool:
    """Whether a history is legal and shows the player the same."""
    try:
        state = game.initial_state().apply_all(steps)
    except ArenaError:
        return False
    return state.observe(player).events == events


# Assessment


def test_assessor_judges_plays_discards_and_hints() -> None:
    game = Hanabi(colours=1, ranks=3, hand_size=2, hint_tokens=2)
    assessor = HanabiAssessor(game)
    moves = (
        *("deal R1 R3 | R1 R1", "hint Player 1 rank 1", "play slot 1", "draw R2"),
        "discard slot 2",
    )
    hint, certain, risky = (each for ply in plies(game, moves) for each in assessor.ply(ply))
    assert hint.kind == "hint"
    assert hint.facts["bits"] == pytest.approx((1 / 3) * log2(6) + (2 / 3) * log2(3))
    assert certain.facts == {"probability": 1, "best": 1}
    assert certain.measurements["play_probability"].total == 1
    # Player 0 sees R1 and R2: unseen are R1, R2, R3, of which R3 alone is a needed last copy,
    # since a second R2 is left and R1 is played.
    assert risky.kind == "discard"
    assert risky.facts["useless"] == pytest.approx(1 / 3)
    assert risky.facts["risk"] == pytest.approx(1 / 3)
    assert game.analysis.comment(risky) is not None


def test_assessor_measures_a_whole_game() -> None:
    game = Hanabi(**SMALL, lives=1)
    episode = asyncio.run(play(Match(game, ["bot:conventions"] * 2, 3)))
    assessor = HanabiAssessor(game)
    assessments = [each for step in episode.plies for each in assessor.ply(step)]
    plays = [each for each in assessments if each.kind == "play"]
    played = sum_measurements(each.measurements for each in plays)["play_probability"]
    best = sum(each.facts["best"] for each in plays)  # type: ignore[misc]
    assert 0 < played.total <= best <= played.weight == len(plays)
    # A hint that is judged must not change the knowledge of its receiver.
    known = HanabiKnowledge(game, 1)
    for step in episode.plies:
        for event in step.events:
            if event.seen_by(1):
                known.update(event)
    for each in assessor.end(episode.outcome):
        dealt, end = each.facts["entropy_dealt"], each.facts["entropy_end"]
        assert isinstance(dealt, float) and dealt > 0
        assert each.player == 0 or end == pytest.approx(known.entropy())


# Conventions and bots


def kinds(notes: ConventionNotes, player: int, place: int) -> set[str]:
    candidates = notes.candidates(notes.hands[player][place])
    return {kind for kind, n in notes.game.deck.index.items() if candidates >> n & 1}


def test_hint_on_a_new_card_means_play_it() -> None:
    state = deal(Hanabi(), "R1 R1 R1 Y2 Y2", "R2 G3 R4 W5 B1")
    move(state, "hint Player 1 blue")
    for viewer in (0, 1):
        notes = follow(state, ConventionNotes(state.game, viewer))
        assert kinds(notes, 1, 4) == {"B1"}
        assert notes.chop(1) == 0


def test_hint_on_the_chop_may_save_it() -> None:
    state = deal(Hanabi(), "R1 R1 R1 Y2 Y2", "W5 G3 R4 W2 B1")
    move(state, "hint Player 1 white")
    notes = follow(state, ConventionNotes(state.game, 1))
    # W1 can be played, W5 is the only copy.
    assert kinds(notes, 1, 0) == {"W1", "W5"}
    assert notes.chop(1) == 1


def test_hints_mean_the_same_to_all_players() -> None:
    game = Hanabi(players=3)
    state, _ = random_history(game, random.Random(4), 60)
    tables = [follow(state, ConventionNotes(game, viewer)) for viewer in range(3)]
    for player in range(3):
        for place in range(len(state.hands[player])):
            assert len({notes.candidates(notes.hands[player][place]) for notes in tables}) == 1
