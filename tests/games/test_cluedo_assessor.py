"""Assessment by exact knowledge: games made by hand, and properties of all games."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Mapping
from functools import lru_cache

import pytest
from known_deal import ENVELOPE, HANDS
from pydantic import JsonValue
from random_games import plies, random_steps

from arena.core.action import CHANCE, Action
from arena.core.action_set import ActionSet
from arena.core.analysis import Assessment, WeightedSum, sum_measurements
from arena.core.event import Decision, Outcome, Ply
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.beliefs import belief_measurements, inference_of
from games.cluedo.analysis.judgements import DECISION_KINDS, RefutationFacts, break_even
from games.cluedo.analysis.measures import INFERENCES, MEASURES
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.setting import (
    Accuse,
    Accused,
    CluedoSetting,
    DealCards,
    EndTurn,
    Show,
    Suggest,
)

END = EndTurn()
WRONG = Accuse("Mrs White", "Rope", "Study")


def assess(
    game: CluedoSetting,
    plies: Iterable[Ply],
    outcome: Outcome | None = None,
    kinds: tuple[str, ...] | None = None,
) -> list[Assessment]:
    assessor = CluedoAssessor(game, None, kinds)
    found = [each for ply in plies for each in assessor.ply(ply)]
    return found + assessor.end(outcome or Outcome("truncated", "stopped", (0.0, 0.0, 0.0)))


def judged(*actions: Action, details: Mapping[str, JsonValue] | None = None) -> list[Assessment]:
    """Return the assessments of a game that starts with the known deal."""
    game, decisions = Cluedo(players=3), (Decision(each, None, details or {}) for each in actions)
    return assess(game, plies(game, (DealCards(ENVELOPE, HANDS), *decisions)))


def only(found: Iterable[Assessment], kind: str) -> Assessment:
    [one] = [each for each in found if each.kind == kind]
    return one


def contest(game: Cluedo, specs: list[str], seed: int) -> Episode:
    return asyncio.run(play(Match(game, specs, seed, max_turns=60)))


@lru_cache
def table(bot: str, games: int, kinds: tuple[str, ...]) -> tuple[tuple[Assessment, ...], ...]:
    game = Cluedo(players=4)
    episodes = [contest(game, [f"bot:{bot}"] * 4, seed) for seed in range(games)]
    return tuple(tuple(assess(game, each.plies, each.outcome, kinds)) for each in episodes)


def value(found: Iterable[Assessment], measure: str) -> float:
    share = sum_measurements(each.measurements for each in found)[measure]
    return share.total / share.weight


# Accusations


def test_a_provable_accusation() -> None:
    found = judged(Suggest(*ENVELOPE), Accuse(*ENVELOPE))
    accusation = only(found, "accusation")
    assert accusation.facts["provable"] and accusation.facts["correct"]
    assert accusation.ply == 2 and accusation.player == 0
    assert accusation.measurements == {
        "accusations_right": WeightedSum(1.0),
        "accusation_probability": WeightedSum(1.0),
        "premature": WeightedSum(0.0),
        "missed": WeightedSum(0.0),
        "missed_seen": WeightedSum(0.0),
    }


@pytest.mark.parametrize(("accuse", "right"), [(Accuse(*ENVELOPE), 1.0), (WRONG, 0.0)])
def test_a_guess_is_premature_whether_right_or_not(accuse: Accuse, right: float) -> None:
    accusation = only(judged(accuse), "accusation")
    # Seat 0 has 2, 2 and 2 of the cards: 4 suspects, 4 weapons and 7 rooms are open.
    assert accusation.facts["probability"] == pytest.approx(1 / (4 * 4 * 7))
    assert accusation.facts["break_even"] == 1.0, "it may still ask"
    assert accusation.measurements["premature"] == WeightedSum(1.0)
    assert accusation.measurements["accusations_right"] == WeightedSum(right)
    assert "missed" not in accusation.measurements


def test_turns_that_let_a_certain_case_pass() -> None:
    pass_round = (END, END, END)
    found = judged(Suggest(*ENVELOPE), *pass_round, *pass_round, Accuse(*ENVELOPE))
    missed = [each for each in found if each.kind == "missed accusation"]
    assert [(each.ply, each.player) for each in missed] == [(2, 0), (5, 0)]
    totals = sum_measurements(each.measurements for each in found if each.player == 0)
    assert totals["missed"] == WeightedSum(2.0, 3.0)
    assert totals["missed_seen"] == WeightedSum(1.0, 1.0), "the first of the three turns"
    assert not any("missed" in each.measurements for each in found if each.player != 0)


def test_when_waiting_is_as_risky() -> None:
    state = Cluedo(players=3).initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    knowledge = CluedoKnowledge.after(state.game, 0, state.log.witnessed[0])
    knowledge._must(3, knowledge._set(("Mrs White", "Rope")))
    knowledge._may_not(3, knowledge._set(state.game.deck.rooms[3:6]))
    knowledge._may_not(3, knowledge._set(("Conservatory", "Lounge")))
    assert knowledge.entropy() == pytest.approx(1.0), "Hall or Dining Room"
    assert break_even(knowledge, rivals=2, may_suggest=False) == pytest.approx(0.81)
    assert break_even(knowledge, rivals=1, may_suggest=False) == pytest.approx(0.9)
    assert break_even(knowledge, rivals=0, may_suggest=False) == 1.0
    assert break_even(knowledge, rivals=2, may_suggest=True) == 1.0


def test_accusing_and_waiting_are_worth_their_gain_against_each_other() -> None:
    def credit(kind: str, **facts: float | bool) -> float:
        found = DECISION_KINDS[kind].value(Assessment(0, 0, kind, dict(facts)))
        assert found is not None
        return found

    def accusation(probability: float, highest: float, waiting: float) -> float:
        return credit(
            "accusation",
            probability=probability,
            break_even=waiting,
            highest=highest,
            correct=False,
            provable=highest == 1.0,
        )

    def wait(highest: float, waiting: float) -> float:
        return credit("wait", break_even=waiting, highest=highest)

    # One threshold: what is right has a positive value, and the other choice minus that value.
    for highest, waiting in ((0.4, 0.6), (0.6, 0.4), (0.5, 0.125), (0.004, 0.99)):
        gain = highest - waiting
        assert accusation(highest, highest, waiting) == pytest.approx(gain)
        assert wait(highest, waiting) == pytest.approx(-gain)
        # What wins as often is worth as much: a less probable envelope, and waiting.
        assert accusation(waiting, highest, waiting) == pytest.approx(wait(highest, waiting))
    # While a question may follow, a guess never pays, but a certain case leaves nothing to ask.
    assert accusation(0.9, 0.9, 1.0) == pytest.approx(-0.1)
    assert accusation(1.0, 1.0, 1.0) == 1.0 and accusation(0.0, 1.0, 1.0) == wait(1.0, 0.0) == -1
    assert wait(1.0, 1.0) == -1, "also if no rival is left, who could win first"


def test_a_wait_is_judged_where_the_turn_ends() -> None:
    found = judged(END, END, END, Suggest(*ENVELOPE), END)
    first, *others = (each for each in found if each.kind == "wait")
    # Four suspects, four weapons and seven rooms are open: log2(112) bits, and two rivals.
    risk = 0.1 * 2 ** (1 - math.log2(112))
    assert first.facts == pytest.approx({"break_even": (1 - risk) ** 2, "highest": 1 / 112})
    assert not first.measurements and Cluedo(players=3).analysis.comment(first) is None
    assert [each.player for each in others] == [1, 2, 0]
    assert others[-1].facts == pytest.approx({"break_even": 0.64, "highest": 1.0}), "all was shown"


# Questions and refutations


def test_a_question_that_nobody_refutes() -> None:
    found = judged(Suggest(*ENVELOPE))
    question, answer = only(found, "suggestion"), only(found, "answer")
    assert question.ply == answer.ply == 1 and answer.facts["entropy_after"] == 0.0
    assert answer.facts["gained"] == question.facts["entropy_before"] == pytest.approx(6.807355)
    expected, best = question.facts["expected"], question.facts["best"]
    assert isinstance(expected, float) and isinstance(best, float) and expected <= best
    value = WeightedSum(expected, best)
    assert question.measurements == {"efficiency": value, "efficiency_early": value}
    assert answer.facts["expected"] == expected


def test_a_turn_without_a_question_gains_none_of_the_best() -> None:
    found = judged(END)
    skipped, asked = only(found, "skipped question"), only(judged(Suggest(*ENVELOPE)), "suggestion")
    best = skipped.facts["best"]
    assert isinstance(best, float) and best == pytest.approx(asked.facts["best"])
    assert skipped.measurements == {"efficiency_early": WeightedSum(0.0, best)}
    # Nothing can be asked after a question, and nothing is worth asking when all is known.
    known = judged(Suggest(*ENVELOPE), END, END, END, END)
    assert [each.player for each in known if each.kind == "skipped question"] == [1, 2]


def test_showing_a_card_again_tells_least() -> None:
    ask = Suggest("Reverend Green", "Revolver", "Library")
    again = [ask, Show("Revolver"), END, END, END, ask]
    leaks = {
        card: [each for each in judged(*again, Show(card)) if each.kind == "refutation"][-1]
        for card in ("Revolver", "Library")
    }
    for refutation in leaks.values():
        assert refutation.player == 1 and refutation.facts["choices"] == 3
    facts = RefutationFacts.of(leaks["Library"])
    assert facts.least == RefutationFacts.of(leaks["Revolver"]).leaked < 0.2 < facts.leaked
    assert leaks["Revolver"].measurements["excess_leak"] == WeightedSum(0.0)
    needless = {card: each.measurements["leak_ratio"] for card, each in leaks.items()}
    assert needless["Revolver"] == WeightedSum(0.0, needless["Library"].weight)
    assert needless["Library"].total > needless["Library"].weight / 2 > 0
    assert leaks["Library"].measurements["excess_leak"].total == facts.leaked - facts.least


# Stated beliefs


def test_stated_beliefs_are_measured_at_their_decision() -> None:
    beliefs: JsonValue = {"sure": {"Kitchen": 0}, "envelope": {"Mrs White": 0.8, "Rope": 0.2}}
    found = judged(Suggest(*ENVELOPE), details={"beliefs": beliefs})
    measurements = only(found, "beliefs").measurements
    assert measurements["belief_error"].total > 0
    assert measurements["belief_failures"] == WeightedSum(0.0)
    assert "deduced_precision" not in measurements, "own cards need no deduction"


@pytest.mark.parametrize(
    "beliefs",
    [
        None,
        "sure",
        [1],
        {},
        {"envelope": {"Mrs White": "0.5", "Rope": True, "Hall": 1e300}, "unstated": 7},
        {"envelope": {"Mrs White": float("nan"), "Nobody": 0.5}, "unstated": [[1], {}]},
        {"sure": 3, "envelope": {"Rope": 1.0}},
        {"sure": {"Rope": "me", "Hall": 9, "Study": True, "Nobody": 1}, "envelope": []},
    ],
)
def test_malformed_beliefs_are_left_out(beliefs: JsonValue) -> None:
    found = judged(Suggest(*ENVELOPE), details={"beliefs": beliefs})
    measurements = sum_measurements(each.measurements for each in found if each.kind == "beliefs")
    assert set(measurements) <= {"belief_failures"}
    assert all(share.total <= share.weight for share in measurements.values())


# Any game


def random_plies(game: Cluedo, rng: random.Random, moves: int) -> list[Ply]:
    """Return a game of players who mostly ask and may accuse at any time."""

    def choose(rng: random.Random, legal: ActionSet) -> Action:
        kinds = [legal.of(Suggest) or legal, legal.of(Accuse) or legal, legal]
        return rng.choice(rng.choices(kinds, [5, 1, 2])[0])

    return [*plies(game, random_steps(game, rng, moves, choose))]


@pytest.mark.parametrize("seed", range(25))
def test_what_holds_in_any_game(seed: int) -> None:
    rng = random.Random(seed)
    deck = {"suspects": 3, "weapons": 2, "rooms": 4} if seed % 2 else {}
    game = Cluedo(players=rng.randint(2, 5), leftover_cards=rng.choice(["dealt", "open"]), **deck)
    found = assess(game, random_plies(game, rng, moves=40))
    assert any(each.kind == "turn" for each in found)
    declared = {measure.name for measure in MEASURES}
    for each in found:
        facts, numbers = each.facts, {k: v for k, v in each.facts.items() if isinstance(v, float)}
        assert set(each.measurements) <= declared
        assert 0 <= each.player < game.num_players
        if each.kind == "suggestion":
            assert 0 <= numbers["expected"] <= numbers["best"] + 1e-9
            assert numbers["best"] <= numbers["entropy_before"] + 1e-9
        if each.kind == "answer":
            assert numbers["entropy_before"] - numbers["gained"] == numbers["entropy_after"] >= 0
        if each.kind == "refutation":
            assert numbers["leaked"] >= numbers["least"]
        if each.kind == "accusation" and facts["provable"]:
            assert facts["correct"] == (facts["probability"] == 1.0)


# What is asked for, and nothing else


@pytest.mark.parametrize(
    ("players", "kinds"),
    [
        ((0,), None),
        (None, ("turn",)),
        (None, ("beliefs",)),
        ((0,), ("refutation",)),
        ((2,), ("suggestion",)),
        ((1,), ("answer",)),
        ((1, 2), ("accusation", "knowledge")),
        ((2, 0), ("missed accusation",)),
        ((), None),
        (None, ()),
    ],
)
def test_a_narrow_judge_says_the_same_of_what_it_judges(
    players: tuple[int, ...] | None, kinds: tuple[str, ...] | None
) -> None:
    for seed in range(3):
        game, rng = Cluedo(players=3, suspects=3, weapons=3, rooms=4), random.Random(seed)
        moves, outcome = random_plies(game, rng, moves=40), Outcome("truncated", "", (0.0,) * 3)
        narrow = CluedoAssessor(game, players, kinds)
        found = [each for ply in moves for each in narrow.ply(ply)] + narrow.end(outcome)
        assert found == [
            each
            for each in assess(game, moves, outcome)
            if (players is None or each.player in players) and (kinds is None or each.kind in kinds)
        ]


def test_what_an_accusation_reveals_is_no_deduction() -> None:
    """No player could refute: seat 0 knows all. The others learn it when the game is over."""
    found = judged(Suggest(*ENVELOPE), Accuse(*ENVELOPE))
    known = {each.player: each.facts for each in found if each.kind == "knowledge"}
    # Open to each: 4, 4 and 7 suspects, weapons and rooms; the same; 5, 5 and 5.
    dealt = [facts["entropy_dealt"] for facts in known.values()]
    assert dealt == [pytest.approx(math.log2(count)) for count in (112, 112, 125)]
    assert known[0]["entropy_end"] == 0.0
    for player in (1, 2):
        state = Cluedo(players=3).initial_state()
        state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
        state.apply(0, Suggest(*ENVELOPE))
        entropy = CluedoKnowledge.after(state.game, player, state.log.witnessed[player]).entropy()
        assert 6 < entropy < 6.8 and known[player]["entropy_end"] == pytest.approx(entropy)


def test_a_false_accuser_learns_nothing_more_but_the_others_do() -> None:
    known = {each.player: each.facts for each in judged(WRONG) if each.kind == "knowledge"}
    assert known[0]["entropy_end"] == known[0]["entropy_dealt"] == pytest.approx(math.log2(112))
    # Seat 1 could have thought it possible; seat 2 has the Study.
    assert known[1]["entropy_end"] == pytest.approx(math.log2(111))
    assert known[2]["entropy_end"] == pytest.approx(math.log2(125))


def test_each_certain_place_has_one_kind_of_inference() -> None:
    """Recall of all kinds together is the recall of provable cards."""
    game = Cluedo(players=3)
    kinds = set[str]()
    for seed in (0, 2, 4):
        episode = contest(game, ["bot:oracle", "bot:novice", "bot:novice"], seed)
        knowledge = CluedoKnowledge(game, 0)
        for event in (e for ply in episode.plies for e in ply.events if e.seen_by(0)):
            if isinstance(event, Accused):
                break
            knowledge.update(event)
            certain = {card: knowledge.holder(card) for card in game.deck.index}
            provable = {card: at for card, at in certain.items() if at not in (None, 0)}
            found = belief_measurements({"sure": {**provable}, "envelope": {}}, knowledge)
            recalls = {name: each for name, each in found.items() if name.startswith("recall_")}
            assert sum(each.weight for each in recalls.values()) == len(provable)
            assert all(each.total == each.weight for each in recalls.values())
            for card, holder in provable.items():
                kind = inference_of(card, knowledge)
                kinds.add(kind)
                assert (kind in ("exclusion", "cannot_show")) == (holder == knowledge.envelope)
                if kind == "shown":
                    assert knowledge.facts.shown[card] == holder
    assert kinds == set(INFERENCES)
