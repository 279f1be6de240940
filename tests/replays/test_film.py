"""Films of games: frames, sizes and lengths, what a seat's film is made from, and failures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browsing import browsing, lines_of, tab, write_lines
from command_line import started
from hypothesis import given
from hypothesis import strategies as st
from served_games import ATTACK, hostile
from web_viewer import record

from arena.cli import run
from arena.core.errors import ArenaError, MissingDependency, UsageError
from arena.episodes.replay import Replay, read_replay
from arena.plugins import catalog
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.film import (
    LAST_SECONDS,
    MAX_SIDE,
    MIN_SIDE,
    FilmFormat,
    FilmOptions,
    FrameSize,
)
from replays.film import write as film_browser
from replays.film.encoders import COLORS, COMMON, FRAME_RATE, choose_colors
from replays.film.write import film_page, write_film

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytest.importorskip("imageio_ffmpeg", reason="the extra film is not installed")
pytest.importorskip("PIL", reason="the extra film is not installed")

SMALL = FrameSize(480, 270)
SEED = 918273645


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("kuhn"), "kuhn", seed=3)


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    return record(folder, "cards", seed=SEED, game="cluedo", variant="cards", players=3)


# Films


@pytest.mark.browser
def test_a_gif_has_a_frame_for_each_position(kuhn: Path, tmp_path: Path) -> None:
    from PIL import Image

    replay, out = read_replay(kuhn), tmp_path / "game.gif"
    options = FilmOptions(0, len(replay.moves), SMALL, seconds=0.3)
    seen: list[tuple[int, int]] = []
    result = write_film(replay, None, "gif", options, out, lambda *done: seen.append(done))
    frames = len(replay.moves) + 1
    assert seen == [(done, frames) for done in range(1, frames + 1)]
    assert (result.frames, result.bytes) == (frames, out.stat().st_size)
    with Image.open(out) as film:
        assert (film.size, film.info["loop"]) == ((480, 270), 0)
        pictures, seconds = list[bytes](), list[float]()
        for at in range(frames):
            film.seek(at)
            seconds.append(film.info["duration"] / 1000)
            pictures.append(film.convert("RGB").tobytes())
        with pytest.raises(EOFError):
            film.seek(frames)
    assert seconds == [0.3] * (frames - 1) + [LAST_SECONDS]
    assert result.seconds == pytest.approx(sum(seconds))
    assert len(set(pictures)) == frames
    assert [path.name for path in tmp_path.iterdir()] == ["game.gif"]


@pytest.mark.browser
def test_an_mp4_of_a_part_through_one_seat(
    cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = f"replay {cards} --export mp4 --seat 1 --position 4 --set until=6 --set seconds=0.5"
    assert run([*command.split(), "--set", "size=640x360", "--set", "dark=true", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # Not the name of the replay, which often holds the seed.
    assert (found["file"], found["frames"]) == ("cluedo-seat1.mp4", 3)
    described, pictures = _decode(tmp_path / found["file"])
    assert "h264" in described and "640x360" in described and "yuv420p" in described
    assert found["seconds"] == 2 * 0.5 + LAST_SECONDS
    assert len(pictures) == found["seconds"] * FRAME_RATE
    assert not np.array_equal(pictures[0], pictures[-1])
    assert pictures[0].mean() < 128  # Dark.
    assert [path.name for path in tmp_path.iterdir()] == [found["file"]]


def _decode(film: Path) -> tuple[str, NDArray[np.uint8]]:
    """Return what ffmpeg says of a film, and its frames in grey, 64 by 36."""
    from imageio_ffmpeg import get_ffmpeg_exe

    form = ["-vf", "scale=64:36", "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    done = subprocess.run(
        [get_ffmpeg_exe(), "-nostdin", "-i", str(film), *form], capture_output=True, check=True
    )
    return done.stderr.decode(), np.frombuffer(done.stdout, dtype=np.uint8).reshape(-1, 36, 64)


# What a film is made from


def test_a_seats_film_is_made_from_what_it_could_know(cards: Path) -> None:
    replay = read_replay(cards)
    timeline = ReplayAnalysis(replay).timeline()
    for seat in range(3):
        hidden = [
            event["text"]
            for ply in timeline["plies"]
            for event in ply["events"]
            if event["audience"] is not None and seat not in event["audience"]
        ]
        dealt = str(timeline["plies"][0]["action"])
        assert len(hidden) > 3 and dealt.startswith("deal ")
        page, everything = film_page(replay, seat), film_page(replay, None)
        for secret in (*hidden, dealt):
            assert secret in everything
            assert secret not in page
        assert str(SEED) not in page
        documents = json.loads(
            page.partition('id="data">')[2].partition("</script>")[0].replace("\\u003c", "<")
        )
        assert list(documents["timelines"]) == list(documents["posteriors"]) == [str(seat)]


@pytest.mark.browser
def test_the_page_shows_one_position_and_nothing_later(cards: Path, tmp_path: Path) -> None:
    """Text of others stays text, and nothing runs that the page did not bring."""
    attacked = tmp_path / "attacked.jsonl"
    write_lines(attacked, hostile(lines_of(cards)))
    replay = read_replay(attacked)
    pages = {seat: film_page(replay, seat) for seat in (None, 1)}
    last = len(replay.moves)
    with browsing() as browser:
        for seat, html in pages.items():
            file = tmp_path / "film.html"
            file.write_text(html, encoding="utf-8")
            with tab(browser, (960, 540)) as opened:
                page = opened.page
                page.goto(file.as_uri())
                page.evaluate("async (last) => (await film).fit(0, last)", last)
                for position in (0, 3, last):
                    shown = page.evaluate("async (at) => (await film).show(at)", position)
                    assert shown == position
                    assert page.locator(".film-where").inner_text() == f"{position} / {last}"
                    assert page.locator(".line.ahead").count() == 0
                    assert page.locator("button, select, input, a").count() == 0
                    assert page.locator(".result").is_visible() == (position == last)
                assert page.locator(".chart .line").count() == (3 if seat is None else 1)
                assert ATTACK in page.locator(".result").inner_text()
                assert page.evaluate("top.hacked") is None
                assert page.locator("main :is(img, script, iframe)").count() == 0
                scroll = "document.documentElement.scrollHeight - innerHeight"
                assert (opened.overflow(), page.evaluate(scroll)) == (0, 0)
                assert not opened.faults


# Failures


WRONG = {
    "--set size=100x100": "--set size=100x100: give WIDTHxHEIGHT in pixels, even numbers from",
    "--set size=641x360": "--set size=641x360",
    "--set seconds=0": "--set seconds=0: each position takes 0.1 to 60 seconds",
    "--set seconds=nan": "--set seconds=nan",
    "--set until=999": "--set until=999: REPLAY has 3 plies",
    "--position 999": "--position 999: REPLAY has 3 plies",
    "--position 3 --set until=2": "a film from position 3 to 2 has no frames",
    "--seat 7": "--seat 7: REPLAY has seats 0 to 1",
    "--out game.gif": "--out game.gif: --export mp4 writes .mp4; name the file game.mp4",
    "--out missing/game.mp4": "--out missing/game.mp4: no file can be written there",
}


@pytest.mark.parametrize("flags", WRONG)
def test_a_wrong_flag_is_one_line(
    kuhn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], flags: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["replay", str(kuhn), "--export", "mp4", *flags.split()]) == 2
    assert WRONG[flags].replace("REPLAY", str(kuhn)) in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_and_a_folder(kuhn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(kuhn), "--export", "mpeg"]) == 2
    assert "for films: mp4, gif" in capsys.readouterr().err
    assert run(["replay", str(kuhn.parent), "--export", "gif"]) == 2
    assert f"--export mp4/gif takes one file: {kuhn.parent} is" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "package"), [("mp4", "imageio_ffmpeg"), ("gif", "PIL")])
def test_a_missing_package_names_the_extra(
    kuhn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: FilmFormat, package: str
) -> None:
    monkeypatch.setattr(catalog, "find_spec", lambda name: None if name == package else name)
    with pytest.raises(MissingDependency, match=rf"'{package}'.* 'arena-games\[film\]'"):
        _write(read_replay(kuhn), tmp_path, form)
    assert not list(tmp_path.iterdir())


def _write(replay: Replay, folder: Path, form: FilmFormat = "mp4") -> None:
    write_film(replay, None, form, FilmOptions(1, 2, SMALL), folder / f"game.{form}")


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a shell script")
def test_no_browser_is_an_error_with_a_remedy(
    kuhn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("playwright", reason="the extra film is not installed")
    broken, folder = tmp_path / "bin" / "chromium", tmp_path / "films"
    broken.parent.mkdir()
    folder.mkdir()
    monkeypatch.setenv("PATH", str(broken.parent))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "none"))
    monkeypatch.setattr(film_browser, "CHANNELS", ())
    replay = read_replay(kuhn)
    with pytest.raises(ArenaError, match="none was found: run `playwright install chromium`"):
        _write(replay, folder)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ArenaError, match=f"; {broken} does not start: "):
        _write(replay, folder)
    assert not list(folder.iterdir())


@pytest.mark.browser
def test_a_failing_encoder_leaves_the_older_film(
    kuhn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "game.mp4"
    older.write_text("older")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    with pytest.raises(ArenaError, match="ffmpeg could not write the film: no message"):
        _write(read_replay(kuhn), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["game.mp4"]
    assert older.read_text() == "older"


def test_a_replay_that_does_not_fit_the_rules(
    kuhn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.jsonl"
    lines = [line | ({"action": "fly"} if "action" in line else {}) for line in lines_of(kuhn)]
    write_lines(broken, lines)
    out = tmp_path / "game.gif"
    assert run(["replay", str(broken), "--export", "gif", "--out", str(out)]) == 1
    assert "fly" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["broken.jsonl"]


@pytest.mark.browser
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another signal there")
def test_ctrl_c_leaves_no_file_and_no_process(cards: Path, tmp_path: Path) -> None:
    out = tmp_path / "game.mp4"
    process = started(f"replay {cards} --export mp4 --out {out}", tmp_path)
    try:
        while not _encoders(out.parent):
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.communicate()
    assert not _encoders(out.parent)
    assert not list(tmp_path.iterdir())


def _encoders(folder: Path) -> list[str]:
    """Return the command lines of the running ffmpegs that write there."""
    psutil = pytest.importorskip("psutil")
    processes = (each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"]))
    lines = (" ".join(words) for words in processes)
    return [line for line in lines if "ffmpeg" in line and str(folder) in line]


# Sizes and colours


@given(st.text() | st.from_regex(r"[0-9]{1,5}x[0-9]{1,5}", fullmatch=True))
def test_a_size_is_read_or_refused(text: str) -> None:
    try:
        size = FrameSize.parse(text)
    except UsageError as error:
        assert f"--set size={text}" in str(error)
        return
    assert f"{size.width}x{size.height}" == "x".join(str(int(side)) for side in text.split("x"))
    assert all(MIN_SIDE <= side <= MAX_SIDE and side % 2 == 0 for side in (size.width, size.height))


@given(st.lists(st.integers(0, 0xFFFFFF), min_size=1, max_size=600, unique=True))
def test_the_most_frequent_colours_are_kept_and_the_others_spread(codes: list[int]) -> None:
    chosen = choose_colors(np.array(codes, dtype=np.int64))
    assert len(chosen) == min(len(codes), COLORS)
    assert _codes(chosen[:COMMON]) == codes[:COMMON]
    assert len(set(_codes(chosen))) == len(chosen)
    assert set(_codes(chosen)) <= set(codes)


def _codes(colors: NDArray[np.int64]) -> list[int]:
    return [int(red) << 16 | int(green) << 8 | int(blue) for red, green, blue in colors]
