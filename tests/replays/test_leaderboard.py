"""The leaderboard: ratings, and a page that is harmless whatever a submission says."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import axe_findings, browsing, tab
from pydantic import ValidationError
from small_benchmark import bench, submit, task, write_suite

from arena.core.errors import ArenaError
from arena.core.text import appearance
from arena.evaluation.benchmark import BASELINE
from arena.evaluation.benchmark.submission import Submission, ahead_of_baseline, read_submission
from replays.leaderboard import csv_text, make_standings

PLAYER = "bot:detective"
HOSTILE = '"><script>alert(1)</script></title><img src=x onerror=alert(1)> ../../up'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite, two submissions, and the page of these and one with another name."""
    folder = tmp_path_factory.mktemp("leaderboard")
    suite = write_suite(folder / "small.json")
    submit(suite, PLAYER, folder / "detective")
    submit(suite, BASELINE, folder / "baseline", "--name", "the baseline")
    submit(suite, "bot:random", folder / "hostile", "--name", HOSTILE)
    assert bench("site", *map(folder.joinpath, ("detective", "baseline", "hostile", "site"))) == 0
    return folder


def submissions(home: Path) -> list[Submission]:
    return [read_submission(home / name) for name in ("baseline", "detective")]


def test_the_better_player_leads_whatever_the_order(home: Path) -> None:
    found = submissions(home)
    standings, other = make_standings(found), make_standings(found[::-1])
    assert [entry.label for entry in standings.entries] == [PLAYER, "the baseline"]
    assert [e.label for e in other.entries] == [e.label for e in standings.entries]
    assert standings.anchor == "the baseline"
    first, second = standings.entries
    assert second.rating.value == 1500 and (first.rating.value or 0) > 1500
    # The baseline has no score against itself.
    assert second.ahead.value is None and (first.ahead.value or 0) > 0.5
    # Where it is the baseline of some tasks only, their deals count half.
    mixed = ahead_of_baseline([found[0].tasks[0], found[1].tasks[1]])
    alone = ahead_of_baseline([found[1].tasks[1]])
    assert mixed.n == 5 and mixed.value == pytest.approx((1.5 + 2 * (alone.value or 0)) / 5)
    assert list(first.skills) == ["duel", "deduction"]
    pairs = {(pair.first, pair.second): pair for pair in standings.pairs}
    pair = pairs[PLAYER, "the baseline"]
    assert pair.games == 5 and pair.ahead.value == pytest.approx(first.ahead.value)


def test_equal_names_are_told_apart_and_suites_are_not_mixed(home: Path, tmp_path: Path) -> None:
    one = read_submission(home / "detective")
    labels = [entry.label for entry in make_standings([one, one]).entries]
    assert sorted(labels) == [PLAYER, f"{PLAYER} (2)"]
    # Neither a name with such a number nor one of other letters is taken for another entry.
    named = [f"{PLAYER} (2)", PLAYER.replace("e", "\u0435")]
    cards = [one.card.model_copy(update={"name": name}) for name in named]
    entries = make_standings([one, one, *(replace(one, card=card) for card in cards)]).entries
    assert len({appearance(entry.label) for entry in entries}) == 4
    with pytest.raises(ValidationError, match="name"):
        type(one.card).model_validate({**one.card.model_dump(), "name": "\u202e" + PLAYER})
    suite = write_suite(tmp_path / "other.json", task("two", 2, 2), name="other")
    other = read_submission(submit(suite, PLAYER, tmp_path / "run"))
    with pytest.raises(ArenaError, match="one version of one suite"):
        make_standings([one, other])


def test_the_page_loads_nothing_and_its_numbers_are_csv(home: Path) -> None:
    text = (home / "site" / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text.replace("&#39;", "'")
    assert not any(f"<{tag}" in text for tag in ("script", "img", "link", "iframe"))
    assert "duel" in text and "deduction" in text and "Not proven: " in text
    with (home / "site" / "leaderboard.csv").open(encoding="utf-8") as file:
        rows = {row["player"]: row for row in csv.DictReader(file)}
    assert set(rows) == {HOSTILE, PLAYER, "the baseline"}
    assert float(rows["the baseline"]["rating"]) == 1500 and rows[PLAYER]["three"]
    one = read_submission(home / "detective")
    tasks = tuple(each.model_copy(update={"skill": "=2+2"}) for each in one.suite.tasks)
    card = one.card.model_copy(update={"name": "@SUM(A1)", "player": "+1", "text_level": "-1"})
    suite = one.suite.model_copy(update={"tasks": tasks})
    text = csv_text(make_standings([replace(one, suite=suite, card=card)]))
    cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
    assert {"'@SUM(A1)", "'+1", "'=2+2"} <= set(cells)
    assert not [cell for cell in cells if cell[:1] in "=@" and cell]


@pytest.mark.browser
def test_the_page_is_legible_on_a_phone(home: Path) -> None:
    with browsing() as browser, tab(browser, (390, 844)) as opened:
        opened.page.goto((home / "site" / "index.html").as_uri())
        assert opened.overflow() == 0 and not axe_findings(opened.page) and not opened.faults
