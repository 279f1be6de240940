"""A folder of games in a browser, for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browsing import (
    Tab,
    a_long_game,
    address,
    lines_of,
    with_attempts,
    write_lines,
)
from web_viewer import WebViewer, record, serving

from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis

SEED = 918273645
CARDS = "cards.jsonl"
HOSTILE = "<img src=x onerror=top.hacked=1>.jsonl"
ATTACK = (
    "</script><script>top.hacked=1</script><img src=x onerror=top.hacked=1>"
    "<svg onload=top.hacked=1>\"'><iframe src=javascript:top.hacked=1></iframe>"
)
STEPS = "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft", "Home"


@dataclass(frozen=True)
class Served:
    folder: Path
    viewer: WebViewer

    def at(self, path: str, **place: int) -> str:
        return address(self.viewer.port, path, **place)

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.viewer.port}/"

    def analysis(self, path: str = CARDS) -> ReplayAnalysis:
        return ReplayAnalysis(read_replay(self.folder / path))


def hostile(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A replay that tries to run script in every field that takes text."""
    specs = [f"{ATTACK}{seat}" for seat in range(3)]
    lines = with_attempts(lines, 0, ATTACK, note={ATTACK: ATTACK}, beliefs={ATTACK: ATTACK})
    by_type: dict[str, dict[str, Any]] = {
        "header": {"players": specs},
        "outcome": {"reason": ATTACK},
        "decision": {"failure": ATTACK},
    }
    return [line | by_type.get(str(line["type"]), {}) for line in lines]


def open_game(opened: Tab, url: str) -> None:
    opened.page.goto("about:blank")
    opened.page.goto(url)
    opened.page.locator(".where strong").wait_for()
    opened.wait_for_paint()


def view(seat: int | None) -> str:
    return f"#view-{'open' if seat is None else seat}"


def wait_for_view(opened: Tab, seat: int | None) -> None:
    opened.page.locator(f"{view(seat)}:checked").wait_for()
    opened.wait_for_paint()


def last_position(served: Served, path: str = CARDS) -> int:
    return len(served.analysis(path).timeline()["plies"])


@contextmanager
def serving_games(folder: Path) -> Iterator[Served]:
    """Record the games, and serve them."""
    record(folder, "played", seed=SEED, game="cluedo", variant="cards", players=3)
    lines = lines_of((folder / "played.jsonl").rename(folder / CARDS))
    write_lines(folder / CARDS, with_attempts(lines, 1, "I am thinking."))
    write_lines(folder / HOSTILE, hostile(lines))
    record(folder, "board", seed=3, game="cluedo", variant="classic", players=6)
    for game in ("tictactoe", "goofspiel", "kuhn_poker"):
        record(folder, game, seed=2, game=game)
    (folder / "broken.jsonl").write_text('{"type":"header","schema_version":0}\n')
    a_long_game(folder, 2000)
    with serving(folder) as viewer:
        yield Served(folder, viewer)
