"""The leaderboard: complete, harmless whatever a submission says, legible at every size."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
from browsing import axe_findings, browsing, tab
from small_benchmark import bench, submit, task, write_suite

from arena.cli import bench as bench_command
from arena.core.errors import ArenaError
from arena.evaluation.benchmark import BASELINE, read_suite
from arena.evaluation.benchmark.submission import Submission, read_submission
from arena.evaluation.formatting import Grid
from arena.evaluation.paired import games_needed_for_rates
from replays.leaderboard import write_site
from replays.leaderboard.pages import published_study
from replays.leaderboard.publication import csv_text, latex_table

HOSTILE = '"><script>alert(1)</script></title><img src=x onerror=alert(1)> ../../up'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two submissions and their leaderboard `site`."""
    folder = tmp_path_factory.mktemp("leaderboard")
    suite = write_suite(folder / "small.json")
    submit(suite, "bot:detective", folder / "detective", "--name", HOSTILE)
    submit(suite, BASELINE, folder / "baseline")
    words = ("--suite", suite, "--executor", "local")
    names = [folder / name for name in ("detective", "baseline")]
    assert bench("site", *names, folder / "site", *words) == 0
    return folder


@pytest.fixture
def empty_game_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes most of the time of a site."""
    monkeypatch.setattr("replays.leaderboard.site._game_page", lambda _: "<!doctype html>")


def submissions(home: Path) -> list[Submission]:
    suite = read_suite(home / "small.json")
    return [read_submission(home / name, suite) for name in ("baseline", "detective")]


class References(HTMLParser):
    """Collects references, tags and inline styles of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.forbidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            if name in {"src", "style"} or name.startswith("on"):
                self.forbidden.append(f"{tag} {name}={value}")


def read(page: Path) -> References:
    found = References()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_pages_load_nothing_and_link_only_to_each_other(home: Path) -> None:
    site = home / "site"
    pages = sorted(site.glob("*.html"))
    assert [page.name for page in pages][-2:] == ["index.html", "method.html"]
    for page in pages:
        found = read(page)
        assert not found.forbidden and not found.tags & {"script", "img", "link", "iframe"}
        for link in found.links:
            assert (site / link).resolve().is_file(), link
            assert (site / link).resolve().is_relative_to(site.resolve())
        text = page.read_text(encoding="utf-8")
        # The policy allows the page's own style sheet by its hash, and nothing else.
        style = re.findall("<style>(.*?)</style>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
        assert len(style) == 1 and f"style-src 'sha256-{digest}'" in text.replace("&#39;", "'")
        assert "default-src 'none'" in text.replace("&#39;", "'")
    assert len(list((site / "games").glob("*.html"))) == 4
    assert len(list((site / "reports").glob("*.html"))) == 4


def test_the_page_names_the_leader_and_the_checks(home: Path) -> None:
    text = (home / "site" / "index.html").read_text(encoding="utf-8")
    assert text.count("✓ all") == 2 and "not checked" not in text
    assert "Duel" in text and "Deduction" in text and "question efficiency" in text
    method = (home / "site" / "method.html").read_text(encoding="utf-8")
    suite = read_suite(home / "small.json")
    assert all(each in method for each in (suite.sha256, suite.secret, *suite.commitments.values()))
    assert "18 games" in method


def test_equal_submissions_give_equal_bytes_and_a_site_may_be_written_again(
    home: Path, tmp_path: Path
) -> None:
    found, out = submissions(home), tmp_path / "site"
    write_site(found, out)
    before = bytes_of(out)
    assert {path.suffix for path in before} == {".html", ".csv", ".tex", ".svg", ".zip"}
    (out / "09-stale.html").write_text("")
    write_site(found[::-1], out)
    assert bytes_of(out) == before


def bytes_of(site: Path) -> dict[Path, bytes]:
    files = [path for path in site.rglob("*.*") if path.suffix != ".json"]
    return {path.relative_to(site): path.read_bytes() for path in files}


def test_other_files_are_never_overwritten(home: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ArenaError, match="not a leaderboard's"):
        write_site(submissions(home), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"
    with pytest.raises(ArenaError, match="cannot write"):
        write_site(submissions(home), tmp_path / "thesis.tex")


def test_a_forged_submission_gets_no_site(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home / "detective", tmp_path / "copy"))
    (copy / "two" / "replays" / "game000001.jsonl").unlink()
    words = ("--suite", home / "small.json", "--executor", "local")
    assert bench("site", copy, home / "detective", tmp_path / "site", *words) == 1
    assert "is missing" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_an_unchecked_site_reads_only_the_replays_of_its_games(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home / "detective", tmp_path / "copy"))
    for name in ("two", "three"):
        with closing(sqlite3.connect(copy / name / "results.sqlite")) as database:
            database.execute("UPDATE games SET replay = '/etc/passwd'")
            database.commit()
    words = ("--suite", home / "small.json", "--no-verify")
    assert bench("site", copy, tmp_path / "site", *words) == 0
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "not checked" in index and "✓" not in index
    shutil.rmtree(copy / "two" / "replays")
    shutil.rmtree(copy / "three" / "replays")
    assert bench("site", copy, tmp_path / "site", *words) == 1
    assert "cannot read" in capsys.readouterr().err


def test_what_was_verified_is_not_played_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[str] = []
    real = bench_command._faults

    async def counted(submission: Submission, *more: Any) -> list[str]:
        played.append(submission.folder.name)
        return await real(submission, *more)

    monkeypatch.setattr(bench_command, "_faults", counted)
    # Writing its games takes longer than all else.
    monkeypatch.setattr("replays.leaderboard.write_site", lambda *_: {})
    monkeypatch.setenv("ARENA_HOME", str(tmp_path / "home"))
    copy = Path(shutil.copytree(home / "detective", tmp_path / "copy"))
    words = ("site", copy, tmp_path / "site", "--suite", home / "small.json", "--executor", "local")
    assert bench(*words) == 0 and bench(*words) == 0
    assert played == ["copy"] and "verified before" in capsys.readouterr().err
    # Any other byte is another submission, and verify always plays.
    replay = copy / "two" / "replays" / "game000000.jsonl"
    replay.write_text(replay.read_text().replace('"seconds":', '"seconds": '))
    assert bench(*words) == 1
    assert bench("verify", home / "detective", *words[3:]) == 0
    assert played == ["copy", "copy", "detective"]


def test_what_is_not_proven_is_marked_beside_the_figure(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "small.json", task("two", 2, 2, max_turns=4))
    script = tmp_path / "replies.json"
    script.write_text(json.dumps(["end turn"] * 60))
    submit(suite, f"scripted:{script}", tmp_path / "model")
    write_site([read_submission(tmp_path / "model", read_suite(suite))], tmp_path / "site")
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert f"replies name scripted:{script}" in text and "Not proven: which model" in text
    # Beside the name and the tokens; a scripted model has no price.
    assert text.count(">not proven<") >= 2
    page = next((tmp_path / "site").glob("01-*.html")).read_text(encoding="utf-8")
    assert "Tokens per game, not proven" in page and "Cost per game, not proven" in page


@pytest.mark.usefixtures("empty_game_pages")
def test_one_entry_has_no_rating(home: Path, tmp_path: Path) -> None:
    write_site(submissions(home)[1:], tmp_path / "site")
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "is the only entry" in text and "Head to head" not in text


# What a publication takes


@pytest.mark.usefixtures("empty_game_pages")
def test_tables_figures_and_submissions_are_downloads(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "home")
    (tmp_path / "home" / "detective" / "secret.json").symlink_to("/etc/passwd")
    out = tmp_path / "site"
    write_site(submissions(tmp_path / "home"), out)
    with (out / "data" / "leaderboard.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 3 and {rows[1][0], rows[2][0]} == {HOSTILE, BASELINE}
    tex = (out / "data" / "leaderboard.tex").read_text(encoding="utf-8")
    assert tex.count(r"\\") == 3 and tex.startswith(r"\begin{tabular}{lrrr}")
    figures = sorted((out / "data").glob("*.svg"))
    assert figures
    for figure in figures:
        root = ElementTree.parse(figure).getroot()
        text = figure.read_text(encoding="utf-8")
        assert root.tag.endswith("svg") and "var(" not in text and ".c0 { color: #0072b2; }" in text
    archives = sorted((out / "submissions").glob("*.zip"))
    assert len(archives) == 2
    for archive in archives:
        with zipfile.ZipFile(archive) as opened:
            names = opened.namelist()
            assert "secret.json" not in names and sum(n.endswith(".jsonl") for n in names) > 3


def test_latex_and_csv_are_text_only() -> None:
    hostile = Grid("Title", ["player", "x_1"], [[r"\input{/etc/passwd} & 50 %", "=1+1"]])
    tex = latex_table(hostile)
    assert r"\textbackslash{}input\{/etc/passwd\} \& 50 \%" in tex and r"x\_1" in tex
    assert csv_text(hostile).splitlines()[1].endswith(",'=1+1")


@pytest.mark.usefixtures("empty_game_pages")
def test_a_citation_names_the_suite_and_a_state_that_stays(home: Path, tmp_path: Path) -> None:
    found, out = submissions(home), tmp_path / "site"
    write_site(found, out)
    write_site(found[:1], out)  # The leaderboard has changed.
    archived = sorted((out / "archive").glob("*.json"))
    assert len(archived) == 2
    text = (out / "index.html").read_text(encoding="utf-8")
    suite = read_suite(home / "small.json")
    assert suite.sha256 in text and "@misc{" in text and text.count("archive/") >= 2
    state = next(each for each in archived if len(json.loads(each.read_text())["entries"]) == 1)
    assert state.stem.rpartition("-")[2] in text


@pytest.mark.browser
@pytest.mark.usefixtures("empty_game_pages")
def test_twenty_entries_are_legible_on_a_phone(home: Path, tmp_path: Path) -> None:
    many = [
        replace(each, card=each.card.model_copy(update={"name": f"{each.card.name[:30]} {n}"}))
        for n in range(10)
        for each in submissions(home)
    ]
    write_site(many, tmp_path / "site")
    with browsing() as browser, tab(browser, (390, 844)) as opened:
        for name in ("index.html", "method.html"):
            opened.page.goto((tmp_path / "site" / name).as_uri())
            assert opened.overflow() == 0 and not axe_findings(opened.page)
        assert not opened.faults
    assert len(list((tmp_path / "site" / "submissions").glob("*.zip"))) == 20


def test_the_published_study_is_computed() -> None:
    study = published_study()
    assert study.share.value == pytest.approx(4 / 18, abs=1e-6)
    # Wilson's interval of 4 of 18, from a table.
    assert (study.share.low, study.share.high) == pytest.approx((0.0900, 0.4521), abs=5e-4)
    assert study.needed_for_double == games_needed_for_rates(4 / 18, 8 / 18)


@pytest.mark.browser
def test_the_site_is_legible_in_a_browser(home: Path) -> None:
    sizes: list[tuple[tuple[int, int], Literal["light", "dark"]]] = [
        ((390, 844), "light"),
        ((1024, 768), "dark"),
        ((1440, 900), "light"),
    ]
    names = ["index.html", "method.html", next((home / "site").glob("01-*.html")).name]
    with browsing() as browser:
        for size, scheme in sizes:
            with tab(browser, size, scheme) as opened:
                requests: list[str] = []
                opened.page.on("request", _recorder(requests))
                for name in names:
                    opened.page.goto((home / "site" / name).as_uri())
                    assert opened.overflow() == 0
                    assert not axe_findings(opened.page)
                opened.page.goto((home / "site" / "index.html").as_uri())
                opened.page.get_by_role("link", name="best game").first.click()
                opened.page.get_by_role("slider", name="Position").wait_for()
                assert not opened.faults
                assert requests and all(each.startswith(("file:", "data:")) for each in requests)


def _recorder(urls: list[str]) -> Callable[[Any], None]:
    def record(request: Any) -> None:
        urls.append(request.url)

    return record
