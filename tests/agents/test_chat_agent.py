"""A model as a player: its chat, its attempts, its fallbacks, and what the replay keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from model_games import attempts_of, play_models

from arena.agents.agent import Seat
from arena.agents.chat import Chat, ChatOptions, attempts_in, requests_of, system_message
from arena.agents.seating import make_agent
from arena.core.errors import StopPlaying, UsageError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.episodes.match import Match
from arena.episodes.record import Episode, Position
from arena.episodes.replay import read_replay, verify
from arena.llm.backend import BackendTraits, Request, Sampling
from arena.llm.settings import RunLimits
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend, ScriptedReply

CLUEDO = make_game("cluedo", players=3)
SPECS = ["scripted", "bot:novice", "bot:novice"]


def fallback_of(request: Request) -> str:
    """A legal answer to any question of the card game: show the first card, or end the turn."""
    question = request.messages[-1].content
    _, shows, cards = question.rpartition("Show one of your cards: ")
    if shows:
        return cards.split(" | ")[0].rstrip(".")
    return "suggest Mrs White, Rope, Hall" if "suggest SUSPECT" in question else "end turn"


def game_of(
    replies: Any,
    options: ChatOptions = ChatOptions(),
    seed: int = 3,
    out: Path | None = None,
    max_turns: int = 12,
) -> tuple[Episode, Any]:
    backend = replies if isinstance(replies, ScriptedBackend) else ScriptedBackend(replies)
    match = Match(CLUEDO, SPECS, seed, max_turns=max_turns, chat=options)
    return play_models(match, backend, out).episode, backend


def decisions_of(episode: Episode, player: int = 0) -> list[Any]:
    return [ply.decision for ply in episode.plies if ply.player == player and ply.decision.details]


def test_an_appended_chat_only_grows_and_says_nothing_twice() -> None:
    episode, backend = game_of(fallback_of)
    assert len(backend.requests) > 4
    for before, after in zip(backend.requests, backend.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
    last = backend.requests[-1].messages
    assert [m.role for m in last[:4]] == ["system", "user", "assistant", "user"]
    talk = [line for m in last[1:] for line in m.content.splitlines() if line.startswith("Turn ")]
    assert len(talk) == len(set(talk)) > 4
    assert not episode.failures


def test_a_fresh_chat_is_told_anew_each_time() -> None:
    _, backend = game_of(fallback_of, ChatOptions(chat="fresh"))
    assert {len(request.messages) for request in backend.requests} == {2}
    assert all("You are Player 0." in r.messages[1].content for r in backend.requests)


@pytest.mark.parametrize(
    ("reply", "failure", "told"),
    [
        (ScriptedReply(""), "empty", "empty"),
        (ScriptedReply("Let me think about", finish_reason="length"), "truncated", ""),
        (ScriptedReply("What a lovely house."), "unparsable", ""),
        (ScriptedReply("suggest Mrs White"), "ambiguous", ""),
        (ScriptedReply("show Rope"), "illegal", "not allowed now"),
        (ScriptedReply("", refusal="I will not play."), "refused", ""),
    ],
)
def test_each_kind_of_bad_reply_gets_its_correction(
    reply: ScriptedReply, failure: str, told: str
) -> None:
    replies = iter([reply])
    episode, backend = game_of(lambda request: next(replies, fallback_of(request)))
    first, second = attempts_of(episode)[:2]
    assert first.failure == failure and second.failure is None
    correction = backend.requests[1].messages[-1].content
    assert told in correction.lower() and len(correction) < 300
    assert not episode.failures, "the second attempt was the agent's own choice"


def test_after_the_last_attempt_a_harmless_move_is_played_and_named() -> None:
    episode, backend = game_of(lambda request: "hm", ChatOptions(max_attempts=2))
    assert not any("accuse" in str(d.action) for d in decisions_of(episode))
    first = decisions_of(episode)[0]
    assert first.failure.startswith("unparsable in attempt 2") and "hm" in first.failure
    assert len(first.details["attempts"]) == 2
    assert len(backend.requests) == 2 * len(decisions_of(episode))


def test_a_provider_that_fails_is_a_fallback_with_its_cause() -> None:
    episode, backend = game_of(lambda _: ScriptedReply("no such model", error="bad_request"))
    # The service has retried what is worth it, so a decision costs one call.
    assert len(backend.requests) == len(attempts_of(episode)) == len(decisions_of(episode)) > 1
    first = attempts_of(episode)[0]
    assert (first.failure, first.cause) == ("provider_error", "bad_request")
    assert episode.failures[0].text.startswith("provider_error") and episode.outcome


def test_any_error_of_an_agent_counts_as_a_fallback() -> None:
    def fail(_: Request) -> str:
        raise OverflowError("date value out of range")

    match, limits = Match(CLUEDO, SPECS, 3), RunLimits(max_fallbacks=3)
    with pytest.raises(StopPlaying, match="3 of 3 decisions were fallback moves.*OverflowError"):
        play_models(match, ScriptedBackend(fail), limits=limits)


def test_a_chat_that_is_too_long_is_shortened_and_the_talk_left_out_is_counted() -> None:
    def small(request: Request) -> str | ScriptedReply:
        if sum(len(m.content) for m in request.messages) > 2200:
            return ScriptedReply("too long", error="context_length")
        return fallback_of(request)

    episode, backend = game_of(small, max_turns=30)
    assert not episode.failures
    forgotten = [d.details.get("forgotten", 0) for d in decisions_of(episode)]
    assert forgotten[0] == 0 and forgotten[-1] > 0
    rebuilt = backend.requests[-1].messages[1].content
    assert "left out" in rebuilt and "Your notebook:" in rebuilt
    assert "holds" in rebuilt, "its own cards are told again"


def test_shortening_ends(tmp_path: Path) -> None:
    episode, _ = game_of(lambda _: ScriptedReply("too long", error="context_length"))
    assert attempts_of(episode)[0].cause == "context_length" and episode.outcome


def test_every_request_can_be_told_from_the_replay(tmp_path: Path) -> None:
    bad = iter(["hm", "show Rope"])
    _, backend = game_of(
        lambda request: next(bad, fallback_of(request)), ChatOptions(chat="fresh"), out=tmp_path
    )
    replay = read_replay(tmp_path / "game.jsonl")
    assert verify(replay) is None
    attempts = [each for walked in replay.walk() for each in attempts_in(walked.ply.decision)]
    assert requests_of(attempts) == [request.messages for request in backend.requests]
    assert replay.header.models is not None and replay.header.models["chat"] == "fresh"


def test_roles_alternate_whatever_happens() -> None:
    bad = iter(["hm", "hm", ScriptedReply("", error="bad_request"), "hm"])
    _, backend = game_of(lambda r: next(bad, fallback_of(r)), ChatOptions(max_attempts=2))
    for request in backend.requests:
        roles = [message.role for message in request.messages]
        assert roles == (["system", *["user", "assistant"] * len(roles)])[: len(roles)]
        assert roles[-1] == "user"


def test_the_same_seed_asks_with_the_same_seeds() -> None:
    def seeds(seed: int) -> list[int | None]:
        return [request.sampling.seed for request in game_of(fallback_of, seed=seed)[1].requests]

    assert seeds(3) == seeds(3) != seeds(4)
    assert len(set(seeds(3))) == len(seeds(3))


def test_guided_requests_name_the_legal_actions_and_json_ones_a_schema() -> None:
    """Never both, which servers refuse; the choices are the narrower of the two."""
    for answers in ("text", "json"):
        _, backend = game_of(fallback_of, ChatOptions(guided=True, answers=answers))
        assert "end turn" in backend.requests[0].guided_choice
        assert all(each.guided_choice and each.guided_json is None for each in backend.requests)
    as_json = lambda request: json.dumps({"thoughts": "", "action": fallback_of(request)})  # noqa: E731
    episode, backend = game_of(as_json, ChatOptions(answers="json"))
    assert backend.requests[0].guided_json and '"action"' in backend.requests[0].messages[0].content
    assert not episode.failures
    assert not any(request.guided_choice for request in backend.requests)


def test_a_long_reply_keeps_its_tail_in_the_chat() -> None:
    """The action is usually last; the replay keeps all of it."""

    def rambling(request: Request) -> str:
        return f"BEGINNING {'hm ' * 100}\n{fallback_of(request)}"

    options = ChatOptions(sampling=Sampling(max_tokens=4))
    episode, backend = game_of(rambling, options)
    assert not episode.failures and len(backend.requests) > 2
    for request in backend.requests[1:]:
        replies = [m.content for m in request.messages if m.role == "assistant"]
        assert all(len(reply) == 64 and "BEGINNING" not in reply for reply in replies)
        assert replies[0].endswith("\nsuggest Mrs White, Rope, Hall")
    assert all(attempt.reply.startswith("BEGINNING") for attempt in attempts_of(episode))


@pytest.mark.parametrize("most", [1, 2])
def test_after_the_last_attempt_there_is_no_correction(most: int) -> None:
    """Nobody would read it before the next decision, where it would be about another one."""
    _, backend = game_of(lambda _: "hm", ChatOptions(max_attempts=most))
    assert len(backend.requests) > 2 * most
    for number, request in enumerate(backend.requests):
        corrections = [m for m in request.messages if "No action was found" in m.content]
        # Each earlier decision had one correction for each attempt but its last.
        assert len(corrections) == number // most * (most - 1) + number % most


def test_beliefs_are_asked_off_the_move_path() -> None:
    def answer(request: Request) -> str:
        if "probabilit" in request.messages[-1].content:
            return '{"sure": {}, "envelope": {"Rope": 1}}'
        return fallback_of(request)

    plain, _ = game_of(fallback_of)
    asked, backend = game_of(answer, ChatOptions(beliefs=True))
    assert [p.decision.action for p in plain.plies] == [p.decision.action for p in asked.plies]
    stated = [d.details["beliefs"] for d in decisions_of(asked) if "beliefs" in d.details]
    assert len(stated) >= 3 and all("envelope" in json.dumps(one) for one in stated)
    assert not any("probabilit" in m.content for r in backend.requests for m in r.messages[:-1])


@pytest.mark.parametrize(
    "options",
    [ChatOptions(guided=True), ChatOptions(answers="json"), ChatOptions(answers="tools")],
    ids=["choices", "schema", "tools"],
)
def test_a_question_about_beliefs_is_not_guided_to_an_action(options: ChatOptions) -> None:
    _, backend = game_of(fallback_of, replace(options, beliefs=True))
    about_beliefs = ["probabilit" in r.messages[-1].content for r in backend.requests]
    assert about_beliefs.count(True) >= 2 and about_beliefs.count(False) >= 2
    guided = [bool(r.guided_choice or r.guided_json or r.tools) for r in backend.requests]
    assert guided == [not about for about in about_beliefs]


def test_a_model_needs_a_service() -> None:
    seat = Seat(CLUEDO, 0, stream(0, "x"))
    with pytest.raises(UsageError, match="seat 0: 'scripted:x' is a model"):
        make_agent("scripted:x", seat)


@pytest.mark.parametrize(
    ("noted", "left"),
    [
        (None, [[0, 1, 2, 3, 4, 5], [3, 4, 5], [5], []]),
        (2, [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [2, 3, 4, 5]]),
    ],
    ids=["plain", "with notes"],
)
@pytest.mark.parametrize(
    "game", [CLUEDO, make_game("goofspiel", cards=9)], ids=["cluedo", "goofspiel"]
)
def test_shortening_leaves_out_the_oldest_replies_and_then_events(
    game: Game, noted: int | None, left: list[list[int]]
) -> None:
    """`noted` is the number of the reply with notes; `left` are the replies after each step."""
    rng, questions = stream(1, "moves"), list[Observation]()
    state, chat = game.initial_state(), Chat(system_message(game), level="events")
    while len(questions) < 7:
        player = state.to_act[0]
        if player == 0:
            chat.ask(state.observe(0))
            chat.add_reply(f"{len(questions)}{'<notes>a</notes>' * (len(questions) == noted)}")
            questions.append(state.observe(0))
        if player < 0:
            state.apply(player, state.sample_chance(rng))
        else:
            state.apply(player, rng.choice(game.fallback_actions(state.observe(player))))
    chat.messages.pop()  # The last question has no answer yet.
    found = []
    while not chat.forgotten:
        replies = [int(message.content[0]) for message in chat.messages[2::2]]
        found.append(replies)
        # No event is left out, or in the chat twice.
        texts = [message.content for message in chat.messages[1::2]]
        assert texts[0] == questions[6 - len(replies)].text("events")
        assert texts[1:] == [
            question.text("events", before.num_events)
            for before, question in pairwise(questions[6 - len(replies) :])
        ]
        assert chat.shorten()
    assert found == left
    while chat.shorten():
        assert (
            chat.messages[1].content.splitlines()[-1]
            == questions[6 - len(chat.messages[2::2])].text("events").splitlines()[-1]
        )
    assert len(chat.messages) == 2, "at last the notes go, too"


def test_options_are_recorded(tmp_path: Path) -> None:
    options = ChatOptions(sampling=replace(ChatOptions().sampling, temperature=0.5))
    episode, _ = game_of(fallback_of, options)
    assert episode.header.models == json.loads(json.dumps(options.to_json()))
    assert attempts_of(episode)[0].sampling["temperature"] == 0.5


class MixedBackend(ScriptedBackend):
    """Hosts two versions of its weights, of which a game draws one."""

    traits = BackendTraits(versions=((3, 0.25), (8, 0.75)))


def test_a_player_of_a_mixture_draws_a_version_for_the_whole_game() -> None:
    def versions_of(seed: int) -> list[int | None]:
        backend = MixedBackend(fallback_of)
        episode, _ = game_of(backend, seed=seed, max_turns=4)
        asked = {request.policy_version for request in backend.requests}
        assert {one.policy_version for one in attempts_of(episode)} == asked
        return list(asked)

    drawn = [version for seed in range(40) for version in versions_of(seed)]
    # One version a game, with probabilities of 1/4 and 3/4: 30 of 40, with a deviation of 2.7.
    assert len(drawn) == 40 and set(drawn) == {3, 8}
    assert 22 <= drawn.count(8) <= 38
    assert versions_of(7) == [drawn[7]]


def test_a_branch_plays_on_with_the_version_of_the_record() -> None:
    backend, match = MixedBackend(fallback_of), Match(CLUEDO, SPECS, 3, max_turns=6)
    parent = play_models(match, backend).episode
    [version] = {one.policy_version for one in attempts_of(parent)}
    plies = parent.plies[: len(parent.plies) // 2]
    start = Position("parent.jsonl", "0" * 64, parent.header, plies)
    for seed in range(6):
        branch = play_models(match.with_seed(seed), backend, start=start).episode
        assert {one.policy_version for one in attempts_of(branch)} == {version}
