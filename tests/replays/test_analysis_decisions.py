"""A decision as it is studied: requests, attempts, beliefs beside the exact ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from studied import END, Details, known_analysis, known_game, lines, recorded

from arena.agents.chat import Attempt, requests_of
from games.cluedo.game import Cluedo
from replays.analysis.documents import AttemptJson, DecisionJson
from replays.analysis.replay_analysis import ReplayAnalysis


def decided(analysis: ReplayAnalysis, ply: int) -> DecisionJson:
    found = analysis.decision(ply)
    assert found is not None
    return found


def test_requests_are_compared_with_the_last_one() -> None:
    attempts = [
        Attempt(messages=lines("rules", "turn 1\nyour cards\n"), failure="illegal"),
        Attempt(kept=2, messages=lines("no")),
        Attempt(kept=1, messages=lines("turn 2\nyour cards\n"), reply="end turn"),
    ]
    first, second, third = (attempt.to_json() for attempt in attempts)
    details = {1: {"attempts": [first, second]}, 4: {"attempts": [third]}}
    analysis = known_analysis(END, END, END, END, details=details)
    told: list[AttemptJson] = [*decided(analysis, 1)["attempts"], *decided(analysis, 4)["attempts"]]
    full = [[message.content for message in request] for request in requests_of(attempts)]
    assert [each["unchanged"] for each in told] == [0, 2, 0], "once in a decision, all is told"
    assert [each["unchanged_characters"] for each in told] == [0, len("".join(full[0])), 0]
    for each, request in zip(told, full, strict=True):
        assert [message["text"] for message in each["messages"]] == request[each["unchanged"] :]
    before = [[message["sent_before"] for message in each["messages"]] for each in told]
    assert before == [[False, False], [False], [True, False]]
    assert told[0]["failure"] == "illegal"
    asked = [ply["has_requests"] for ply in analysis.timeline()["plies"]]
    assert asked == [False, True, False, False, True]


def growing(count: int, text: str) -> list[Any]:
    """Each keeps all that was sent before and adds to it."""
    return [Attempt(kept=kept, messages=lines(text)).to_json() for kept in range(count)]


def test_a_chat_that_grows_is_not_told_again_and_again() -> None:
    text = "x" * 2_000
    analysis = known_analysis(END, END, END, END, details={
        1: {"attempts": growing(1_200, text)},
        4: {"attempts": [Attempt(kept=1_200, messages=lines("now")).to_json()]},
    })  # fmt: skip
    first, later = decided(analysis, 1), decided(analysis, 4)
    assert (len(first["attempts"]), first["more_attempts"]) == (20, 1_180)
    assert [each["unchanged"] for each in first["attempts"]] == list(range(20))
    assert all(len(each["messages"]) == 1 for each in first["attempts"])
    (attempt,) = later["attempts"]
    assert (attempt["unchanged"], attempt["unchanged_characters"]) == (1_200, 2_400_000)
    assert [message["text"] for message in attempt["messages"]] == ["now"]
    assert len(json.dumps([first, later])) < 100_000


def test_a_decision_is_no_longer_than_two_million_characters() -> None:
    big = Attempt(
        messages=lines(*["m" * 600_000] * 10),
        reply="r" * 300_000,
        sampling={"stop": ["s" * 3_000_000]},
    )
    details: Details = {1: {"attempts": [big.to_json()] * 3, "note": "n" * 3_000_000}}
    found = decided(known_analysis(END, details=details), 1)
    assert len(json.dumps(found)) < 2_100_000
    first, *_, last = found["attempts"]
    assert first["reply"] == "r" * 300_000
    assert first["messages"][2]["text"].endswith(" more characters)")
    assert len(first["messages"]) + first["more_messages"] == 10 and first["more_messages"] > 5
    assert last["reply"] == "… (300,000 more characters)"


@pytest.mark.parametrize(
    "attempts", [7, None, "x", {}, [[]], [{"messages": 3}], [{"messages": [], "reply": 1}]]
)
def test_details_that_make_no_sense_are_handed_on(attempts: Any) -> None:
    kept = Attempt(messages=lines("a")).to_json()
    details = {1: {"attempts": attempts}, 4: {"attempts": [kept, 5], "deep": [float("nan"), {}]}}
    analysis = known_analysis(END, END, END, END, details=details)
    bad = attempts if isinstance(attempts, list) else [attempts]
    assert (
        decided(analysis, 1)["other"] == {"attempts": bad} and not decided(analysis, 1)["attempts"]
    )
    half = decided(analysis, 4)
    assert half["attempts"][0]["messages"][0]["text"] == "a"
    assert half["other"] == {"attempts": [5], "deep": [None, {}]}


def test_numbers_that_json_does_not_have() -> None:
    nowhere = float("inf")
    attempt = {"messages": [], "cost": nowhere}
    replay = recorded(Cluedo(players=3), known_game(END), None, {1: {"attempts": [attempt]}})
    replay.moves[1] = replay.moves[1].model_copy(update={"seconds": nowhere})
    json.dumps(ReplayAnalysis(replay).timeline(), allow_nan=False)
    assert json.dumps(decided(ReplayAnalysis(replay), 1), allow_nan=False)
