"""Reports as tables, for a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.observation import Json

if TYPE_CHECKING:
    from rich.table import Table

Report = Mapping[str, Json]

ROOMY, WIDE = 2, 5
"""Up to `ROOMY` players the measures have whole intervals; `WIDE` fit beside each other."""


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

    def rich(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
        for place, heading in enumerate(self.headings):
            table.add_column(Text(heading), justify="right" if place else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def grids(report: Report) -> Iterator[Grid]:
    """The tables of a report, most important first."""
    yield leaderboard(report)
    if report.get("comparison"):
        yield comparison(report)
    if report["measures"]:
        yield from measures(report)
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
    unclean = any(player["clean"]["games"] < player["games"] for player in players)
    scores = any(p["mean_return"]["value"] != p["win_rate"]["value"] for p in players)
    columns = {"player": [player["player"] for player in players]}
    if rated:
        columns["rating"] = [number(player["rating"], 0) for player in players]
        columns["rank"] = [number(player["rank"], 0) for player in players]
    columns["games"] = [str(player["games"]) for player in players]
    columns["won"] = [percent(player["win_rate"]) for player in players]
    if scores:
        columns["mean return"] = [number(player["mean_return"], 2) for player in players]
    if unclean:
        columns["clean games"] = [str(player["clean"]["games"]) for player in players]
        columns["won of these"] = [percent(player["clean"]["win_rate"]) for player in players]
        if rated:
            columns["rating by these"] = [number(p["clean_rating"], 0) for p in players]
    title = f"{name_of(report)}, {report['games']} games; 95 % intervals"
    return Grid(title, list(columns), list(zip(*columns.values(), strict=True)))


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
    title = f"{found['player']} − {found['baseline']}, {found['deals']} deals in the same seats"
    return Grid(title, ["measure", "difference"], rows)


def measures(report: Report) -> Iterator[Grid]:
    """What the exact posterior, and the providers, say of each player; a few players per table."""
    players = report["players"]
    shown = [m for m in report["measures"] if any(m["name"] in p["measures"] for p in players)]
    brief = len(players) > ROOMY

    def cell(player: Report, measure: Report) -> str:
        estimate = player["measures"].get(measure["name"])
        return show(measure, estimate, brief=brief) if estimate else ""

    title = f"Measures ({report['scored']} games scored by the exact posterior); ↑ more is better"
    for first in range(0, len(players), WIDE):
        some = players[first : first + WIDE]
        headings = ["measure", *(player["player"] for player in some)]
        yield Grid(title, headings, [[_title(m), *(cell(p, m) for p in some)] for m in shown])


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


def show(measure: Report, estimate: Report, signed: bool = False, brief: bool = False) -> str:
    """An estimate in the measure's unit."""
    if measure["unit"] == "share":
        return percent(estimate, signed, brief)
    return number(estimate, 4 if measure["name"] == "cost" else 2, signed, brief)


def percent(estimate: Report, signed: bool = False, brief: bool = False) -> str:
    """`54 % [48, 60]`; a difference in points: `+12 points [+3, +21]`."""
    scaled = {
        key: None if estimate[key] is None else 100 * estimate[key]
        for key in ("value", "low", "high")
    }
    text = number(scaled, 1 if estimate["n"] >= 1000 else 0, signed, brief)
    value, _, rest = text.partition(" ")
    return f"{value} {'points' if signed else '%'} {rest}".rstrip()


def number(estimate: Report, digits: int, signed: bool = False, brief: bool = False) -> str:
    """`0.81 [0.78, 0.84]`, in brief `0.81 ± 0.03` by the longer side; a dash is not known."""
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    if brief:
        known = value is not None and low is not None and high is not None
        half = max(value - low, high - value) if known else None
        return f"{_digits(value, digits, signed)} ± {_digits(half, digits, signed=False)}"
    low, high = _digits(low, digits, signed), _digits(high, digits, signed)
    return f"{_digits(value, digits, signed)} [{low}, {high}]"


def _digits(value: float | None, digits: int, signed: bool) -> str:
    if value is None:
        return "–"
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    # A rounded nothing has no sign.
    return text.lstrip("+-") if not float(text) else text.replace("-", "−")
