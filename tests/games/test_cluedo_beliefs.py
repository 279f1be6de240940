"""Stated beliefs of a player: the question, the parser and the exact scores."""

from __future__ import annotations

import json
import math
import random
import time
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_deal import ENVELOPE, HANDS
from pydantic import JsonValue

from arena import Observation
from arena.core.action import CHANCE
from games.cluedo.analysis.beliefs import (
    FLOOR,
    belief_measurements,
    entropy,
    excess_brier,
    relative_entropy,
)
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Accuse, DealCards, Dealt, EndTurn, Roll, Show, Suggest
from games.cluedo.rules.state import CluedoState
from games.cluedo.text.belief_parser import StatedBeliefs, read_beliefs
from games.cluedo.text.notebook import SeenCards

Theme = Literal["uk", "us"]
UK, US = Cluedo(players=3), Cluedo(players=3, theme="us")
ME, IN_ENVELOPE = 0, 3


def dealt(game: Cluedo = UK) -> CluedoState:
    """The known deal, in the names of the game's edition."""
    own = dict(zip(UK.deck.cards, game.deck.cards, strict=True))
    state = game.initial_state()
    hands = tuple(game.deck.sort([own[card] for card in hand]) for hand in HANDS)
    state.apply(CHANCE, DealCards(Triple(*(own[card] for card in ENVELOPE)), hands))
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


def perfect(observation: Observation) -> dict[str, Any]:
    """Return the answer of a perfect reasoner."""
    game = observation.game
    assert isinstance(game, Cluedo)
    knowledge = CluedoKnowledge.after(game, observation.player, observation.events)
    places = (*game.seat_names, "envelope")
    certain = {c: places[h] for c in game.deck.cards if (h := knowledge.holder(c)) is not None}
    shares = knowledge.marginals()[:, knowledge.envelope]
    return {"sure": certain, "envelope": dict(zip(game.deck.cards, shares, strict=True))}


def score(answer: object, observation: Observation) -> dict[str, Any]:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return observation.game.text.score_beliefs(text, observation)


def read(answer: str, game: Cluedo = UK) -> StatedBeliefs:
    beliefs = read_beliefs(game, ME, answer)
    assert beliefs is not None, answer
    return beliefs


def counts(scores: dict[str, Any]) -> dict[str, int]:
    return {kind: scores[f"sure_{kind}"] for kind in ("right", "own", "false", "premature")} | {
        "missed": scores["sure_missed"]
    }


# Asking


def test_the_question_is_put_where_an_accusation_may_be_made() -> None:
    state = dealt()
    question = UK.text.belief_question(state.observe(0))
    assert question is not None and '"sure"' in question and '"envelope"' in question
    assert '"Player 1"' in question and len(question) < 600
    assert UK.text.belief_question(state.observe(1)) is None, "it is not player 1's turn"
    state.apply(0, Suggest("Reverend Green", "Revolver", "Hall"))
    assert UK.text.belief_question(state.observe(1)) is None, "it has a card to show"
    state.apply(1, Show("Revolver"))
    assert UK.text.belief_question(state.observe(0)) is not None, (
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


def test_the_form_that_the_question_shows_can_be_read() -> None:
    question = UK.text.belief_question(dealt().observe(0)) or ""
    beliefs = read(question.replace("CARD", "Rope"))
    assert beliefs.sure == {"Rope": 1} and beliefs.envelope == {"Rope": 1.0}


# Understanding


@pytest.mark.parametrize(
    "answer",
    [
        '{"sure": {"Rope": "Player 2"}, "envelope": {"Dagger": 0.5, "Spanner": 0.5}}',
        '{Rope}?\n```json\n{"sure": {"rope": 2}, "envelope": {"KNIFE": 1, "wrench": 1}}\n```',
        '{"Sure": {"the Rope": "p2"}, "ENVELOPE": {"dagger": "50%", "spanner": "50 %"}} So be it.',
        '{"sure": {"Rope.": "2"}, "envelope": {"Dagger": "50%", "Wrench": 50}}',
        '{"sure": {"Rope": "P 2"}, "envelope": {"weapons": {"Dagger": "1/2", "Spanner": 0.5}}}',
        '{"sure": {"Rope": "player2"}, "envelope": {"Dagger": 50, "Spanner": 50, "Revolver": 0}}',
        '{"answer": {"sure": {"Rope": "PLAYER 2"}, "envelope": {"Dagger": 0.3, "Spanner": 0.3}}}',
        '{"sure": {"Rope": "Player 2",}, "envelope": {"Dagger": 50%, // or not\n "Spanner": 50%,}}',
        '{"sure": {"Rope": "Player 2", ...}, "envelope": {"Dagger": 1/2, "Spanner": 1/2, ...}}',
        "{'sure': {'Rope': 'Player 2'}, 'envelope': {'Dagger': 0.5, 'Spanner': 0.5}}",
        "{“sure”: {“Rope”: “Player 2”}, “envelope”: {“Dagger”: .5%, “Spanner”: .5%}}",
        '{"sure": {}, "envelope": {"Rope": 1}} No: {"sure": {"Rope": "Player 2"}, "envelope": '
        '{"Dagger": 0.5, "Spanner": 0.5}} (and not {"sure": {"Rope": "me"}})',
    ],
)
def test_one_belief_in_many_forms(answer: str) -> None:
    beliefs = read(answer)
    assert beliefs.sure == {"Rope": 2}
    assert {c: p for c, p in beliefs.envelope.items() if p} == {"Dagger": 0.5, "Spanner": 0.5}
    assert beliefs.unstated == ("suspect", "room")
    assert beliefs.ignored == 0


@pytest.mark.parametrize(
    ("stated", "holder"),
    [
        ("me", 0),
        ("Player 0", 0),
        ("Player 0 (me)", 0),
        (0, 0),
        ("the envelope", 3),
        ("Envelope", 3),
    ],
)
def test_holders(stated: str | int, holder: int) -> None:
    assert read(json.dumps({"sure": {"Rope": stated}})).sure == {"Rope": holder}


@pytest.mark.parametrize("stated", [3, "Player 3", -1, True, 1.5, None, [1], "somebody", "x" * 999])
def test_no_holders(stated: JsonValue) -> None:
    beliefs = read(json.dumps({"sure": {"Rope": stated}}))
    assert beliefs.sure == {} and beliefs.ignored == 1


@pytest.mark.parametrize(
    "stated", [-0.1, "NaN", math.nan, math.inf, 1e300, 10**4000, "likely", None, [], "1/0", "%"]
)
def test_no_probabilities(stated: JsonValue) -> None:
    beliefs = read(json.dumps({"envelope": {"Rope": stated, "Hall": 1}}))
    assert beliefs.envelope == {"Hall": 1.0} and beliefs.ignored == 1


def test_percentages_beside_bare_numbers() -> None:
    stated = {"Rope": "40%", "Dagger": 59.5, "Spanner": 0.5, "Hall": 0.25, "Study": "75%"}
    envelope = read(json.dumps({"envelope": stated})).envelope
    assert envelope["Rope"] == pytest.approx(0.4) and envelope["Spanner"] == pytest.approx(0.005)
    assert envelope["Hall"] == 0.25, "other categories may use another unit"


@pytest.mark.parametrize(("game", "other"), [(UK, US), (US, UK)])
def test_names_of_both_editions(game: Cluedo, other: Cluedo) -> None:
    for own, foreign in zip(game.deck.cards, other.deck.cards, strict=True):
        for name in (own, foreign, foreign.upper(), f"The {foreign}"):
            assert read(json.dumps({"sure": {name: 1}}), game).sure == {own: 1}


def test_cards_of_a_small_deck_only() -> None:
    game = Cluedo(players=2, suspects=2, weapons=2, rooms=2)
    beliefs = read('{"sure": {"Rope": 1, "Dagger": 1, "Study": 0}}', game)
    assert beliefs.sure == {"Dagger": 1} and beliefs.ignored == 2


@pytest.mark.parametrize(
    "answer",
    ["", "I do not know.", "{}", "[]", '{"sure": 3}', '{"sure": {"Rope": 1}', '{"a": {"Rope": 1}}'],
)
def test_nonsense(answer: str) -> None:
    assert score(answer, dealt().observe(0)) == {"failure": "unparsable"}


@pytest.mark.timed
@pytest.mark.parametrize(
    "unit",
    [
        "{",
        '{"sure": {',
        '{"a":[',
        '{"sure": {}}',
        "{'sure': 1, ",
        '{"a": 1,  ',
        "{:  9",
        "{// ",
        "x",
    ],
)
def test_a_megabyte_is_read_in_bounded_time(unit: str) -> None:
    answer, start = unit * (2**20 // len(unit)), time.process_time()
    read_beliefs(UK, ME, answer)
    assert time.process_time() - start < 1.0


# Scoring


def test_before_the_first_move_by_hand() -> None:
    scores = score('{"sure": {"Rope": "me"}, "envelope": {"Rope": 1}}', dealt().observe(0))
    # Own cards: two suspects, two weapons, two rooms. So the envelope is one of 4, 4 and 7.
    assert scores["posterior_entropy"] == {
        "suspect": 2.0,
        "weapon": 2.0,
        "room": pytest.approx(math.log2(7), abs=1e-6),
        "total": pytest.approx(4 + math.log2(7), abs=1e-6),
        "joint": pytest.approx(4 + math.log2(7), abs=1e-6),
    }
    log_score, brier = scores["log_score"], scores["brier"]
    # Unstated is uniform: 1/6 for each of the 4, 1/9 for each of the 7.
    assert log_score["suspect"] == pytest.approx(math.log2(6 / 4), abs=1e-6)
    assert log_score["room"] == pytest.approx(math.log2(9 / 7), abs=1e-6)
    assert brier["suspect"] == pytest.approx(4 * (1 / 4 - 1 / 6) ** 2 + 2 / 36, abs=1e-6)
    # The rope for certain: 1/4 log2(1/4 : 1) + 3/4 log2(1/4 : 1/1000).
    assert log_score["weapon"] == pytest.approx(-0.5 + 0.75 * math.log2(250), abs=1e-6)
    assert brier["weapon"] == pytest.approx((3 / 4) ** 2 + 3 / 16, abs=1e-6)
    for values in (log_score, brier):
        parts = [values[category] for category in Triple._fields]
        assert values["total"] == pytest.approx(sum(parts), abs=2e-6)
    assert scores["unstated"] == ["suspect", "room"]
    assert counts(scores) == {"right": 0, "own": 0, "false": 1, "premature": 0, "missed": 0}


def test_an_explicit_uniform_answer_scores_as_an_unstated_one() -> None:
    observation = dealt().observe(0)
    uniform = score({"envelope": dict.fromkeys(UK.deck.cards, 1)}, observation)
    silent = score({"sure": {}}, observation)
    assert uniform["unstated"] == [] and silent["unstated"] == list(Triple._fields)
    assert (uniform["log_score"], uniform["brier"]) == (silent["log_score"], silent["brier"])


def test_each_certainty_is_counted_once() -> None:
    sure = {
        "Kitchen": "me",  # right, its own
        "Revolver": "Player 1",  # right
        "Dagger": "Player 2",  # false: it is its own
        "Rope": "Player 1",  # possible, since it was player 1 who asked
        "Hall": "Player 2",  # false: it could not refute
        "Study": "Player 2",  # possible
    }
    scores = score({"sure": sure}, played().observe(0))
    assert counts(scores) == {"right": 2, "own": 1, "false": 2, "premature": 2, "missed": 0}
    assert scores["sure"]["Kitchen"] == ME
    missed = score({"sure": {"Dagger": "me", "Revolver": "envelope"}}, played().observe(0))
    assert counts(missed) == {"right": 1, "own": 1, "false": 1, "premature": 0, "missed": 0}
    assert counts(score({"sure": {}}, played().observe(0)))["missed"] == 1


@pytest.mark.parametrize("size", [6, 12])
def test_certainties_without_a_reason_count_in_a_deck_of_any_size(size: int) -> None:
    game = Cluedo(theme="generated", suspects=size, weapons=size, rooms=size)
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(1)))
    observation, seen = state.observe(0), SeenCards(game, 0)
    for event in observation.events:
        seen.update(event)
    knowledge = CluedoKnowledge.after(game, 0, observation.events)
    unknown = [card for card in game.deck.cards if knowledge.holder(card) is None]
    beliefs = score({"sure": dict.fromkeys(unknown, "Player 1")}, observation)
    precision = belief_measurements(beliefs, knowledge, seen)["precision"]
    assert (precision.total, precision.weight) == (0, len(unknown))
    forged = belief_measurements({**beliefs, "sure_false": 3 * size + 1}, knowledge, seen)
    assert "precision" not in forged


def test_open_cards_are_nowhere() -> None:
    game = Cluedo(players=4, leftover_cards="open")
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(2)))
    observation = state.observe(0)
    (card, _) = next(e.open_cards for e in observation.events if isinstance(e, Dealt))
    scores = score({"sure": {card: "envelope"}}, observation)
    assert counts(scores) == {"right": 0, "own": 0, "false": 1, "premature": 0, "missed": 0}


@pytest.mark.parametrize("game", [UK, US, Cluedo(players=5, variant="classic")])
def test_a_perfect_answer_is_perfect_all_game_long(game: Cluedo) -> None:
    rng, asked = random.Random(3), 0
    state = game.initial_state()
    while state.to_act and state.turn < 25:
        player = state.to_act[0]
        if player == CHANCE:
            state.apply(CHANCE, state.sample_chance(rng))
            continue
        observation = state.observe(player)
        if game.text.belief_question(observation):
            check_perfect(observation)
            asked += 1
        calm = [a for a in observation.legal_actions if not isinstance(a, Accuse)]
        state.apply(player, rng.choice(calm))
    assert asked >= 24


def check_perfect(observation: Observation) -> None:
    answer = perfect(observation)
    scores = score(answer, observation)
    assert scores["sure_right"] == len(answer["sure"]) >= scores["sure_own"] > 0
    assert scores["sure_false"] == scores["sure_premature"] == scores["sure_missed"] == 0
    assert set(scores["log_score"].values()) == {0.0} == set(scores["brier"].values())
    assert scores["ignored"] == 0 and scores["unstated"] == []
    entropies = scores["posterior_entropy"]
    assert entropies["joint"] <= entropies["total"] + 2e-6


def test_the_envelope_known() -> None:
    state = played()
    # Player 1 asked for three cards that it has not itself, and no player could refute.
    sure = dict.fromkeys(ENVELOPE, "envelope")
    scores = score({"sure": sure, "envelope": dict.fromkeys(ENVELOPE, 1)}, state.observe(1))
    assert counts(scores) == {"right": 3, "own": 0, "false": 0, "premature": 0, "missed": 0}
    assert set(scores["log_score"].values()) == {0.0} == set(scores["brier"].values())
    assert set(scores["posterior_entropy"].values()) == {0.0}
    wrong = score({"envelope": {"Study": 1}}, state.observe(1))
    assert wrong["log_score"]["room"] == pytest.approx(math.log2(1 / FLOOR), abs=1e-6)
    assert wrong["brier"]["room"] == 2.0


def test_formulas_by_hand() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
    assert relative_entropy(p, q) == pytest.approx(1.0) and relative_entropy(p, p) == 0.0
    assert excess_brier(p, q) == pytest.approx(0.375)
    assert entropy(p) == 1.0 and str(entropy(np.array([1.0, 0.0]))) == "0.0"
    tiny = np.array([1 - 1e-6, 1e-6])
    assert relative_entropy(tiny, tiny) == 0.0, "the floor must not give a bonus"


def test_brier_is_the_expected_excess() -> None:
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    so = np.eye(6)
    expected = p @ ((so - q) ** 2).sum(axis=1) - p @ ((so - p) ** 2).sum(axis=1)
    assert excess_brier(p, q) == pytest.approx(expected)


# Whatever is answered

NAMES = st.sampled_from(
    [*UK.deck.cards, *US.deck.cards, "plum", "nobody", "", "suspects", "\ud800"]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["Player 1", "me", "envelope", "p2", "40%", "1/3", "1e400", "-5%", "5/0"]),
)
PARTS = st.dictionaries(NAMES, st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=3)))
ANSWERS = st.dictionaries(
    st.sampled_from(["sure", "envelope", "Envelope ", "note"]), st.one_of(PARTS, VALUES)
)
TOKENS = st.sampled_from(
    [*'{}[]:,"%/.019 \n\\', '"sure":', '"envelope": {', '"Rope":', '"me"', "40%"]
)
OBSERVATIONS = {"uk": played().observe(0), "us": dealt(US).observe(0)}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["uk", "us"]), ANSWERS, st.text(max_size=20), st.integers(0, 400))
def test_whatever_is_answered(theme: Theme, answer: JsonValue, prose: str, cut: int) -> None:
    whole = prose + json.dumps(answer)
    for text in (whole, whole[: max(0, len(whole) - cut)], whole.replace('"', "'")):
        check_scores(score(text, OBSERVATIONS[theme]), OBSERVATIONS[theme])


@settings(max_examples=200, deadline=None)
@given(st.lists(TOKENS, max_size=40).map("".join))
def test_whatever_is_typed(text: str) -> None:
    check_scores(score('{"sure": {' + text, OBSERVATIONS["uk"]), OBSERVATIONS["uk"])


def check_scores(scores: dict[str, Any], observation: Observation) -> None:
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores
    if "failure" in scores:
        assert scores == {"failure": "unparsable"}
        return
    game = observation.game
    assert isinstance(game, Cluedo)
    assert all(card in game.deck.index and 0 <= h <= 3 for card, h in scores["sure"].items())
    for kind, category in zip(Triple._fields, game.deck.categories, strict=True):
        total = sum(scores["envelope"].get(card, 0.0) for card in category)
        assert total == pytest.approx(0.0 if kind in scores["unstated"] else 1.0, abs=1e-5)
    stated = counts(scores)
    assert stated["right"] + stated["false"] + stated["premature"] == len(scores["sure"])
    assert all(0 <= bits <= 3 * math.log2(1 / FLOOR) for bits in scores["log_score"].values())
    assert all(0 <= value <= 6 for value in scores["brier"].values())
