"""The HTML report: complete, harmless whatever a report says, and the same every time."""

from __future__ import annotations

import copy
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from arena.core.errors import ArenaError
from arena.evaluation.document.tables import document
from arena.evaluation.report import Report
from replays.html_report import write_html

VOID = {"meta", "br"}
HOSTILE = [
    "</svg><script>alert(1)</script>",
    "</title></style><script src=https://evil.example/x.js></script>",
    '" onload="alert(1)" style="background:url(https://evil.example/)',
    "' onmouseover='alert(1)",
    r"$\frac{1}{$ \sqrt $x$ {{ 7 * 7 }} {% for %}",
    "javascript:alert(1)//" + "x" * 500,
    "👩\u200d🔬 שלום עולם \u202eesrever 漢字",
    "words 0",
    "half \ud800 nul \x00 bell \x07 line\nbreak ]]> <!-- &amp; <",
]


def estimate(value: float, half: float = 0.1, n: int = 120) -> dict[str, Any]:
    return {"value": value, "low": value - half, "high": value + half, "n": n}


def player(name: str, place: int = 0) -> dict[str, Any]:
    rate = 0.6 / (place + 1)
    return {
        "player": name,
        "games": 120,
        "wins": round(120 * rate),
        "win_rate": estimate(rate, 0.08),
        "mean_return": estimate(2 * rate - 1, 0.16),
        "seats": 120,
        "rating": estimate(1600 - 40 * place, 35),
        "rank": {"value": place + 1, "low": place + 1, "high": place + 2, "n": 120},
        "measures": {
            "efficiency": estimate(0.9 - 0.1 * place, 0.03),
            "unheard": estimate(2.0),
            "prompt_tokens": estimate(1234567),
        },
        "series": {
            "entropy": {str(turn): estimate(8 / turn + place, 0.3) for turn in range(1, 6)},
        },
        "replies": {"fallbacks": 10, "attempts": 910, "legal": 900, "failures": {"garbled": 10}},
    }


def tournament(names: tuple[str, ...] = ("bot:detective", "bot:novice")) -> dict[str, Any]:
    return {
        "kind": "tournament",
        "game": "cluedo",
        "options": {"num_players": 4, "variant": "classic", "open": False, "limit": 3},
        "settings": {"seed": 7, "until": None, "parallel": True},
        "games": 120,
        "design": "Every pair meets about equally often.",
        "notes": ["3 games had fallback moves"],
        "measures": [
            {
                "name": "efficiency",
                "title": "Information per question",
                "unit": "share",
                "better": "higher",
                "about": "Bits gained over bits that could be gained.",
            }
        ],
        "players": [player(name, place) for place, name in enumerate(names)],
        "pairs": [{"first": names[0], "second": names[-1], "games": 60, "ahead": estimate(0.72)}],
    }


def evaluation(first: str = "bot:detective", second: str = "bot:novice") -> dict[str, Any]:
    report = tournament((first, second))
    del report["pairs"]
    return report | {
        "kind": "eval",
        "comparison": {
            "player": first,
            "baseline": second,
            "deals": 100,
            "difference": estimate(0.31),
            "games_needed": 46,
            "measures": {"efficiency": estimate(0.1, 0.02)},
        },
        "sequential": {
            "of": "difference",
            "estimate": estimate(0.6, 0.03),
            "target": 0.03,
            "reached": True,
        },
    }


def analysis() -> dict[str, Any]:
    report = tournament()
    unrated = [{**each, "rating": {}, "rank": {}} for each in report["players"]]
    return report | {"kind": "analysis", "players": unrated, "pairs": []}


class Page(HTMLParser):
    """A page as a browser would read it: elements, attributes, and the text that is seen."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.pieces: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(key, value or "") for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.pieces).split())

    def count(self, tag: str) -> int:
        return self.tags.count(tag)


def page_of(report: dict[str, Any], folder: Path) -> Page:
    path = folder / "sheet.html"
    write_html(document(Report.model_validate(report)), path)
    return Page(path.read_text(encoding="utf-8"))


def assert_harmless(page: Page) -> None:
    """No script, nothing that could start one, and nothing that asks another host."""
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "header", "section"}
    allowed |= {"h1", "h2", "p", "span", "bdi", "ul", "ol", "li", "dl", "dt", "dd", "div", "br"}
    allowed |= {"table", "thead", "tbody", "tr", "th", "td", "sup", "strong", "figure"}
    allowed |= {"figcaption", "details", "summary", "svg", "g", "defs", "path", "use", "text"}
    assert set(page.tags) <= allowed | {"clippath", "rect"}
    for key, value in page.attributes:
        assert not key.startswith("on"), key
        assert key not in {"src", "srcset", "action", "formaction", "background", "data", "xmlns"}
        if key in {"href", "xlink:href"}:
            assert value.startswith("#"), value
        if key == "style":
            assert re.fullmatch(r"[-\w#%:;,.() ]*", value), value
            assert "url(" not in value, value
        if key == "clip-path":
            assert re.fullmatch(r"url\(#[\w-]+\)", value), value
    styles = re.findall(r"<style>(.*?)</style>", page.source, re.DOTALL)
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in (
        page.attributes
    )


@pytest.mark.parametrize(
    "report", [tournament(), evaluation(), analysis()], ids=lambda r: r["kind"]
)
def test_each_kind_has_its_results_and_nothing_harmful(
    report: dict[str, Any], tmp_path: Path
) -> None:
    page = page_of(report, tmp_path)
    assert page.source == page_of(report, tmp_path).source, "equal reports have equal bytes"
    assert_harmless(page)
    assert "4 players · classic · 120 games" in page.text and "no open, limit 3" in page.text
    for said in ["bot:detective", "3 games had fallback moves", "Information per question"]:
        assert said in page.text
    assert "Bits gained over bits that could be gained." in page.text
    assert "unheard" in page.text  # A measure that the report does not explain is shown as well.
    assert "10 garbled" in page.text
    assert "1,234,567" in page.text
    assert ("role", "img") in page.attributes


def test_a_tournament_has_ratings_pairs_and_seats(tmp_path: Path) -> None:
    page = page_of(tournament(), tmp_path)
    assert "bot:detective leads with a rating of 1600 [1565, 1635]." in page.text
    assert "The 95 % interval of its rank is 1 to 2." in page.text
    assert page.count("svg") == 1
    for said in ["72 %", "1 [1, 2]"]:
        assert said in page.text


def test_an_evaluation_says_the_paired_difference(tmp_path: Path) -> None:
    page = page_of(evaluation(), tmp_path)
    # The interval of the sequence, since the games decided when to stop.
    said = "bot:detective wins more often than bot:novice: +60 points [+57, +63] in 100 deals"
    assert page.text.count(said) == 1
    assert (
        page.source.count("<bdi>bot:detective</bdi> wins more often than <bdi>bot:novice</bdi>")
        == 1
    )
    for said in [
        "+31 points [+21, +41] in 100 deals that both played in the same seats",
        "; about 46 deals are enough for a difference this large.",
    ]:
        assert said in page_of(evaluation() | {"sequential": None}, tmp_path).text
    assert "(target ± 0.03" in page.text


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the texts of a report stand."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def poisoned(report: dict[str, Any], poison: str) -> dict[str, Any]:
    """Every text replaced, but the two whose words the format fixes; keys of free words too."""
    report = copy.deepcopy(report)
    for *path, last in places(report):
        if last not in {"kind", "better", "name", "of"}:
            inner: Any = report
            for step in path:
                inner = inner[step]
            inner[last] = poison
    report["options"][poison] = poison
    report["settings"][poison] = {poison: [poison]}
    for each in report["players"]:
        each["replies"]["failures"] = {poison: 3}
        each["measures"][poison] = estimate(1.0)
        each["series"][poison] = each["series"]["entropy"]
    return report


@pytest.mark.parametrize("poison", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_text(poison: str, tmp_path: Path) -> None:
    page = page_of(poisoned(evaluation() | tournament(), poison), tmp_path)
    assert_harmless(page)
    shown = poison.encode("utf-8", "replace").decode()
    shown = "".join(c if c.isprintable() else " " for c in shown)
    assert "".join(shown[:30].split()) in "".join(page.text.split())
    assert "\u202e" not in page.source


@pytest.mark.parametrize("kind", ["tournament", "eval", "analysis"])
def test_a_report_may_have_nobody(kind: str, tmp_path: Path) -> None:
    page = page_of({"kind": kind, "game": "kuhn_poker", "players": []}, tmp_path)
    assert_harmless(page)
    assert "No player has been measured yet." in page.text
    assert page.count("svg") == page.count("table") == 0


@pytest.mark.parametrize(
    "part", sorted((evaluation() | tournament()).keys() - {"kind", "game", "players"})
)
def test_any_part_may_be_missing(part: str, tmp_path: Path) -> None:
    whole = evaluation() | tournament()
    # One player is enough here, where many pages are made.
    whole["players"] = [player("bot:detective")]
    without = page_of({key: each for key, each in whole.items() if key != part}, tmp_path)
    assert without.source != page_of(whole, tmp_path).source


def test_numbers_that_are_none_or_not_finite_are_left_out(tmp_path: Path) -> None:
    report = evaluation()
    nothing = {"value": None, "low": None, "high": None, "n": 0}
    report["comparison"]["difference"] = nothing
    report["sequential"]["estimate"] = nothing
    first, second = report["players"]
    first |= {"rating": nothing, "rank": nothing, "win_rate": {"value": math.nan, "n": 3}}
    second["rating"] = {"value": 1500, "low": -math.inf, "high": 1e300, "n": 1}
    first["series"]["entropy"] = {"1": nothing, "2": estimate(3.0, 0.0)}
    page = page_of(report, tmp_path)
    assert_harmless(page)
    assert "have not played a common deal yet" in page.text
    assert not re.search(r"\b(nan|inf|None)\b", page.text)


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    for path, reason in [
        (tmp_path / "nowhere" / "sheet.html", "No such file"),
        (tmp_path / "file" / "sheet.html", "Not a directory"),
        (tmp_path / "folder", "Is a directory"),
    ]:
        with pytest.raises(ArenaError, match=f"cannot write {re.escape(str(path))}: {reason}"):
            write_html(document(Report.model_validate(tournament())), path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


def test_without_the_extra_its_name_is_told_before_anything_is_played(tmp_path: Path) -> None:
    program = (
        "import sys; from importlib import util; found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'jinja2' else found(name, *more)\n"
        "from arena.cli import run\n"
        "sys.exit(run(['eval', 'kuhn_poker', '--player', 'bot:random', '--html', 'x.html']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.search(r"'jinja2', which is not installed: pip install .*\[web\]'", done.stderr)
    assert not list(tmp_path.iterdir())
