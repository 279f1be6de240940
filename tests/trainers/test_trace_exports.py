"""Replays as episodes of verifiers and as traces of OpenEnv.

What these libraries' own classes make of the files is tested where they are installed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any

import msgpack
import pytest
from test_export import (
    END,
    NOISE,
    Replies,
    WithTokens,
    cluedo,  # noqa: F401 - a fixture.
    export,
    in_order,
    of_cluedo,
    record,
    seat_of,
)

from arena.core.errors import UsageError
from arena.episodes.replay import read_replay
from arena.llm.backend import Completion, Request
from backends.scripted import ScriptedReply
from trainers.export.verifiers import pack
from trainers.rewards import Rewards


def episodes_of(paths: Sequence[Path], out: Path, reward: str = "") -> list[dict[str, Any]]:
    export(paths, "verifiers", out, reward)
    return [*msgpack.Unpacker(BytesIO(out.read_bytes()))]


def path_to(trace: dict[str, Any], place: int | None) -> list[dict[str, Any]]:
    """The nodes from a root to this one."""
    path = []
    while place is not None:
        path.append(trace["nodes"][place])
        place = path[-1]["parent"]
    return path[::-1]


def branches(trace: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The nodes from a root to each leaf."""
    nodes = trace["nodes"]
    parents = {node["parent"] for node in nodes}
    found = []
    for leaf in range(len(nodes)):
        if leaf not in parents:
            found.append(path_to(trace, leaf))
    return found


def test_message_pack_is_exact_and_takes_any_reply() -> None:
    packed = pack({"logprob": -0.1, "reply": "\ud800 Ä"})
    assert msgpack.unpackb(packed) == {"logprob": -0.1, "reply": "? Ä"}


def test_an_episode_holds_what_the_model_read_and_sampled(cluedo: Path, tmp_path: Path) -> None:  # noqa: F811
    reward = "win=1,entropy_removed=0.5,format=1"
    (episode,) = episodes_of([cluedo], tmp_path / "out.msgpack", reward)
    (trace,) = episode["traces"]
    seat = seat_of(cluedo)
    header = read_replay(cluedo).header
    assert trace["agent"]["name"] == "seat_1" and trace["agent"]["trainable"]
    assert episode["task"]["data"] == {
        "name": "cluedo#3",
        "game": "cluedo",
        "options": header.options,
        "seed": 3,
    }
    replies = [reply for reply in seat.replies if reply.answered]
    calls = [call for call in trace["calls"] if call["node"] is not None]
    assert len(calls) == len(replies) > 5
    for call, reply in zip(calls, replies, strict=True):
        path = path_to(trace, call["node"])
        shown = [(node["message"]["role"], node["message"]["content"]) for node in path]
        asked = [(message.role, message.content) for message in reply.request]
        assert shown == [*asked, ("assistant", reply.text)]
        tokens = [token for node in path for token in node["token_ids"]]
        sampled = [number for number, _, _ in reply.attempt.tokens]
        assert tokens == [*reply.attempt.prompt_token_ids, *sampled]
        last = path[-1]
        assert last["sampled"] and sum(last["mask"]) == len(sampled)
        assert last["logprobs"] == [
            logprob if drawn is None else drawn for _, logprob, drawn in reply.attempt.tokens
        ]
    assert sum(node["sampled"] for node in trace["nodes"]) == len(replies)
    scored = seat.breakdown
    weighted = sum(each["score"] * each["weight"] for each in trace["rewards"].values())
    assert weighted == pytest.approx(scored.reward)
    terms = {name: each["score"] for name, each in trace["rewards"].items()}
    assert terms | trace["metrics"] == scored.terms
    assert all("advantages" not in node for node in trace["nodes"]), "a game that is alone"


def choosing(noisy: bool) -> Replies:
    """Always the first legal action; or, every other time, none."""

    def reply(request: Request) -> str:
        if noisy and len(request.messages) % 4 == 2:
            return NOISE
        return request.messages[-1].content.rpartition(":")[2].split("|")[0].strip()

    return reply


def test_advantages_are_relative_to_the_games_of_a_deal(tmp_path: Path) -> None:
    files = []
    for number, seed in enumerate([4, 4, 4, 9]):
        files.append(record(tmp_path, f"{number}", choosing(number == 1), seed=seed))
    result = export(files, "verifiers", tmp_path / "out.msgpack", "win=1,format=0.5")
    episodes = [*msgpack.Unpacker(BytesIO((tmp_path / "out.msgpack").read_bytes()))]
    assert result.rows == 4 and len({episode["id"] for episode in episodes}) == 4
    assert "1 of 4 traces have no advantages" in result.notes[0]
    of_deal = [e for e in episodes if e["task"]["data"]["seed"] == 4]
    assert len({episode["group"]["id"] for episode in of_deal}) == 1
    assert len({episode["group"]["id"] for episode in episodes}) == 2
    rewards = [
        sum(each["score"] * each["weight"] for each in e["traces"][0]["rewards"].values())
        for e in of_deal
    ]
    assert len({*rewards}) > 1, "the test needs games of different rewards"
    for episode, reward in zip(of_deal, rewards, strict=True):
        for node in episode["traces"][0]["nodes"]:
            if node["sampled"]:
                expected = [pytest.approx(reward - fmean(rewards))] * len(node["logprobs"])
                assert node["advantages"] == expected
            else:
                assert "advantages" not in node
    (alone,) = (e for e in episodes if e["task"]["data"]["seed"] == 9)
    assert all("advantages" not in node for node in alone["traces"][0]["nodes"])


def test_advantages_of_cluedo_are_those_of_judged_credit(tmp_path: Path) -> None:
    """Values of decisions, those of a set against their mean, and half of the game's advantage."""
    questions = ("Mrs Peacock, Rope, Study", "Miss Scarlett, Candlestick, Kitchen")
    files = [of_cluedo(tmp_path, f"{n}", question) for n, question in enumerate(questions)]
    episodes = episodes_of(files, tmp_path / "out.msgpack", "win=1,format=1")
    kinds = read_replay(files[0]).make_game().analysis.decision_kinds
    seats = {hashlib.sha256(file.read_bytes()).hexdigest()[:32]: seat_of(file) for file in files}
    values: dict[str, list[float]] = {}
    judged = [
        each for seat in seats.values() for reply in seat.replies for each in seat.judgements(reply)
    ]
    for each in judged:
        if each.kind in kinds:
            values.setdefault(kinds[each.kind].compared, []).append(each.value)
    means = {name: fmean(found) if name else 0.0 for name, found in values.items()}
    scores = [seats[e["id"]].breakdown.terms for e in episodes]
    rewards = [terms["win"] + terms["format"] for terms in scores]
    for episode, reward in zip(episodes, rewards, strict=True):
        replies = [reply for reply in seats[episode["id"]].replies if reply.answered]
        nodes = [node for node in episode["traces"][0]["nodes"] if node["sampled"]]
        for node, reply in zip(nodes, replies, strict=True):
            own = [
                each.value - (means[kinds[each.kind].compared] if each.kind in kinds else 0.0)
                for each in seats[episode["id"]].judgements(reply)
            ]
            expected = sum(own) + 0.5 * (reward - fmean(rewards))
            assert node["advantages"] == [pytest.approx(expected)] * len(node["logprobs"])
    assert {"illegal", "suggestion"} <= {each.kind for each in judged}


def test_without_a_reward_the_one_of_the_credit_is_taken(tmp_path: Path) -> None:
    [episode] = episodes_of([of_cluedo(tmp_path, "1")], tmp_path / "out.msgpack")
    assert {n: r["weight"] for n, r in episode["traces"][0]["rewards"].items()} == {"win": 1.0}


class WithoutPrompts(WithTokens):
    """A server that reports the ids of sampled tokens only."""

    async def complete(self, request: Request) -> Completion:
        return replace(await super().complete(request), prompt_token_ids=())


def test_a_trace_of_openenv_needs_the_ids_of_prompts(tmp_path: Path) -> None:
    path = record(tmp_path, "a", in_order(), backend=WithoutPrompts)
    with pytest.raises(UsageError, match=r"a\.jsonl: no ids of prompts are recorded"):
        export([path], "openenv", tmp_path / "out")


class WithTemplate(WithTokens):
    """A model whose template gives each message a token for its role, and one for its end."""

    async def complete(self, request: Request) -> Completion:
        completion = await super().complete(request)
        read = []
        for message in request.messages:
            text = [100 + ord(character) for character in message.content]
            read += [len(message.role), *text, END]
        # The template ends with the role of the answer.
        return replace(completion, prompt_token_ids=(*read, len("assistant")))


def test_a_growing_chat_is_one_branch_that_stores_each_token_once(tmp_path: Path) -> None:
    file = record(tmp_path, "game", choosing(noisy=True), backend=WithTemplate, tokens=99)
    (episode,) = episodes_of([file], tmp_path / "out.msgpack")
    (trace,) = episode["traces"]
    (branch,) = branches(trace)
    assert branch == trace["nodes"]
    replies = [node for node in branch if node["sampled"]]
    assert len(replies) > 2
    last = seat_of(file).replies[-1].attempt
    tokens = [token for node in branch for token in node["token_ids"]]
    assert tokens == [*last.prompt_token_ids, *(number for number, _, _ in last.tokens)]
    for node in replies:
        # What is trained: the answer and its end; what is not: the role and what came before.
        trained = [t for t, on in zip(node["token_ids"], node["mask"], strict=True) if on]
        assert trained == [*(100 + ord(c) for c in node["message"]["content"]), END]
        assert len(node["logprobs"]) == len(trained)


def test_replays_without_tokens_keep_their_messages(tmp_path: Path) -> None:
    file = record(tmp_path, "game", in_order("b2"), logprobs=False)
    result = export([file], "verifiers", tmp_path / "out.msgpack")
    (episode,) = msgpack.Unpacker(BytesIO((tmp_path / "out.msgpack").read_bytes()))
    nodes = episode["traces"][0]["nodes"]
    assert all(node["token_ids"] == node["mask"] == node["logprobs"] == [] for node in nodes)
    assert any("no token ids" in note for note in result.notes)
    # Without tokens that could contradict, the chat is one branch.
    assert len(branches(episode["traces"][0])) == 1
    with pytest.raises(UsageError, match="no token ids and log-probabilities"):
        export([file], "openenv", tmp_path / "out.jsonl")


def test_a_chat_that_is_rebuilt_starts_another_branch(tmp_path: Path) -> None:
    file = record(tmp_path, "game", in_order("b2"), chat="fresh", logprobs=False)
    (episode,) = episodes_of([file], tmp_path / "out.msgpack")
    (trace,) = episode["traces"]
    asked = sum(call["node"] is not None for call in trace["calls"])
    assert len(branches(trace)) > 1
    assert sum(node["sampled"] for node in trace["nodes"]) == asked


def test_requests_without_an_answer_are_calls_without_a_node(tmp_path: Path) -> None:
    gone = ScriptedReply(error="connection", text="connection refused")
    file = record(tmp_path, "game", in_order("b2", gone))
    (episode,) = episodes_of([file], tmp_path / "out.msgpack")
    (trace,) = episode["traces"]
    failed = [call for call in trace["calls"] if call["node"] is None]
    assert len(failed) == 1 and "connection refused" in failed[0]["error"]["message"]


def test_the_same_replays_give_the_same_bytes(cluedo: Path, tmp_path: Path) -> None:  # noqa: F811
    first, second = tmp_path / "a.msgpack", tmp_path / "b.msgpack"
    for out in (first, second):
        export([cluedo], "verifiers", out)
    assert first.read_bytes() == second.read_bytes()


def test_openenv_traces_have_a_turn_for_each_reply(cluedo: Path, tmp_path: Path) -> None:  # noqa: F811
    result = export([cluedo], "openenv", tmp_path / "out.jsonl", "win=1,entropy_removed=0.5")
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    trace = json.loads(line)
    assert (
        result.rows == 1
        and trace["schema_version"] == 1
        and set(trace)
        == {
            "schema_version",
            "turns",
        }
    )
    seat = seat_of(cluedo)
    replies = [reply for reply in seat.replies if reply.attempt.tokens]
    game = read_replay(cluedo).make_game()
    scored = Rewards.parse("win=1,entropy_removed=0.5", game).score(seat.seat_episode)
    assert len({turn["node_id"] for turn in trace["turns"]}) == len(replies)
    for turn, reply in zip(trace["turns"], replies, strict=True):
        prompt, sampled = turn["prompt_token_ids"], turn["completion_token_ids"]
        assert prompt == list(reply.attempt.prompt_token_ids)
        assert sampled == [number for number, _, _ in reply.attempt.tokens]
        assert turn["loss_mask"] == [0] * len(prompt) + [1] * len(sampled)
        assert len(turn["per_token_logps"]) == len(sampled)
        assert all(math.isfinite(value) and value <= 0 for value in turn["per_token_logps"])
        assert turn["request"]["messages"][-1]["content"] == reply.request[-1].content
        assert turn["response"]["content"] == reply.attempt.reply
        assert turn["metadata"]["reward"] == scored.reward
        assert turn["metadata"]["failure"] == reply.attempt.failure
        assert turn["metadata"]["judgements"] == [asdict(each) for each in seat.judgements(reply)]
