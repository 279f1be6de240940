"""From a game to what is trained: exactly what was served, exactly what was sampled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from model_games import play_models
from pydantic import JsonValue
from scripted_table import Served, WithTokens, quick

from arena.agents.chat import Attempt, ChatOptions
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.llm.backend import Message, Request, Role, Sampling, Token
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedReply
from trainers.rollouts.rollouts import training_chat
from trainers.rollouts.trajectories import (
    DecisionStatus,
    attempts_of,
    decision_statuses,
    trajectory_of,
)
from trainers.trajectory import Trajectory

GAME = make_game("tictactoe")


def played(
    replies: Callable[[Request], str | ScriptedReply], seed: int
) -> tuple[Episode, list[Served]]:
    """A game of the model in seat 1 against a bot."""
    backend = WithTokens(replies)
    options = training_chat(ChatOptions(sampling=Sampling(max_tokens=2)))
    match = Match(GAME, ["bot:random", "scripted"], seed, chat=options)
    return play_models(match, backend, settings=quick(max_retries=0)).episode, backend.served


def attempt(asked: str, reply: str, kept: int = 0) -> Attempt:
    """An answered request; `asked` has one letter for each role and content, as in "sA uB"."""
    roles: dict[str, Role] = {"s": "system", "u": "user", "a": "assistant"}
    lines = tuple(Message(role=roles[word[0]], content=word[1:]) for word in asked.split())
    return Attempt(messages=lines, kept=kept, reply=reply, tokens=((1, -0.5, -0.5),))


@pytest.mark.parametrize(
    ("second", "number"),
    [
        (attempt("aX uC", "Y", kept=2), 1),
        (attempt("sA uB aX uC", "Y"), 1),
        (attempt("sOther uB aX uC", "Y"), 2),
        (attempt("sA uOther aX uC", "Y"), 2),
        (attempt("uOther aX uC", "Y", kept=1), 2),
        (attempt("sA uB", "Y"), 2),
    ],
    ids=["kept", "repeated", "other rules", "other question", "kept in part", "asked again"],
)
def test_a_history_goes_on_only_from_all_of_its_messages(second: Attempt, number: int) -> None:
    """What is trained follows what was served: one changed message begins another history."""
    chats = trajectory_of(episode_of([attempt("sA uB", "X"), second]), 0).chats()
    assert [len(chat) for chat in chats] == ([2] if number == 1 else [1, 1])
    contents = [message.content for turn in chats[-1] for message in turn.messages]
    assert contents == (["A", "B", "C"] if number == 1 else [m.content for m in _all(second)])


def episode_of(attempts: Sequence[Attempt]) -> Episode:
    """A game in which the model of seat 0 made these requests at its first decision."""
    episode, _ = played(lambda _: "a1", 0)
    first = next(ply for ply in episode.plies if ply.player == 0)
    details: dict[str, JsonValue] = {"attempts": [each.to_json() for each in attempts]}
    return replace(
        episode, plies=(replace(first, decision=replace(first.decision, details=details)),)
    )


def _all(second: Attempt) -> list[Message]:
    return [*[Message(role="system", content="A")][: second.kept], *second.messages]


def retold(trajectory: Trajectory) -> Iterator[Served]:
    """Each answer, with the chat that a trainer would read before it."""
    for turns in trajectory.chats():
        chat: list[Message] = []
        for turn in turns:
            chat += turn.messages
            tokens = tuple(
                Token(token.id, "?", token.policy_logprob, token.logprob) for token in turn.tokens
            )
            yield Served(tuple(chat), turn.text, tokens)
            chat.append(Message("assistant", turn.text))


def check_exact(trajectory: Trajectory, served: Sequence[Served]) -> None:
    told = list(retold(trajectory))
    assert [one.messages for one in told] == [one.messages for one in served]
    assert [one.tokens for one in told] == [one.tokens for one in served]


def test_a_growing_chat_is_one_history_with_the_sampled_tokens() -> None:
    moves = iter(["nonsense", "a1", "b2", "c3", "a2", "b1", "c1", "a3", "b3", "c2"] * 4)
    episode, served = played(lambda _: next(moves), 3)
    trajectory = trajectory_of(episode, 1)
    assert len(trajectory.chats()) == 1 and trajectory.reward == 0
    check_exact(trajectory, served)
    assert [one.text for one in retold(trajectory)] == [one.text for one in served]
    first, *others = trajectory.turns
    assert [message.role for message in first.messages] == ["system", "user"]
    assert {tuple(one.role for one in turn.messages) for turn in others} == {("user",)}
    assert first.prompt_ids == (1, 2) and first.starts_chat
    assert all((turn.action == turn.text) == turn.is_legal for turn in trajectory.turns)
    plies = [turn.ply for turn in trajectory.turns]
    assert {*plies} <= {ply.number for ply in episode.plies if ply.player == 1}
    assert plies == sorted(ply for ply in plies if ply is not None)


def test_a_shortened_chat_is_another_history_with_the_replies_that_it_keeps() -> None:
    answers: list[str | ScriptedReply] = ["no", "no", ScriptedReply(error="context_length")]
    replies = itertools.chain(answers, itertools.repeat("no"))
    episode, served = played(lambda _: next(replies), 3)
    trajectory = trajectory_of(episode, 1)
    check_exact(trajectory, served)
    first, second = trajectory.chats()
    assert len(first) == 2 and len(second) > 3
    # The kept reply is read; it is trained where it was sampled.
    roles = [message.role for message in second[0].messages]
    assert roles == ["system", "user", "assistant", "user"]


def test_how_asking_for_a_decision_ended() -> None:
    """A chat that was shortened was answered; one that is too long is nobody's failure."""
    answers: list[str | ScriptedReply] = [
        "nonsense",
        "nonsense",
        ScriptedReply(error="context_length"),
    ]
    replies = itertools.chain(answers, itertools.repeat("nonsense"))
    shortened, _ = played(lambda _: next(replies), 3)
    assert any(one.cause == "context_length" for one in attempts_of(shortened, 1))
    assert {*decision_statuses(shortened, 1)} == {DecisionStatus(False, False)}
    too_long, _ = played(lambda _: ScriptedReply(error="context_length"), 3)
    assert {*decision_statuses(too_long, 1)} == {DecisionStatus(False, True)}
    silent, _ = played(lambda _: ScriptedReply(error="server_error"), 3)
    assert {*decision_statuses(silent, 1)} == {DecisionStatus(True, False)}
    assert not list(decision_statuses(silent, 0)), "a bot is not asked"


LEGAL = st.sampled_from([f"{column}{row}" for column in "abc" for row in "123"])
NOISE = st.text("ab12 .\n", max_size=60)  # Longer ones than the chat keeps, and empty ones.
REPLIES = st.one_of(LEGAL, LEGAL, NOISE)


@hypothesis(max_examples=80, deadline=None)
@given(
    st.lists(st.one_of(REPLIES, st.just(None)), min_size=1, max_size=12),
    st.integers(300, 1500),
    st.integers(0, 99),
)
def test_histories_tell_each_request_as_it_was_sent(
    replies: list[str | None], context: int, seed: int
) -> None:
    """None: nobody answers. `context`: characters beyond which a chat is too long."""
    given = iter(replies * 20)
    spare = 0

    def reply(request: Request) -> str | ScriptedReply:
        nonlocal spare
        spare = spare or sum(len(message.content) for message in request.messages)
        if sum(len(message.content) for message in request.messages) > spare + context:
            return ScriptedReply(error="context_length")
        text = next(given)
        return ScriptedReply(error="bad_request") if text is None else text

    episode, served = played(reply, seed)
    check_exact(trajectory_of(episode, 1), served)
