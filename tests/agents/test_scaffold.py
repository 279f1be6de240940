"""Scaffolds: what a model reads with each of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from model_games import play_models

from arena.agents.agent import Seat
from arena.agents.chat import ChatOptions
from arena.agents.notebook import LONGEST_NOTES, own_notes
from arena.agents.seating import make_agent
from arena.core.errors import UsageError
from arena.core.spec import Spec, stream, without_scaffold
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend, ScriptedReply

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
    scaffold: str, answer: Answer, options: ChatOptions = ChatOptions()
) -> tuple[Episode, ScriptedBackend]:
    backend, specs = ScriptedBackend(answer), [f"scripted+{scaffold}", "bot:novice", "bot:novice"]
    match = Match(CLUEDO, specs, 3, max_turns=9, chat=options)
    return play_models(match, backend).episode, backend


def test_a_spec_ends_with_a_known_scaffold_only() -> None:
    assert Spec.parse("embedded:clue-tiny+notes") == Spec("embedded", "clue-tiny", "notes")
    assert Spec.parse("scripted+none") == Spec("scripted", "", "none")
    assert Spec.parse("openrouter:cohere/command-r+").scaffold is None
    for spec in ("embedded:clue-tiny+notes", "scripted+none", "bot:oracle", "http://a:1/v1#b+c"):
        assert str(Spec.parse(spec)) == spec
    assert without_scaffold("http://a:1/v1#m+notes") == "http://a:1/v1#m"
    assert without_scaffold("scripted:") == "scripted:"


@pytest.mark.parametrize(
    ("scaffold", "has", "lacks"),
    [
        ("none", [], ["Notebook", "<notes>"]),
        ("notes", ["own cards"], ["<notes>"]),
        ("deductions", ["What follows"], ["<notes>"]),
        ("scratchpad", ["<notes>"], ["own cards"]),
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


def test_a_chat_that_is_shortened_keeps_the_newest_notes() -> None:
    """Notes are written now and then only; all other replies are long."""
    newest, kept, overflows = "", list[bool](), 0

    def noting(request: Request) -> str | ScriptedReply:
        nonlocal newest, overflows
        texts = [message.content for message in request.messages]
        kept.append(newest in "\n".join(texts[1:]))
        if sum(map(len, texts)) > 2600:
            overflows += 1
            return ScriptedReply(error="context_length")
        if len(kept) % 5 == 1:
            newest = f"At request {len(kept)} I hold the Rope."
            return f"<notes>{newest}</notes>\n{plain(request)}"
        return f"{'I think so. ' * 30}\n{plain(request)}"

    episode, _ = game_of("scratchpad", noting)
    assert not episode.failures and overflows > 3 and newest and all(kept)


def test_the_newest_notes_count() -> None:
    assert own_notes("no notes") is None
    assert own_notes("<notes>a</notes> b <NOTES>\nc\n</notes>") == "c"
    assert own_notes("<notes>never closed") is None


@pytest.mark.parametrize(
    ("spec", "game", "options", "message"),
    [
        ("bot:oracle+notes", "cluedo", ChatOptions(), "'bot:oracle+notes' is no model"),
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
