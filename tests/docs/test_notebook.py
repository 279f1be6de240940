"""The notebooks of the documentation, and the HTML that notebooks show."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plain_notebook import execute

from arena.core.outcome import Outcome
from arena.episodes.html_table import MAX_ROWS, html_table
from arena.episodes.match import Match
from arena.episodes.record import Episode, Header
from arena.evaluation.report import PlayerReport, Report
from arena.plugins.loader import make_game

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
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


def shown(cell: dict[str, Any]) -> list[str]:
    """Return what a cell shows: printed text, then HTML or the text of its value."""
    found = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        text = output.get("text") or data.get("text/html") or data["text/plain"]
        found.append("".join(text))
    return found


# The notebook that trains takes minutes: `make notebooks` only.
@pytest.mark.parametrize(("name", "tables"), [("play", 1), ("evaluate", 1)])
def test_the_stored_outputs_are_those_of_the_code(name: str, tables: int) -> None:
    path = NOTEBOOKS / f"{name}.ipynb"
    stored: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert path.stat().st_size < 60_000
    for old, new in zip(stored["cells"], execute(stored)["cells"], strict=True):
        assert shown(old) == shown(new), "run make notebooks"
    pages = [text for cell in stored["cells"] for text in shown(cell) if text.startswith("<div")]
    assert len(pages) == tables
    for page in pages:
        assert_harmless(page)


def test_each_notebook_has_run_to_its_end() -> None:
    for path in (paths := sorted(NOTEBOOKS.glob("*.ipynb"))):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
        assert shown(code[-1]), f"{path.name}: the last cell shows nothing"
        assert len(cells) <= 14
    assert [path.stem for path in paths] == ["evaluate", "play", "train"]


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
