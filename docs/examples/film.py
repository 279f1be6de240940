"""Film a replay: a Chromium draws each position of an exported page, and ffmpeg joins the pictures.

    python docs/examples/film.py GAME.jsonl game.mp4
    python docs/examples/film.py GAME.jsonl game.gif --seat 0 --first 5 --last 40 --seconds 0.5

It needs Playwright (`pip install playwright`), ffmpeg in PATH, and a Chromium: one in PATH, or that
of `playwright install chromium`. With --seat, the page holds only what this seat could know.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LAST_SECONDS = 4.0
"""Time of the last position, which shows the result."""
# A picture of the table and the chart only; the controls stay out of it.
QUIET = "header, .share, .transport .controls, .panel-links, .decision { display: none !important }"


def write_page(replay: Path, seat: int | None, page: Path) -> None:
    """Export the replay as one HTML file that works offline."""
    command = [sys.executable, "-m", "arena", "replay", str(replay), "--html", str(page)]
    subprocess.run(command + ([] if seat is None else ["--seat", str(seat)]), check=True)


def take_pictures(page: Page, positions: range, folder: Path) -> None:
    """Write a PNG of each position."""
    for number, position in enumerate(positions):
        page.get_by_role("slider", name="Position").fill(str(position))
        page.locator(f".where strong:text-is('{position}')").wait_for(state="attached")
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50)))")
        page.screenshot(path=folder / f"{number:05}.png", animations="disabled")
        print(f"\rposition {position} of {positions[-1]}", end="", file=sys.stderr)
    print(file=sys.stderr)


def join(folder: Path, seconds: float, out: Path) -> None:
    """Make a film of the pictures in a folder; the suffix of `out` decides its format."""
    hold = f"tpad=stop_mode=clone:stop_duration={max(0.0, LAST_SECONDS - seconds)}"
    palette = "split[a][b];[a]palettegen[p];[b][p]paletteuse"
    filters = f"{hold},{palette}" if out.suffix == ".gif" else f"{hold},fps=10,format=yuv420p"
    pictures = ["-framerate", str(1 / seconds), "-i", str(folder / "%05d.png")]
    command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-y", *pictures, "-vf", filters]
    subprocess.run([*command, str(out)], check=True)


def main() -> None:
    """Read the arguments and write the film."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("replay", type=Path)
    parser.add_argument("out", type=Path, help="a file .mp4 or .gif")
    parser.add_argument("--seat", type=int, help="show only what this seat could know")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, help="default: the last position")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of each position")
    parser.add_argument("--size", default="1280x800", help="WIDTHxHEIGHT of the window")
    options = parser.parse_args()
    if options.out.suffix not in (".mp4", ".gif") or shutil.which("ffmpeg") is None:
        parser.error("name a file .mp4 or .gif, and have ffmpeg in PATH")
    width, height = map(int, options.size.split("x"))
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        folder = Path(made)
        write_page(options.replay, options.seat, folder / "page.html")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        size = ViewportSize(width=width, height=height)
        # The policy of the page would refuse the style below.
        page = browser.new_page(viewport=size, bypass_csp=True)
        page.goto((folder / "page.html").as_uri())
        page.add_style_tag(content=QUIET)
        slider = page.get_by_role("slider", name="Position")
        last = int(slider.get_attribute("max") or 0)
        last = last if options.last is None else min(last, options.last)
        take_pictures(page, range(options.first, last + 1), folder)
        browser.close()
        join(folder, options.seconds, options.out)


if __name__ == "__main__":
    main()
