"""Reports as tables, for a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from arena.core.json import Json
from arena.core.text import counted

if TYPE_CHECKING:
    from rich.table import Table

Report = Mapping[str, Json]

LARGE, MANY_DIGITS = 100, 10_000
"""From `LARGE` on numbers have no decimals, from `MANY_DIGITS` on commas."""


WHOLE, WHOLE_STACKED = 24, 16
"""Characters of a cell that is not broken: a number with its interval, beside it or below it."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A grid's cells, and how wide its columns are."""

    rows: Sequence[Sequence[str]]
    widths: Sequence[int | None]
    """None for names and sentences, which are broken and take what is left."""
    total: int
    dense: bool

    @staticmethod
    def of(
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        whole: int,
        broken: bool,
        dense: bool = False,
    ) -> _Fitted:
        """`broken` headings stand in several lines; what is longer than `whole` is no number."""
        widths, total = list[int | None](), 0
        for place, heading in enumerate(headings):
            longest = _longest(line for row in rows for line in row[place].split("\n"))
            wide = max(longest, min(_longest(heading.split() if broken else [heading]), whole))
            widths.append(wide if place and longest <= whole else None)
            total += min(wide, whole) + BETWEEN
        return _Fitted(rows, widths, total, dense)


BETWEEN = 3
"""Characters from one column to the next."""


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text: a title, headings, rows."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        aligned = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = [self.headings, aligned, *self.rows]
        table = "\n".join(f"| {' | '.join(map(_markdown, line))} |" for line in lines)
        return f"**{_markdown(self.title)}**\n\n{table}\n"

    def rich(self, width: int) -> Table:
        """For a terminal so wide. Numbers stay whole: where room is short, headings are broken, and
        then intervals stand below their values."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        fitted = self._fitted(width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=fitted.dense)
        for place, wide in enumerate(fitted.widths):
            side: Literal["left", "right"] = "right" if place else "left"
            heading = Text(self.headings[place])
            table.add_column(heading, justify=side, overflow="fold", width=wide)
        for row in fitted.rows:
            table.add_row(*map(Text, row))
        return table

    def _fitted(self, width: int) -> _Fitted:
        roomy = _Fitted.of(self.headings, self.rows, WHOLE, broken=False)
        broken = _Fitted.of(self.headings, self.rows, WHOLE, broken=True)
        stacked = [[cell.replace(" [", "\n[") for cell in row] for row in self.rows]
        dense = _Fitted.of(self.headings, stacked, WHOLE_STACKED, broken=True, dense=True)
        return next((each for each in (roomy, broken) if each.total <= width), dense)


def _markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def grids(report: Report, beside: int = 5) -> Iterator[Grid]:
    """The tables of a report, most important first; `beside` players in one of measures."""
    yield leaderboard(report)
    if report.get("comparison"):
        yield comparison(report)
    if report["measures"]:
        yield from measures(report, beside)
    if report.get("pairs"):
        yield pairs(report)
    if report.get("seats"):
        yield seats(report)
    if any(player["replies"]["attempts"] for player in report["players"]):
        yield replies(report)


def leaderboard(report: Report) -> Grid:
    """Who won how much; in a tournament by rating."""
    players = report["players"]
    rated = any("rating" in player for player in players)
    unclean = any(player["clean"]["seats"] < player["seats"] for player in players)
    several = any(player["games"] < player["seats"] for player in players)
    scores = any(p["mean_return"]["value"] != p["win_rate"]["value"] for p in players)
    columns = {"player": [player["player"] for player in players]}
    if rated:
        columns["rating"] = [number(player["rating"], 0) for player in players]
        columns["rank"] = [number(player["rank"], 0) for player in players]
    columns["games"] = [str(player["games"]) for player in players]
    if several:
        columns["seats"] = [str(player["seats"]) for player in players]
    columns["won"] = [percent(player["win_rate"]) for player in players]
    if scores:
        columns["mean return"] = [number(player["mean_return"], 2) for player in players]
    if unclean:
        columns["clean"] = [str(player["clean"]["seats"]) for player in players]
        columns["won of these"] = [percent(player["clean"]["win_rate"]) for player in players]
        if rated:
            columns["rating by these"] = [number(p["clean_rating"], 0) for p in players]
    title = (
        f"{name_of(report)}: {counted(report['games'], 'game')}{_opponents(report)}; 95 % intervals"
    )
    return Grid(title, list(columns), list(zip(*columns.values(), strict=True)))


def _opponents(report: Report) -> str:
    return f" against {', '.join(report['against'])}" if report.get("against") else ""


def name_of(report: Report) -> str:
    """The game and its options in a few words."""
    options = report["options"]
    words = [report["game"], options.get("variant")]
    if "players" in options:
        words.append(f"{options['players']} players")
    return " ".join(word for word in words if word)


def comparison(report: Report) -> Grid:
    """Player and baseline on the same deals."""
    found = report["comparison"]
    rows = [("games won", percent(found["difference"], signed=True))]
    if found["clean_difference"]["n"] < found["deals"]:
        label = f"… in the {found['clean_difference']['n']} clean pairs"
        rows.append((label, percent(found["clean_difference"], signed=True)))
    for measure in report["measures"]:
        if measure["name"] in found["measures"]:
            value = show(measure, found["measures"][measure["name"]], signed=True)
            rows.append((_title(measure), value))
    deals = counted(found["deals"], "deal")
    title = f"{found['player']} − {found['baseline']}, {deals} in the same seats"
    return Grid(title, ["measure", "difference"], rows)


def measures(report: Report, beside: int) -> Iterator[Grid]:
    """What the exact posterior, and the providers, say; `beside` players per table."""
    players = report["players"]
    shown = [m for m in report["measures"] if any(m["name"] in p["measures"] for p in players)]

    def cell(player: Report, measure: Report) -> str:
        estimate = player["measures"].get(measure["name"])
        return show(measure, estimate) if estimate else ""

    games = counted(report["scored"], "game")
    scored = f", {games} scored by the exact posterior" if report["scored"] else ""
    title = f"Measures{scored}; ↑ more is better"
    for first in range(0, len(players), beside):
        some = players[first : first + beside]
        headings = ["measure", *(player["player"] for player in some)]
        rows = [[_title(m), *(cell(p, m) for p in some)] for m in shown]
        errors = [player["calibration_error"] for player in some]
        if any(error is not None for error in errors):
            rows.append(["calibration error ↓", *(_digits(e, 3, signed=False) for e in errors)])
        yield Grid(title, headings, rows)


def _title(measure: Report) -> str:
    arrow = {"higher": " ↑", "lower": " ↓", None: ""}[measure["better"]]
    told = measure["unit"] == "share" or measure["title"] in measure["unit"]
    told = told or measure["unit"] in measure["title"]
    unit = "" if told else f", {measure['unit']}"
    return f"{measure['title']}{unit}{arrow}"


def pairs(report: Report) -> Grid:
    """Row against column: how often it finished ahead, and in how many games they met."""
    names = [player["player"] for player in report["players"]]
    found = {(pair["first"], pair["second"]): pair for pair in report["pairs"]}

    def cell(first: str, second: str) -> str:
        pair = found.get((first, second))
        if not pair or not pair["games"]:
            return ""
        return f"{100 * pair['ahead']['value']:.0f} % of {pair['games']}"

    rows = [[first, *(cell(first, second) for second in names)] for first in names]
    return Grid(
        "Row ahead of column, ties half, of the games in which both sat", ["", *names], rows
    )


def seats(report: Report) -> Grid:
    rows = [(f"seat {each['seat']}", number(each["effect"], 0)) for each in report["seats"]]
    return Grid("What a seat is worth", ["seat", "rating points"], rows)


def replies(report: Report) -> Grid:
    """What models answered, and what that cost."""
    headings = ["player", "replies", "legal", "fallbacks", "failures", "cost per game"]
    rows = []
    for player in report["players"]:
        found, cost = player["replies"], player["usage"]["cost"]
        if not found["attempts"]:
            continue
        failures = ", ".join(f"{count} {word}" for word, count in found["failures"].items())
        legal = f"{100 * found['legal'] / found['attempts']:.1f} %"
        price = "unknown" if cost is None else f"${cost:.4f}"
        attempts = str(found["attempts"])
        rows.append((player["player"], attempts, legal, str(found["fallbacks"]), failures, price))
    return Grid("Replies of models", headings, rows)


def show(measure: Report, estimate: Report, signed: bool = False) -> str:
    """An estimate in the measure's unit."""
    if measure["unit"] == "share":
        return percent(estimate, signed)
    return number(estimate, 4 if measure["name"] == "cost" else 2, signed)


def percent(estimate: Report, signed: bool = False) -> str:
    """`54 % [48, 60]`; a difference in points: `+12 points [+3, +21]`; of nothing, a dash."""
    scaled = {
        key: None if estimate[key] is None else 100 * estimate[key]
        for key in ("value", "low", "high")
    }
    text = number(scaled, 1 if estimate["n"] >= 1000 else 0, signed)
    value, _, rest = text.partition(" ")
    return value if value == "–" else f"{value} {'points' if signed else '%'} {rest}".rstrip()


def number(estimate: Report, digits: int, signed: bool = False) -> str:
    """`0.81 [0.78, 0.84]`; an end that is not known is a dash."""
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    if value is not None and abs(value) >= LARGE:
        digits = 0
    if value is None or (low is None and high is None):
        return _digits(value, digits, signed)
    low, high = _digits(low, digits, signed), _digits(high, digits, signed)
    return f"{_digits(value, digits, signed)} [{low}, {high}]"


def _digits(value: float | None, digits: int, signed: bool) -> str:
    if value is None:
        return "–"
    if not round(value, digits):  # A rounded nothing has no sign.
        return f"{0:.{digits}f}"
    comma = "," if abs(value) >= MANY_DIGITS else ""
    return f"{value:{'+' if signed else ''}{comma}.{digits}f}".replace("-", "−")
