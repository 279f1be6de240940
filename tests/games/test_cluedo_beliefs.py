"""Stated beliefs of a player: the question, the answer and the exact scores."""

from __future__ import annotations

import json
import math
import random
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_deal import ENVELOPE, HANDS
from pydantic import JsonValue
from random_games import walk

from arena import Observation, WeightedSum
from arena.core.action import CHANCE
from games.cluedo.analysis.beliefs import FLOOR, belief_measurements, relative_entropy
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.setting import Accuse, DealCards, Dealt, EndTurn, Roll, Show, Suggest
from games.cluedo.rules.state import CluedoState

GAME = Cluedo(players=3)


def dealt() -> CluedoState:
    state = GAME.initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    return state


def played() -> CluedoState:
    """Player 0 has seen the Revolver, and no player could refute the three of the envelope."""
    state = dealt()
    state.apply(0, Suggest("Reverend Green", "Revolver", "Kitchen"))
    state.apply(1, Show("Revolver"))
    state.apply(0, EndTurn())
    state.apply(1, Suggest(*ENVELOPE))
    for player in (1, 2):
        state.apply(player, EndTurn())
    return state


def read(answer: object, observation: Observation) -> dict[str, JsonValue]:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return observation.game.text.read_beliefs(text, observation)


def measured(answer: object, observation: Observation) -> dict[str, WeightedSum]:
    """Return the measurements of an answer at this moment."""
    game = observation.game
    assert isinstance(game, Cluedo)
    knowledge = CluedoKnowledge.after(game, observation.player, observation.events)
    return belief_measurements(read(answer, observation), knowledge)


# Asking


def test_the_question_is_put_where_an_accusation_may_be_made() -> None:
    state = dealt()
    question = GAME.text.belief_question(state.observe(0))
    assert question is not None and '"sure"' in question and '"envelope"' in question
    assert '"Player 1"' in question and len(question) < 600
    assert GAME.text.belief_question(state.observe(1)) is None, "it is not player 1's turn"
    state.apply(0, Suggest("Reverend Green", "Revolver", "Hall"))
    assert GAME.text.belief_question(state.observe(1)) is None, "it has a card to show"
    state.apply(1, Show("Revolver"))
    assert GAME.text.belief_question(state.observe(0)) is not None, (
        "it may accuse after its suggestion"
    )


def test_no_question_while_walking() -> None:
    game = Cluedo(players=3, variant="classic")
    state = game.initial_state()
    rng = random.Random(1)
    state.apply(CHANCE, state.sample_chance(rng))
    assert game.text.belief_question(state.observe(0)) is not None, "it may accuse before the throw"
    state.apply(0, Roll())
    state.apply(CHANCE, state.sample_chance(rng))
    assert not state.observe(0).legal_actions.of(Accuse)
    assert game.text.belief_question(state.observe(0)) is None


# Reading


def test_the_form_that_the_question_shows_can_be_read() -> None:
    observation = dealt().observe(0)
    question = GAME.text.belief_question(observation) or ""
    example = next(line for line in question.splitlines() if line.startswith("{"))
    found = read(f"So: {example.replace('CARD', 'rope')} I think.", observation)
    assert found == {"sure": {"Rope": 1}, "envelope": {"Rope": 1.0}}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"sure": {"Rope": "me", "Hall": "Envelope"}, "envelope": {}}, {"Rope": 0, "Hall": 3}),
        ({"sure": {"Rope": "somebody", "Spoon": "me"}, "envelope": {}}, {}),
        ({"sure": {"Rope": [1], "Hall": None}, "envelope": {}}, {}),
        ({"sure": {}, "envelope": {"Rope": 40, "Dagger": 60}}, {"Rope": 0.4, "Dagger": 0.6}),
        ({"sure": {}, "envelope": {"Rope": 0, "Hall": 0.25}}, {"Hall": 1.0}),
        ({"sure": {}, "envelope": {"Rope": -1, "Dagger": "x", "Hall": True}}, {}),
        ({"sure": {}, "envelope": {"Rope": math.nan, "Dagger": math.inf, "Hall": 1e300}}, {}),
    ],
)
def test_entries_without_a_valid_value_are_left_out(
    answer: dict[str, Any], found: dict[str, Any]
) -> None:
    stated = read(answer, dealt().observe(0))
    assert {**stated["sure"], **stated["envelope"]} == found  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "answer",
    ["", "I do not know.", "{}", "[]", '{"sure": 3}', '{"sure": {"Rope": 1}', "{" * 100_000],
)
def test_nonsense(answer: str) -> None:
    assert read(answer, dealt().observe(0)) == {"failure": "unparsable"}
    assert measured(answer, dealt().observe(0)) == {"belief_failures": WeightedSum(1.0)}


ANSWERS = st.dictionaries(
    st.sampled_from(["sure", "envelope", "note"]),
    st.dictionaries(
        st.sampled_from([*GAME.deck.cards, "nobody", "", "\ud800"]),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
            st.sampled_from(["Player 1", "me", "envelope"]),
        ),
    ),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(ANSWERS, st.text(max_size=20), st.integers(0, 400))
def test_whatever_is_answered(answer: JsonValue, prose: str, cut: int) -> None:
    whole, observation = prose + json.dumps(answer), played().observe(0)
    for text in (whole, whole[: max(0, len(whole) - cut)]):
        stated = read(text, observation)
        assert json.loads(json.dumps(stated, allow_nan=False)) == stated
        found = measured(text, observation)
        if "failure" in stated:
            assert stated == {"failure": "unparsable"}
            continue
        envelope: Any = stated["envelope"]
        for category in GAME.deck.categories:
            total = sum(envelope.get(card, 0.0) for card in category)
            assert total == pytest.approx(1.0, abs=1e-5) or not total
        assert 0 <= found["belief_error"].total <= 3 * math.log2(1 / FLOOR)
        rates = [each for name, each in found.items() if name.endswith(("precision", "recall"))]
        assert all(0 <= each.total <= each.weight for each in rates)


# Scoring


def test_before_the_first_move_by_hand() -> None:
    found = measured({"sure": {"Rope": "me"}, "envelope": {"Rope": 1}}, dealt().observe(0))
    # Own cards: two suspects, two weapons, two rooms. So the envelope is one of 4, 4 and 7.
    # Unstated is uniform: 1/6 for each of the 4, 1/9 for each of the 7. The rope for certain:
    # 1/4 log2(1/4 : 1) + 3/4 log2(1/4 : 1/1000).
    by_hand = math.log2(6 / 4) + math.log2(9 / 7) - 0.5 + 0.75 * math.log2(250)
    assert found["belief_error"].total == pytest.approx(by_hand)
    assert found["deduced_precision"] == WeightedSum(0, 1) and "deduced_recall" not in found
    # Before the first question the exact probabilities are those of cards not seen.
    assert found["belief_error"].weight == pytest.approx(0.0)


def test_an_explicit_uniform_answer_scores_as_an_unstated_one() -> None:
    observation = dealt().observe(0)
    uniform = measured({"sure": {}, "envelope": dict.fromkeys(GAME.deck.cards, 1)}, observation)
    silent = measured({"sure": {}, "envelope": {}}, observation)
    assert uniform["belief_error"].total == pytest.approx(silent["belief_error"].total, abs=1e-5)


def test_each_certainty_is_counted_once() -> None:
    sure = {
        "Kitchen": "me",  # right, its own
        "Revolver": "Player 1",  # right, and seen
        "Dagger": "Player 2",  # false: it is its own
        "Rope": "Player 1",  # possible, since it was player 1 who asked
        "Hall": "Player 2",  # false: it could not refute
        "Study": "Player 2",  # possible
    }
    found = measured({"sure": sure, "envelope": {}}, played().observe(0))
    assert found["deduced_precision"] == WeightedSum(0, 4) and "deduced_recall" not in found
    assert found["recall_shown"] == WeightedSum(1, 1)
    missed = measured({"sure": {"Revolver": "envelope"}, "envelope": {}}, played().observe(0))
    assert missed["deduced_precision"] == WeightedSum(0, 1) == missed["recall_shown"]


def test_the_envelope_known() -> None:
    state = played()
    # Player 1 asked for three cards that it has not itself, and no player could refute.
    right = {
        "sure": dict.fromkeys(ENVELOPE, "envelope"), "envelope": dict.fromkeys(ENVELOPE, 1)
    }  # fmt: skip
    found = measured(right, state.observe(1))
    assert found["belief_error"].total == 0.0
    assert found["deduced_recall"] == found["deduced_precision"] == WeightedSum(3, 3)
    wrong = measured({"sure": {}, "envelope": {"Study": 1}}, state.observe(1))
    others = math.log2(6) * 2  # Two unstated categories of six.
    assert wrong["belief_error"].total == pytest.approx(math.log2(1 / FLOOR) + others)


def test_open_cards_are_nowhere() -> None:
    game = Cluedo(players=4, leftover_cards="open")
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(2)))
    observation = state.observe(0)
    (card, _) = next(e.open_cards for e in observation.events if isinstance(e, Dealt))
    found = measured({"sure": {card: "envelope"}, "envelope": {card: 1}}, observation)
    assert found["deduced_precision"] == WeightedSum(0, 1)


@pytest.mark.parametrize("game", [GAME, Cluedo(players=5, variant="classic")])
def test_a_perfect_answer_is_perfect_all_game_long(game: Cluedo) -> None:
    asked = 0
    for state in takewhile(lambda state: state.turn < 25, walk(game, 3)):
        observation = state.observe(state.to_act[0])
        if game.text.belief_question(observation):
            check_perfect(observation)
            asked += 1
    assert asked >= 24


def check_perfect(observation: Observation) -> None:
    game = observation.game
    assert isinstance(game, Cluedo)
    knowledge = CluedoKnowledge.after(game, observation.player, observation.events)
    places = (*game.seat_names, "envelope")
    certain = {c: places[h] for c in game.deck.cards if (h := knowledge.holder(c)) is not None}
    shares = knowledge.marginals()[:, knowledge.envelope]
    exact = {"sure": certain, "envelope": dict(zip(game.deck.cards, shares, strict=True))}
    found = measured(exact, observation)
    assert found["belief_error"].total == pytest.approx(0.0, abs=1e-4)
    rates = [each for name, each in found.items() if "recall" in name or "precision" in name]
    assert all(each.total == each.weight for each in rates)


def test_the_relative_entropy_by_hand() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
    assert relative_entropy(p, q) == pytest.approx(1.0) and relative_entropy(p, p) == 0.0
    tiny = np.array([1 - 1e-6, 1e-6])
    assert relative_entropy(tiny, tiny) == 0.0, "the floor must not give a bonus"
