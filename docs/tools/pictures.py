"""Make the pictures of README and docs: a table in play, a replay in the browser and in a terminal.

    python docs/tools/pictures.py

A person plays at random at a table of the classic game. Needs the extra `web`, Pillow and
Chromium; writes docs/images/play-web.png, replay.png and play.svg.
"""

from __future__ import annotations

import asyncio
import io
import random
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console

import arena
from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.tui.viewer import TerminalViewer

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SIZE = (1440, 900)
BOTS = ("bot:detective", "bot:novice", "bot:oracle")
ACTIONS = 7
"""Actions of the person before the table is photographed: some suggestions have been answered."""
POSITION = 0.5
"""Share of the game after which its replay is shown, at the next bad question."""


def save(png: bytes, name: str) -> None:
    """Write a picture with 256 colours, a third of the size."""
    with Image.open(io.BytesIO(png)) as shot:
        shot.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            IMAGES / name, optimize=True
        )


def photograph_play(folder: Path) -> None:
    """Photograph a table in play."""
    from browsing import browsing, tab
    from play_server import play_server

    seats = " ".join(f"--seat {n}={bot}" for n, bot in enumerate(BOTS, 1))
    command = (
        f"cluedo -o variant=classic --players 4 --seed 5 --set delay=0 --seat 0=human:Ada {seats}"
    )
    rng = random.Random(7)
    with (
        play_server(command, folder) as server,
        browsing() as browser,
        tab(browser, SIZE) as opened,
    ):
        person = server.join(server.tokens[0])
        for _ in range(ACTIONS):
            person.wait("turn")
            calm = [action for action in person.actions if not action.startswith("accuse")]
            person.act(rng.choice(calm), sure=True)
        person.wait("turn")
        person.close()
        page = opened.page
        page.goto(f"{server.base}/play#{server.tokens[0]}")
        page.wait_for_selector(".is-turn")
        opened.wait_until_quiet()
        save(page.screenshot(), "play-web.png")


def photograph_replay(path: Path, position: int) -> None:
    """Photograph a replay in the browser, at a position."""
    from browsing import address, browsing, tab
    from web_viewer import serving

    with serving(path) as server, browsing() as browser, tab(browser, SIZE) as opened:
        opened.page.goto(address(server.port, path.name, at=position))
        opened.wait_until_quiet()
        save(opened.page.screenshot(), "replay.png")


def draw_terminal(path: Path, position: int) -> None:
    """Write the terminal viewer's screen as SVG."""
    viewer = TerminalViewer(read_replay(path), position, None)
    viewer.console = Console(
        width=84,
        height=24,
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    viewer.console.print(viewer.render())
    viewer.console.save_svg(str(IMAGES / "play.svg"), title="arena replay")


def main() -> None:
    """Play a game of bots, and make the three pictures."""
    sys.path.append(str(ROOT / "tests" / "support"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        game = arena.make_game("cluedo", variant="classic", players=4)
        writer = arena.ReplayWriter(folder / "games", "classic")
        match = arena.Match(game, ["bot:detective", *BOTS[1:], "bot:random"], seed=5)
        episode = asyncio.run(arena.play(match, watchers=[writer]))
        position = next(
            comment["ply"] + 1
            for comment in ReplayAnalysis(read_replay(writer.path)).comments()
            if comment["ply"] > POSITION * len(episode.plies)
            and "best question" in comment["text"]
            and comment["mistake"]
        )
        draw_terminal(writer.path, position)
        photograph_replay(writer.path, position)
        photograph_play(folder)
    for picture in sorted(IMAGES.iterdir()):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
