"""The notebook of the documentation, and the HTML that notebooks show."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path
from typing import Any

from arena.core.outcome import Outcome
from arena.episodes.html_table import MAX_ROWS, html_table
from arena.episodes.match import Match
from arena.episodes.record import Episode, Header
from arena.evaluation.report import PlayerReport, Report
from arena.plugins.loader import make_game

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "examples" / "arena.ipynb"
ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
ALLOWED = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "small"}


class Tags(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}


def assert_harmless(source: str) -> None:
    tags = Tags(source)
    assert tags.found <= ALLOWED and tags.attributes <= {"style"} and len(source) < 20_000


def test_the_stored_outputs_are_those_of_the_code() -> None:
    execute = run_path(str(ROOT / "docs" / "tools" / "run_notebook.py"))["execute"]
    stored: dict[str, Any] = json.loads(NOTEBOOK.read_text("utf-8"))
    assert NOTEBOOK.stat().st_size < 30_000
    for old, new in zip(stored["cells"], execute(stored)["cells"], strict=True):
        assert old == new, "run python docs/tools/run_notebook.py docs/examples/arena.ipynb"
    shown = [out for cell in stored["cells"] for out in cell.get("outputs", ())]
    pages = ["".join(out["data"]["text/html"]) for out in shown if "text/html" in out["data"]]
    assert len(pages) == 2
    for page in pages:
        assert_harmless(page)


def test_hostile_texts_are_escaped() -> None:
    game = make_game("kuhn_poker")
    match = Match(game, ("bot:random", "bot:random"), 1)
    header = Header.of(game, 1, [ATTACK, "bot:random"], match.max_turns)
    episode = Episode(header, (), Outcome("terminated", ATTACK, (1.0, -1.0)), 1)
    report = Report(kind="eval", game=ATTACK, players=[PlayerReport(player=ATTACK)])
    for shown in (episode, report):
        assert_harmless(shown._repr_html_())
    assert "1.00" in episode._repr_html_() and "bot:random" in episode._repr_html_()


def test_a_long_table_is_cut() -> None:
    page = html_table("many", ["name"], [[str(number)] for number in range(MAX_ROWS + 9)])
    assert page.count("<tr>") == MAX_ROWS + 1 and "9 more rows" in page
