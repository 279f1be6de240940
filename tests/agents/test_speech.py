"""Speech: actions with free text, from the agents' replies to the replay and the viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from whispers import Call, Silence, Toss, Whispers

from arena.agents.action_tools import action_tools
from arena.agents.display import draw_table
from arena.agents.reply.reader import read_reply
from arena.agents.reply.reading import correction
from arena.agents.typed_action import parse
from arena.core.action import CHANCE, Say
from arena.core.errors import IllegalAction, InvalidAction
from arena.core.event import Spoken
from arena.core.observation import Observation
from arena.core.tabletop import diagram
from arena.core.text import one_line
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.replay import read_replay, verify
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.loader import catalog
from arena.testing import check_game
from backends.scripted import ScriptedBackend


@pytest.fixture(autouse=True)
def whispers() -> Iterator[None]:
    before = catalog().entries_by_kind()
    catalog().add("game", "whispers", "whispers:Whispers", "a test")
    yield
    catalog().restore(before)


@pytest.fixture
def talking() -> Observation:
    """Player 0 may whisper."""
    state = Whispers().initial_state()
    state.apply(CHANCE, Toss(True))
    return state.observe(0)


def test_the_conformance_kit_speaks() -> None:
    check_game(Whispers())


def test_the_prompt_says_how_to_speak(talking: Observation) -> None:
    assert "Your actions: pass | say TEXT (up to 280 characters)" in talking.text()
    tools = {tool.name: tool for tool in action_tools(talking.game)}
    assert "text" in json.dumps(tools["Say"].parameters)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Action: say It is heads.", "It is heads."),
        ("I could pass, or call tails later.\nAction: say 'trust me'", "trust me"),
        ("**Action:** say Call heads! My answer: heads.", "Call heads! My answer: heads."),
        ('{"thoughts": "pass?", "action": "say hello there"}', "hello there"),
        ('{"name": "Say", "arguments": {"text": "hello there"}}', "hello there"),
        ('{"thoughts": "hm", "action": "say", "message": "hello there"}', "hello there"),
        ("<action>say two\nlines</action>", "two lines"),
        ("They need to know.\n\nsay it's heads", "it's heads"),
        ("say heads\n\nI chose this because the next player trusts me.", "heads"),
        ('Action: say "He said "no", I think"', "He said 'no', I think"),
        ("Action: say **hello**", "hello"),
        ("**Action: say hello**", "hello"),
        ("**say** `hello`", "hello"),
        ("Action: say **you** and **you**", "**you** and **you**"),
        ("Action: say [red]<b>markup</b>[/red] \x1b[31m", "[red]<b>markup</b>[/red] [31m"),
    ],
)
def test_replies_that_speak(talking: Observation, reply: str, text: str) -> None:
    assert read_reply(reply, talking).action == Say(text)


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("Action: say", "at most|needs a text"),
        ("Action: say " + "x" * 500, "at most 280 characters, not 500"),
        ("Action: call heads", "not allowed now"),
        ("I would say that the coin shows heads.", "No action was found"),
    ],
)
def test_replies_that_do_not(talking: Observation, reply: str, failure: str) -> None:
    reading = read_reply(reply, talking)
    assert reading.action is None
    with pytest.raises(AssertionError, match=failure):
        raise AssertionError(correction(reading, talking))


def test_silence_and_contradiction(talking: Observation) -> None:
    assert read_reply("Action: pass", talking).action == Silence()
    both = read_reply("Action: say hello\n\nAction: pass", talking)
    assert both.failure == "undecided"


def test_speech_outside_of_its_phase_is_refused() -> None:
    state = Whispers().initial_state()
    for player, action in ((CHANCE, Toss(True)), (0, Silence()), (1, Silence()), (2, Silence())):
        state.apply(player, action)
    with pytest.raises(IllegalAction, match="'say' is not allowed now"):
        state.apply(0, Say("hello"))
    assert read_reply("Action: say hello", state.observe(0)).failure == "invalid_speech"
    # Who speaks first and then acts has acted.
    acted = read_reply("say It was heads, I am sure.\n\ncall heads", state.observe(0))
    assert acted.action == Call(True)
    lost = read_reply("say It was heads.\nI should call heads, or tails?", state.observe(0))
    assert lost.failure == "invalid_speech"
    with pytest.raises(IllegalAction, match="'say' is not allowed now"):
        parse("say hello", state.observe(0))


def test_a_person_speaks(talking: Observation) -> None:
    assert parse("say Hello, you!", talking) == Say("Hello, you!")
    assert parse("pa", talking) == Silence()
    with pytest.raises(InvalidAction, match="at most 280 characters, not 1,000,000"):
        parse("say " + "x" * 1_000_000, talking)


@pytest.mark.parametrize("blank", "\u3164\u115f\u1160\uffa0\u2800\u034f\ufe00\U000e0101")
def test_letters_that_show_nothing_are_left_out(blank: str) -> None:
    assert one_line(f"{blank}a{blank}b {blank} c{blank}") == "ab c"
    with pytest.raises(InvalidAction, match="needs a text"):
        Say.read(blank * 3)


def test_emoji_keep_their_look() -> None:
    assert one_line("\u2694\ufe0f") == "\u2694\ufe0f"


@given(st.text(st.sampled_from("ab \"“”'e\u0301\u200d\n")))
@example("'“hello”'")
def test_what_is_left_of_a_text_can_be_spoken(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)


@given(st.text())
def test_speech_is_one_visible_line_and_parses_back(text: str) -> None:
    try:
        spoken = Say.read(text)
    except InvalidAction:
        return
    assert spoken.text.isprintable() and '"' not in spoken.text
    assert Whispers().actions.parse(str(spoken)) == spoken


@pytest.mark.parametrize("text", ["", "a\nb", "a\x1b", 'say "it"', " a", "\u202eabc", "x" * 281])
def test_speech_cannot_be_made_of_other_text(text: str) -> None:
    with pytest.raises(InvalidAction):
        Say(text)


def test_a_whisper_reaches_its_audience_and_the_replay(tmp_path: Path) -> None:
    replies = ["Action: say [b]heads[/b]", "Action: call heads"]
    llm = LLMService(Settings.load())
    llm.add("scripted", ScriptedBackend(replies))
    match = Match(Whispers(), ["scripted", "bot:random", "bot:random"], seed=3)
    writer = ReplayWriter(tmp_path, "game")
    episode = asyncio.run(play(match, llm=llm, watchers=[writer]))
    spoken = [event for ply in episode.plies for event in ply.events if isinstance(event, Spoken)]
    assert spoken == [Spoken(0, "[b]heads[/b]", (1,))] and spoken[0].audience == (0, 1)
    assert episode.outcome.roles == ("seer", "guesser", "guesser")
    replay = read_replay(writer.path)
    assert verify(replay) is None
    assert replay.outcome is not None and replay.outcome.teams == (0, 0, 0)


def test_the_view_is_drawn_as_text_and_in_a_terminal() -> None:
    game = Whispers()
    events = (Spoken(0, "[b]hi[/b]", (1,)),)
    assert diagram(game, events) == (
        "Table:\nCoin  ?  only Player 0 sees it\nWhispers:\n0: [b]hi[/b]"
    )
    picture = draw_table(game, events, 1)
    assert picture is not None and picture.lines == 4


def test_networks_have_the_finite_actions(talking: Observation) -> None:
    assert list(talking.legal_actions) == [Silence()]
    assert talking.legal_actions.mask.tolist() == [1, 0, 0]
    assert not talking.legal_actions.is_forced
    assert Call(True) not in talking.legal_actions
