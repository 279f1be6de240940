"""Pictures of the viewer's main states: `python tests/support/screenshots.py FOLDER [REPLAYS]`.

Without a folder of replays, games of bots are played for it. The pictures are PNG files.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from browsing import (
    NARROW,
    WIDE,
    address,
    browsing,
    lines_of,
    missing,
    tab,
    with_attempts,
    write_lines,
)
from play_server import play_server
from web_viewer import record, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

THOUGHT = "Player 2 had none of the three, so the Rope is with Player 0 or in the envelope."


@dataclass(frozen=True)
class Picture:
    name: str
    path: str | None = None
    """None: the list."""
    place: dict[str, int] = field(default_factory=dict)
    size: tuple[int, int] = WIDE
    scheme: Literal["light", "dark"] = "light"
    wait_for: str = ".where strong"
    keys: str = ""
    """Pressed before."""


PICTURES = [
    Picture("list", wait_for=".rows .row"),
    Picture("cards", "cards.jsonl", {"at": 18}, wait_for=".legend li:nth-child(4)"),
    Picture(
        "decision", "cards.jsonl", {"seat": 1}, (1280, 1700), wait_for=".attempt", keys="]]]]]"
    ),
    Picture("end-dark", "cards.jsonl", {"at": 10**6}, (1280, 1300), "dark", ".summary td"),
    Picture("board", "board.jsonl", {"at": 66}, wait_for=".legend li:nth-child(6)"),
    Picture("board-dark", "board.jsonl", {"at": 60, "seat": 2}, WIDE, "dark", ".legend li"),
    Picture("narrow", "cards.jsonl", {"at": 18}, NARROW),
    Picture("narrow-list", None, {}, NARROW, "dark", ".rows .row"),
    Picture("kuhn", "kuhn.jsonl", {"at": 2}),
    Picture("tictactoe", "tictactoe.jsonl", {"at": 5}, wait_for=".table-top .tile"),
    Picture("generic", "goofspiel.jsonl", {"at": 9, "seat": 1}),
]

PLAY_PICTURES: list[tuple[str, tuple[int, int], Literal["light", "dark"]]] = [
    ("play", (1280, 800), "light"),
    ("play-narrow", NARROW, "dark"),
]


def play(folder: Path) -> None:
    record(folder, "cards", seed=7, game="cluedo", variant="cards", players=4)
    lines = lines_of(folder / "cards.jsonl")
    for player in (0, 1):
        lines = with_attempts(lines, player, THOUGHT)
    write_lines(folder / "cards.jsonl", lines)
    record(folder, "board", seed=5, game="cluedo", variant="classic", players=6)
    for name, game in (("kuhn", "kuhn_poker"), ("tictactoe", "tictactoe"), ("goofspiel",) * 2):
        record(folder, name, seed=2, game=game)


def play_in_browser(out: Path, folder: Path, browser: Browser) -> None:
    """Take pictures of a table in play: at a person's first turn, after the dice are thrown."""
    command = "cluedo -o variant=classic --players 4 --seed 9 --set delay=0"
    with play_server(command, folder) as server:
        for name, size, scheme in PLAY_PICTURES:
            with tab(browser, size, scheme) as opened:
                opened.page.goto(f"{server.base}/play#{server.tokens[0]}")
                roll = opened.page.get_by_role("button", name="roll", exact=True)
                target = opened.page.locator("svg .pickable")
                roll.or_(target).first.wait_for()
                if roll.count():
                    roll.click()
                target.first.wait_for()
                opened.page.get_by_label("Probabilities").check()
                opened.page.locator(".play-help table.grid").wait_for()
                opened.wait_for_paint()
                opened.page.screenshot(path=out / f"{name}.png")


def main(out: Path, folder: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with browsing() as browser, tempfile.TemporaryDirectory() as played:
        play_in_browser(out, Path(played), browser)
    with serving(folder) as viewer, browsing() as browser:
        for picture in PICTURES:
            if picture.path is not None and not (folder / picture.path).exists():
                continue
            with tab(browser, picture.size, picture.scheme) as opened:
                url = f"http://127.0.0.1:{viewer.port}/"
                if picture.path is not None:
                    url = address(viewer.port, picture.path, **picture.place)
                opened.page.goto(url)
                for key in picture.keys:
                    opened.page.locator(".where strong").wait_for()
                    opened.page.keyboard.press(key)
                opened.page.locator(picture.wait_for).first.wait_for()
                opened.page.wait_for_timeout(600)
                opened.page.screenshot(path=out / f"{picture.name}.png")
                print(out / f"{picture.name}.png")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if reason := missing():
        sys.exit(reason)
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            play(Path(made))
            main(Path(sys.argv[1]), Path(made))
