"""The terminal viewer and the live view: what they show, and to whom."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from preloaded import arena_command
from pydantic import JsonValue
from rich.console import Console

from arena.agents.chat import Attempt
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay, read_replay
from arena.llm.backend import Message
from arena.plugins.catalog import make_game
from replays.tui.frame import LiveView, printable_lines
from replays.tui.viewer import PANELS, TerminalViewer

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m[red]bold[/red] \u202eabc\ud800\r\n[/]"


def recorded(
    folder: Path, name: str = "cluedo", bot: str = "random", turns: int = 30, **options: JsonValue
) -> Replay:
    game = make_game(name, **options)
    writer = ReplayWriter(folder, "game")
    specs = [f"bot:{bot}"] * game.num_players
    agents = Match(game, specs, 3).seat()
    asyncio.run(play(Match(game, specs, 3, max_turns=turns), agents, watchers=[writer]))
    return read_replay(writer.path)


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """A game with mistakes and an accusation; not to be changed."""
    return recorded(tmp_path_factory.mktemp("cards"), bot="detective", players=3)


def drawn(viewer: TerminalViewer, width: int = 80, height: int = 24) -> str:
    viewer.console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    return written(viewer)


def written(viewer: TerminalViewer) -> str:
    viewer.console.print(viewer.render(), soft_wrap=True)
    output = viewer.console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


PANEL_NAMES = ("table", *PANELS)


def with_attempts(replay: Replay, attempts: list[Attempt], **details: object) -> int:
    """Give the first decision a model's attempts; the position after it."""
    number = next(n for n, move in enumerate(replay.moves) if isinstance(move, DecisionLine))
    noted = {"attempts": [attempt.to_json() for attempt in attempts], **details}
    replay.moves[number] = replay.moves[number].model_copy(update={"details": noted})
    return number + 1


@pytest.mark.parametrize("variant", ["cards", "classic"])
@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_a_picture_fits_80_by_24(tmp_path: Path, variant: str, players: int) -> None:
    viewer = TerminalViewer(recorded(tmp_path, variant=variant, players=players), 0, None)
    for ply in range(0, len(viewer.snapshots), 7):
        viewer.position = ply
        lines = drawn(viewer).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        assert not any("…" in line for line in lines[1:15]), "marks are cut off"


def test_a_seat_sees_no_more_than_it_saw(tmp_path: Path) -> None:
    replay = recorded(tmp_path, players=3)
    text = drawn(TerminalViewer(replay, len(replay.moves), 1), height=40)
    assert "view of Random 2" in text
    assert "Random 1 shows Random 3:" not in text
    assert text.count(" bits ") == 1, "what others do not know is not for this seat"


def test_the_live_view_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game("cluedo", variant="classic", players=3)
    specs = ["bot:detective"] * 3
    view = LiveView(game, specs)
    screen = io.StringIO()
    view._console = Console(file=screen, force_terminal=True, width=80, height=24)
    asyncio.run(play(Match(game, specs, 2), Match(game, specs, 2).seat(), watchers=[view]))
    assert "terminated" in screen.getvalue() and "Cluedo" in screen.getvalue()


def test_what_a_seat_is_shown_does_not_depend_on_what_comes_later(cards: Replay) -> None:
    replay = cards
    wholes = [TerminalViewer(replay, 0, seat) for seat in (0, 2)]
    for ply in range(3, len(replay.moves), len(replay.moves) // 4):
        begun = Replay(replay.path, replay.header, replay.moves[:ply])
        for later in wholes:
            now = TerminalViewer(begun, ply, later.seat)
            later.position = ply
            for panel in ("table", "grid", "decision"):
                now.panel = later.panel = panel
                texts = [drawn(each).splitlines()[1:] for each in (now, later)]
                assert texts[0] == texts[1], panel


def test_a_seat_is_shown_nothing_of_the_others(tmp_path: Path) -> None:
    replay = recorded(tmp_path, players=3, turns=4)
    attempt = Attempt(messages=(Message(role="user", content="SECRET"),), reply="SECRET")
    place = with_attempts(replay, [attempt], note="SECRET")
    player = getattr(replay.moves[place - 1], "player", None)
    viewer = TerminalViewer(replay, 0, None)
    for seat in (None, 0, 1, 2):
        viewer.seat = seat
        shown = {}
        for panel in PANEL_NAMES:
            viewer.position, viewer.panel = len(replay.moves), panel
            shown[panel] = drawn(viewer, height=60)
        assert (f"seed {replay.header.seed}" in "".join(shown.values())) == (seat is None)
        assert seat is None or f"Posterior of Random {seat + 1}" in shown["grid"]
        assert all(each["player"] == seat for each in viewer.analysis.comments(seat)) or (
            seat is None
        )
        viewer.position, viewer.panel = place, "decision"
        assert ("SECRET" in drawn(viewer)) == (seat in (None, player))


def test_a_decision_in_full(tmp_path: Path) -> None:
    replay = recorded(tmp_path, players=3, turns=4)
    failed = Attempt(
        messages=(Message(role="user", content="line\n" * 60),),
        reply="hm",
        reasoning="let me see",
        failure="unparsable",
        excerpt="hm",
        model="some-model",
        policy_version=7,
        prompt_tokens=1234,
        completion_tokens=5,
        cost=0.25,
        seconds=1.5,
        tokens=((1, -0.5, None), (2, -1.5, None)),
    )
    again = Attempt(kept=1, messages=(Message(role="user", content="once more"),), reply="end")
    place = with_attempts(replay, [failed, again])
    viewer = TerminalViewer(replay, place, None)
    viewer.press("d")
    whole = drawn(viewer, height=200)
    for words in (
        *("! Attempt 1 of 2: unparsable", "Attempt 2 of 2: accepted", "Failed at: hm"),
        *("some-model", "1,234 tokens in, 5 out", "$0.25", "1.50 s"),
        *("let me see", "Prompt, user:", "once more"),
    ):
        assert words in whole, words
    assert "lines 1 to" in drawn(viewer)
    seen = set(drawn(viewer).splitlines())
    for _ in range(9):
        viewer.press("pagedown")
        seen |= set(drawn(viewer).splitlines())
    assert viewer.position == place and {"once more"} <= {line.strip() for line in seen}
    viewer.press("up")
    assert "once more" not in drawn(viewer).splitlines()[-3]
    viewer.press("n")
    assert viewer.scroll == 0


def test_hostile_text_is_only_text(tmp_path: Path) -> None:
    replay = recorded(tmp_path, players=3, turns=4)
    words = HOSTILE.encode("utf-8", "replace").decode()
    attempt = Attempt(
        messages=(Message(role="user", content=words),),
        sampling={words: words},
        reply=words,
        reasoning=words,
        refusal=words,
        excerpt=words,
        model=words,
    )
    place = with_attempts(replay, [attempt], beliefs={words: words}, other={words: [words]})
    replay.header = replay.header.model_copy(update={"players": ("[red]x[/red]", words, "[/]")})
    viewer = TerminalViewer(replay, place, None)
    for panel in PANEL_NAMES:
        viewer.panel = panel
        text = drawn(viewer, height=99)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "[red]" in text or panel in ("grid", "help")
    assert printable_lines(HOSTILE).isprintable() is False and printable_lines("a\tb\x1b") == "a b "


def test_on_a_real_terminal(tmp_path: Path) -> None:
    replay = recorded(tmp_path, players=3, turns=4)
    ours, theirs = pty.openpty()
    command = [*arena_command(), "replay", str(replay.path)]
    # With these variables, which readline sets where there is no terminal, the size is fixed.
    fixed = ("COLUMNS", "LINES")
    environment = {name: value for name, value in os.environ.items() if name not in fixed}
    environment["TERM"] = "xterm-256color"
    viewer = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""

    def until(words: bytes) -> None:
        nonlocal shown
        shown = b""
        while words not in shown:
            assert select.select([ours], [], [], 60)[0], shown[-2000:]
            shown += os.read(ours, 65536)

    until(b"everything open")
    end = b"\x1b[F"
    for key, words in ((end, b"ply %d/" % len(replay.moves)), (b"2", b"view of Random 2")):
        os.write(ours, key)
        until(words)
    os.write(ours, b"g")
    until(b"Posterior of Random 2")
    os.write(ours, b"\x1b")
    until(b"Seen so far")
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    # What the terminal has made of the old picture goes, and the new one begins at its corner.
    until(b"\x1b[2J\x1b[H")
    os.write(ours, b"q")
    until(b"\x1b[?1049l")
    assert viewer.wait(60) == 0
    os.close(ours)
