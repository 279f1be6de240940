"""Scaffolds: what a model reads and may ask with each of them, and what it never learns."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from arena.agents.agent import Seat
from arena.agents.chat import Attempt, ChatOptions
from arena.agents.scaffold import (
    LONGEST_NOTES,
    MOST_CALLS,
    ScaffoldCall,
    SeatTools,
    find_call,
    own_notes,
)
from arena.agents.seating import make_agent
from arena.cli.game_run import game_end
from arena.core.action import CHANCE, Step
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.spec import Spec, without_scaffold
from arena.core.state import State
from arena.episodes.executors import LocalExecutor
from arena.episodes.files import ReplayWriter
from arena.episodes.job import GameJob, ReplayFile, run_job, run_jobs
from arena.episodes.match import Match, act_out, play
from arena.episodes.memory import Memories, memories_of, memory_after, owners_of
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay, verify
from arena.episodes.verify_agents import verify_agents
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend, ScriptedReply
from replays.analysis.decision import decision_json, read_attempts
from replays.analysis.timeline import build_timeline

CLUEDO = make_game("cluedo", players=3)
Answer = Callable[[Request], str | ScriptedReply]


def last(request: Request) -> str:
    return request.messages[-1].content


def plain(request: Request) -> str:
    """Return a legal answer: show the first card, ask the same question, or end the turn."""
    asked = [message.content for message in request.messages[1:] if message.role == "user"]
    lines = "\n".join(asked).splitlines()
    question = next(line for line in lines[::-1] if "Your action:" in line or "Show one" in line)
    _, shows, cards = question.rpartition("Show one of your cards: ")
    if shows:
        return f"Action: {cards.split(' | ')[0].rstrip('.')}"
    asks = "suggest SUSPECT" in question
    return f"Action: {'suggest Mrs White, Rope, Hall' if asks else 'end turn'}"


def game_of(
    scaffold: str,
    answer: Answer,
    options: ChatOptions = ChatOptions(),
    out: Path | None = None,
    seed: int = 3,
    game: Game = CLUEDO,
) -> tuple[Episode, ScriptedBackend]:
    backend = ScriptedBackend(answer)

    async def go() -> Episode:
        async with LLMService(notify=lambda line: None) as llm:
            llm.add("scripted", backend)
            others = "bot:novice" if game is CLUEDO else "bot:random"
            specs = [f"scripted+{scaffold}", *[others] * (game.num_players - 1)]
            match = Match(game, specs, seed, max_turns=9, chat=options)
            watchers = [ReplayWriter(out, "game")] if out else []
            return await play(match, llm=llm, watchers=watchers)

    return asyncio.run(go()), backend


def attempts_of(episode: Episode) -> list[list[Attempt]]:
    """Return the attempts of each decision of the model."""
    details = [ply.decision.details for ply in episode.plies if ply.player == 0]
    return [
        [Attempt.model_validate(raw) for raw in each["attempts"]]  # type: ignore[union-attr]
        for each in details
        if each
    ]


def test_a_spec_ends_with_a_known_scaffold_only() -> None:
    assert Spec.parse("embedded:clue-tiny+tools") == Spec("embedded", "clue-tiny", "tools")
    assert Spec.parse("scripted+none") == Spec("scripted", "", "none")
    assert Spec.parse("openrouter:cohere/command-r+").scaffold is None
    for spec in ("embedded:clue-tiny+tools", "scripted+none", "bot:oracle", "http://a:1/v1#b+c"):
        assert str(Spec.parse(spec)) == spec
    assert without_scaffold("http://a:1/v1#m+notes") == "http://a:1/v1#m"
    assert without_scaffold("scripted:") == "scripted:"


@pytest.mark.parametrize(
    ("scaffold", "has", "lacks"),
    [
        ("none", [], ["Notebook", "Call:", "<notes>"]),
        ("notes", ["own cards"], ["Call:", "<notes>"]),
        ("deductions", ["What follows"], ["Call:", "<notes>"]),
        ("scratchpad", ["<notes>"], ["own cards", "Call:", "next game"]),
        ("memory", ["<notes>", "next game"], ["own cards", "Call:"]),
        ("tools", ["Call: posterior"], ["own cards", "<notes>"]),
    ],
)
def test_each_scaffold_adds_its_own_help(scaffold: str, has: list[str], lacks: list[str]) -> None:
    episode, backend = game_of(scaffold, plain)
    prompt = "\n".join(message.content for message in backend.requests[1].messages)
    assert [part for part in has if part not in prompt] == []
    assert [part for part in lacks if part in prompt] == []
    assert episode.header.players[0] == f"scripted+{scaffold}"
    assert not episode.failures


def test_own_notes_come_back_when_the_chat_is_built_anew() -> None:
    asked = 0

    def noting(request: Request) -> str:
        nonlocal asked
        asked += 1
        return f"<notes>decision {asked}: <|im_end|> {'x' * 3000}</notes>\n{plain(request)}"

    _, backend = game_of("scratchpad", noting, ChatOptions(chat="fresh"))
    assert "Your notes" not in last(backend.requests[0])
    for number, request in enumerate(backend.requests[1:], start=1):
        _, _, notes = last(request).partition("Your notes:\n")
        assert notes.startswith(f"decision {number}: < |im_end"), "the newest, neutralised"
        assert len(notes) <= LONGEST_NOTES + 10
    # Without the scaffold, the same block is a thought.
    _, backend = game_of("none", noting, ChatOptions(chat="fresh"))
    assert not any("Your notes" in last(request) for request in backend.requests)


def test_own_notes_replace_what_a_shortened_chat_leaves_out() -> None:
    rejected = False

    def short(request: Request) -> str | ScriptedReply:
        nonlocal rejected
        if len(request.messages) > 4 and not rejected:
            rejected = True
            return ScriptedReply(error="context_length")
        return f"<notes>I hold the Rope.</notes>\n{plain(request)}"

    _, backend = game_of("scratchpad", short)
    assert rejected
    rebuilt = [request for request in backend.requests if "Your notes:" in last(request)]
    assert len(rebuilt[0].messages) == 2 and "Your notes:\nI hold the Rope." in last(rebuilt[0])


def test_the_newest_notes_count() -> None:
    assert own_notes("no notes") is None
    assert own_notes("<notes>a</notes> b <NOTES>\nc\n</notes>") == "c"
    assert own_notes("<notes>never closed") is None


@pytest.mark.parametrize(
    ("reply", "call"),
    [
        ("I need to know more.\nCall: posterior", ScaffoldCall("posterior")),
        ("**Call: Posterior**\n", ScaffoldCall("posterior")),
        ("`Call: consequences accuse A, B`.", ScaffoldCall("consequences", "accuse A, B")),
        ("Call: consequences suggest Mrs White, Rope, Hall", ScaffoldCall("consequences", "S")),
        ('{"thoughts": "", "action": "Call: consequences"}', ScaffoldCall("consequences")),
        ('Hm. {"name": "posterior", "arguments": {}}', ScaffoldCall("posterior")),
        (
            '{"name": "consequences", "arguments": {"ACTION": "S"}}',
            ScaffoldCall("consequences", "S"),
        ),
        ('{"name": "Suggest", "arguments": {}}', None),
        ('{"name": "posterior", "arguments": {}', None),
        ("Call: posterior\nAction: end turn", None),
        ("Call: everything", None),
        ("I will Call: posterior", None),
        ("Call: posterior" + " )" * 9000 + '"x', None),
    ],
)
def test_a_call_ends_the_reply(reply: str, call: ScaffoldCall | None) -> None:
    wanted = call and ScaffoldCall(
        call.name, call.action.replace("S", "suggest Mrs White, Rope, Hall")
    )
    assert find_call(reply) in (call, wanted)


def asks_first(request: Request) -> str | ScriptedReply:
    """Ask for the posterior before each action."""
    if last(request).rpartition("\nYou may ask")[1]:
        return ScriptedReply(plain(request), cost=0.25)
    return ScriptedReply("Let me see.\nCall: posterior", cost=0.5)


@pytest.mark.parametrize("chat", ["append", "fresh"])
def test_calls_are_recorded_priced_and_verified(tmp_path: Path, chat: str) -> None:
    options = ChatOptions(chat=chat)  # type: ignore[arg-type]
    episode, _ = game_of("tools", asks_first, options, tmp_path)
    decisions = attempts_of(episode)
    assert len(decisions) > 3 and not episode.failures
    for attempts in decisions:
        assert [attempt.call for attempt in attempts] == ["posterior", ""]
        assert [attempt.cost for attempt in attempts] == [0.5, 0.25]
        assert "Envelope" in attempts[1].messages[-1].content
    replay = read_replay(tmp_path / "game.jsonl")
    verify(replay)
    assert asyncio.run(verify_agents(replay)) is None
    # A changed answer of a tool is found out.
    path = tmp_path / "game.jsonl"
    path.write_text(path.read_text().replace("What you cannot know yet: ", "You know: "))
    assert "attempts" in (asyncio.run(verify_agents(read_replay(path))) or "")


def test_calls_are_limited_for_each_decision() -> None:
    episode, backend = game_of("tools", lambda request: "Call: consequences")
    for attempts in attempts_of(episode):
        assert [bool(attempt.call) for attempt in attempts] == [True] * MOST_CALLS + [False] * 3
        assert {attempt.failure for attempt in attempts[MOST_CALLS:]} == {"unparsable"}
    assert "You may ask 2 more times, or act." in last(backend.requests[1])
    assert "Now act." in last(backend.requests[MOST_CALLS])


def test_functions_are_offered_beside_those_of_the_actions() -> None:
    def calling(request: Request) -> str:
        names = [tool.name for tool in request.tools]
        assert {"posterior", "consequences", "Suggest"} <= set(names)
        if "expected" in last(request):
            return plain(request)
        return json.dumps({"name": "consequences", "arguments": {"ACTION": ""}})

    episode, _ = game_of("tools", calling, ChatOptions(answers="tools"))
    assert "consequences" in {a.call for attempts in attempts_of(episode) for a in attempts}


# What tools say, and what they do not


def position(game: Game, seed: int, plies: int) -> State:
    state = game.initial_state()
    act_out(state, random.Random(seed), plies)
    return state


def answers(game: Game, state: State, player: int) -> list[str]:
    seen = state.observe(player)
    legal = [str(action) for action in list(seen.legal_actions)[:2]]
    calls = [
        ScaffoldCall("posterior"),
        *(ScaffoldCall("consequences", text) for text in ("", *legal)),
    ]
    tools = SeatTools(game, player)
    return [tools.answer(call, seen, 1) for call in calls]


@pytest.mark.parametrize(
    "name",
    ["cluedo", "leduc_poker", "liars_dice", "hanabi", "battleship", "negotiation", "avalon"],
)
def test_a_tool_says_the_same_in_every_world_that_its_seat_cannot_tell_apart(name: str) -> None:
    game = make_game(name)
    for seed in range(3):
        rng = random.Random(seed)
        state, history = game.initial_state(), list[Step]()
        while state.to_act and len(history) < 12:
            history.append(step_at_random(state, rng))
        for player in range(game.num_players):
            other = game.analysis.resample(history, player, rng)
            assert other is not None
            twin = game.initial_state()
            for step in other:
                twin.apply(step.player, step.action)
            assert answers(game, state, player) == answers(game, twin, player)


def step_at_random(state: State, rng: random.Random) -> Step:
    """Play one ply and return it as a step."""
    player = state.to_act[0]
    legal = None if player == CHANCE else state.legal_actions(player)
    action = state.sample_chance(rng) if legal is None else rng.choice(list(legal))
    state.apply(player, action)
    return Step(player, action)


def test_consequences_are_those_of_the_exact_knowledge() -> None:
    state = position(CLUEDO, 1, 1)
    player = state.to_act[0]
    tools, seen = SeatTools(CLUEDO, player), state.observe(player)
    listed = tools.answer(ScaffoldCall("consequences"), seen, 2)
    assert "right with probability 0.9 %" in listed
    assert len(re.findall("of information expected", listed)) == 6
    bits = [float(text) for text in re.findall(r"(\d\.\d\d) bits of information", listed)]
    assert bits == sorted(bits, reverse=True) and bits[0] > 0.3
    odds = tools.answer(ScaffoldCall("consequences", "accuse Mrs White, Rope, Hall"), seen, 2)
    assert re.search(r"right with probability \d", odds) or "not" in odds
    wrong = tools.answer(ScaffoldCall("consequences", "show Rope"), seen, 2)
    assert wrong.startswith("No consequences of 'show Rope': ")


@pytest.mark.parametrize(
    ("spec", "game", "options", "message"),
    [
        ("bot:oracle+tools", "cluedo", ChatOptions(), "'bot:oracle+tools' is no model"),
        ("scripted+tools", "kuhn_poker", ChatOptions(), "kuhn_poker does not compute"),
        ("scripted+tools", "cluedo", ChatOptions(guided=True), "use --free"),
        ("scripted+scratchpad", "cluedo", ChatOptions(guided=True), "use --free"),
    ],
)
def test_a_scaffold_that_cannot_be_is_one_clear_line(
    spec: str, game: str, options: ChatOptions, message: str
) -> None:
    llm = LLMService()
    llm.add("scripted", ScriptedBackend([]))
    seat = Seat(make_game(game), 0, stream(1, "agent 0"), llm=llm, models=options)
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        make_agent(spec, seat)
    assert "\n" not in str(raised.value)


def test_the_posterior_names_equally_likely_things_once() -> None:
    state = position(CLUEDO, 1, 1)
    said = answers(CLUEDO, state, state.to_act[0])[0].splitlines()
    assert said[0].startswith("What you cannot know yet: ") and said[0].endswith(" bits.")
    assert [line for line in said if line.endswith(":")] == ["Suspects:", "Weapons:", "Rooms:"]
    assert len(said) < 12
    things = [thing for line in said if line.startswith("- ")
              for thing in line[2:].split(": ")[0].split(", ")]  # fmt: skip
    assert len(things) == len(set(things)) == 21


def test_a_viewer_shows_a_call_as_one(tmp_path: Path) -> None:
    game_of("tools", asks_first, out=tmp_path)
    timeline = build_timeline(read_replay(tmp_path / "game.jsonl"))
    attempts = read_attempts(timeline, 0)
    shown = decision_json(timeline, min(attempts), attempts, None)
    assert shown and [attempt["call"] for attempt in shown["attempts"]] == ["posterior", ""]


def test_a_memory_passes_from_game_to_game_and_each_game_is_verified_alone(tmp_path: Path) -> None:
    """The model counts its decisions over all games; it knows the number from its notes only."""
    openings: list[str] = []

    def counting(request: Request) -> str:
        text = last(request)
        if len(request.messages) == 2:
            openings.append(text)
        found = re.findall(r"decision (\d+)", "\n".join(m.content for m in request.messages))
        return f"<notes>decision {int(found[-1]) + 1 if found else 1}</notes>\n{plain(request)}"

    async def go(memories: Memories, seeds: range) -> None:
        async with LLMService(notify=lambda line: None) as llm:
            llm.add("scripted", ScriptedBackend(counting))
            specs = ["scripted+memory", "bot:novice", "bot:novice"]
            match = Match(CLUEDO, specs, 0, max_turns=6)
            jobs = [
                GameJob(
                    name, match.with_seed(int(name)), game_end, replay=ReplayFile(tmp_path, name)
                )
                for name in map(str, seeds)
            ]
            executor = LocalExecutor(llm)
            run = partial(memories.run, run=partial(run_job, executor=executor))
            async with executor:
                async for _ in run_jobs(jobs, run, ahead=8):
                    pass

    async def two_sessions() -> None:
        await go(Memories(), range(3))
        later = Memories()
        later.add(tmp_path / "2.jsonl")
        await go(later, range(3, 5))

    asyncio.run(two_sessions())
    assert "Your notes" not in openings[0] and len(openings) == 5
    decided, replays = 0, [read_replay(tmp_path / f"{seed}.jsonl") for seed in range(5)]
    for number, replay in enumerate(replays):
        verify(replay)
        assert asyncio.run(verify_agents(replay)) is None
        header = replay.header
        assert header.memories[1:] == ("", ""), "of its own seat only"
        if number:
            notes, _, returns = header.memories[0].partition("\nYour return in your last game: ")
            assert notes == f"decision {decided}"
            outcome = replays[number - 1].outcome
            assert outcome is not None and float(returns) == outcome.returns[0]
            assert f"Your notes:\n{header.memories[0]}" in openings[number]
        decided = int(memory_after(replay, 0).split()[1])
    assert decided > 10
    # Another memory is another prompt: the record would be found out.
    forged = replays[4].header.model_copy(update={"memories": ("decision 7", "", "")})
    fault = asyncio.run(verify_agents(replace(replays[4], header=forged)))
    assert fault is not None and "messages" in fault


def test_a_memory_never_meets_its_deal_again() -> None:
    specs = ("m+memory", "bot:novice", "m+memory")
    assert owners_of(specs) == {0: ("m+memory", 0), 2: ("m+memory", 1)}
    assert memories_of([(1, specs), (2, specs)])
    assert memories_of([(1, ("bot:novice", "m+notes"))]) is None
    with pytest.raises(UsageError, match=r"m\+memory would play the deal of seed 1 2 times"):
        memories_of([(1, specs), (1, ("bot:novice", "m+memory", "bot:novice"))])
