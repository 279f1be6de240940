"""The terminal viewer and the live view: what they show, and to whom."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from arena.episode import ReplayWriter
from arena.playing import play, seat_agents
from arena.registry import make_game
from arena.replay import Replay, read_replay
from replays.frame import bar
from replays.live import LiveView
from replays.terminal import Stepper, save_svg


def recorded(folder: Path, name: str = "cluedo", **options: object) -> Replay:
    game = make_game(name, **options)
    writer = ReplayWriter(folder, "game")
    specs = ["bot:random"] * game.num_players
    agents = seat_agents(game, specs, 3)
    asyncio.run(play(game, agents, 3, players=specs, max_turns=30, watchers=[writer]))
    return read_replay(writer.path)


def drawn(stepper: Stepper, width: int = 80, height: int = 24) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    stepper.console = console
    console.print(stepper.picture())
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


@pytest.mark.parametrize("variant", ["cards", "classic"])
@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_a_picture_fits_80_by_24(tmp_path: Path, variant: str, players: int) -> None:
    stepper = Stepper(recorded(tmp_path, variant=variant, players=players), 0, None)
    for ply in range(0, len(stepper.moments), 7):
        stepper.ply = ply
        lines = drawn(stepper).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        assert not any("…" in line for line in lines[1:15]), "marks are cut off"


@pytest.mark.parametrize("name", ["tictactoe", "kuhn_poker", "goofspiel"])
def test_games_without_a_picture_are_drawn_too(tmp_path: Path, name: str) -> None:
    stepper = Stepper(recorded(tmp_path, name), 3, None)
    text = drawn(stepper)
    assert name in text and "0 random" in text


def test_keys(tmp_path: Path) -> None:
    stepper = Stepper(recorded(tmp_path), 0, None)
    last = len(stepper.moments) - 1
    seen = []
    for key in ("n", "right", "p", "G", "n", "g", "p", "2", "a", "9", "²"):
        assert stepper.press(key)
        seen.append((stepper.ply, stepper.seat))
    assert seen[:7] == [(p, None) for p in (1, 2, 1, last, last, 0, 0)]
    assert seen[7:] == [(0, 2), (0, None), (0, None), (0, None)]
    stepper.press("]")
    assert stepper.moments[stepper.ply].turn == 1
    stepper.press("]")
    assert stepper.moments[stepper.ply].turn == 2
    assert not stepper.press("q")


def test_a_seat_sees_no_more_than_it_saw(tmp_path: Path) -> None:
    replay = recorded(tmp_path, players=3)
    stepper = Stepper(replay, len(replay.moves), 1)
    text = drawn(stepper, height=40)
    assert "as seat 1 saw it" in text
    assert "Player 0 shows Player 2:" not in text
    assert text.count(" bits ") == 1, "what others do not know is not for this seat"


def test_a_picture_can_be_saved(tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    save_svg(recorded(tmp_path), 5, None, file)
    svg = file.read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "font-face" not in svg


def test_the_live_view_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game("cluedo", variant="classic", players=3)
    specs = ["bot:detective"] * 3
    view = LiveView(game, specs)
    screen = io.StringIO()
    view._console = Console(file=screen, force_terminal=True, width=80, height=24)
    asyncio.run(play(game, seat_agents(game, specs, 2), 2, players=specs, watchers=[view]))
    assert "terminated" in screen.getvalue() and "cluedo" in screen.getvalue()


def test_bars() -> None:
    assert [bar(bits) for bits in (0.0, 1.0, 2.2, 6.9)] == ["", "▌", "█", "███▌"]
