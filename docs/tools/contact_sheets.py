"""Take pictures of every game's table in play, and compose one sheet for each size.

    python docs/tools/contact_sheets.py [GAME …]

A person clicks at random against random bots. Each table is photographed at the first turn, in
the middle and at the end, at two sizes and in two schemes. The pictures are in build/tables, the
sheets of all games are docs/images/tables-WIDTH.webp. Needs the extra `web`, Pillow and Chromium.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[2]
PICTURES, SHEETS = ROOT / "build" / "tables", ROOT / "docs" / "images"
SIZES = {1440: (1440, 900), 390: (390, 844)}
SCHEMES = ("light", "dark")
MOMENTS = ("start", "middle", "end")
MIDDLE, MOST = (1, 5), 90
"""Clicks until the middle, in a short game and in another; and at most."""
GAMES: dict[str, dict[str, Any]] = {
    "avalon": {"talk": 0},
    "battleship": {},
    "cluedo": {"variant": "classic"},
    "cluedo cards": {"players": 3, "suspects": 3, "weapons": 3, "rooms": 3},
    "cluedo guided": {},
    "codenames": {},
    "goofspiel": {},
    "hanabi": {},
    "kuhn_poker": {},
    "leduc_poker": {},
    "liars_dice": {},
    "negotiation": {},
    "tictactoe": {},
    "werewolf": {},
}
"""Options by the name of the picture, whose first word is the game."""
THUMB, GAP, NAME_HEIGHT = {1440: 240, 390: 120}, 6, 16
PER_ROW = {1440: 1, 390: 2}
"""Games beside each other."""

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def photograph(page: Page, name: str, moment: str) -> None:
    """Take the four pictures of one moment."""
    for width, (_, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.wait_for_timeout(300)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=picture(name, moment, width, scheme))


def picture(name: str, moment: str, width: int, scheme: str) -> Path:
    """Return where a picture is kept."""
    return PICTURES / f"{name.replace(' ', '-')}-{moment}-{width}-{scheme}.png"


def play(server: Any, browser: Browser, name: str) -> None:
    """Play one game, with pictures."""
    from browsing import tab
    from clicking import OVER, step

    from arena.plugins.loader import make_game

    game, rng = name.partition(" ")[0], random.Random(4)
    options = GAMES[name]
    # A guesser has a table to click; a clue is written.
    seat = 2 if game == "codenames" else 0
    bot = "bot:novice" if game == "cluedo" else "bot:random"
    seats = [
        "human" if each == seat else bot for each in range(make_game(game, **options).num_players)
    ]
    wanted = {"guided": True} if name.endswith("guided") else {"options": options}
    token = server.table(game, [] if name.endswith("guided") else seats, **wanted)[0]
    with tab(browser, SIZES[1440]) as opened:
        page = opened.page
        page.goto(f"{server.base}/play#{token}")
        for clicks in range(MOST):
            page.wait_for_selector(f".is-turn, {OVER}")
            is_over = bool(page.locator(OVER).count())
            moment = {0: "start", **dict.fromkeys(MIDDLE, "middle")}.get(clicks)
            moment = "end" if is_over else moment
            if moment:
                photograph(page, name, moment)
                page.set_viewport_size({"width": 1440, "height": 900})
            if is_over:
                return
            step(page, rng)


def compose(width: int) -> Path:
    """Write the sheet of one size: a row per game, light before dark."""
    thumb = THUMB[width]
    height = thumb * SIZES[width][1] // width
    shots = [(scheme, moment) for scheme in SCHEMES for moment in MOMENTS]
    block = (len(shots) * (thumb + GAP) + GAP, height + NAME_HEIGHT + GAP)
    rows = -(-len(GAMES) // PER_ROW[width])
    sheet = Image.new("RGB", (block[0] * PER_ROW[width], block[1] * rows), "#9aa0a6")
    draw = ImageDraw.Draw(sheet)
    for number, name in enumerate(GAMES):
        row, column = divmod(number, PER_ROW[width])
        left, top = column * block[0] + GAP, row * block[1]
        draw.text((left, top + 2), name.replace("_", " "), fill="#000000")
        for at, (scheme, moment) in enumerate(shots):
            path = picture(name, moment, width, scheme)
            if path.exists():
                with Image.open(path) as shot:
                    small = shot.convert("RGB").resize((thumb, height), Image.Resampling.LANCZOS)
                sheet.paste(small, (left + at * (thumb + GAP), top + NAME_HEIGHT))
    out = SHEETS / f"tables-{width}.webp"
    sheet.save(out, quality=60, method=6)
    return out


def main(names: list[str]) -> None:
    """Photograph these games, or all, and compose the sheets."""
    sys.path.append(str(ROOT / "tests" / "support"))
    from browsing import browsing, missing
    from play_server import play_server

    if reason := missing():
        sys.exit(reason)
    if unknown := set(names) - set(GAMES):
        sys.exit(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(GAMES)}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        play_server("kuhn_poker --seed 2 --set delay=0", Path(folder)) as server,
        browsing() as browser,
    ):
        for name in names or GAMES:
            play(server, browser, name)
            print(name, flush=True)
    for width in SIZES:
        out = compose(width)
        print(f"{out.relative_to(ROOT)}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
