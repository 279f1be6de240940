"""Reports as tables, for a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from arena.core.assessment import Measure
from arena.core.text import pluralize
from arena.evaluation.output.formatting import (
    UNKNOWN,
    IntervalLike,
    amount,
    amount_range,
    decimal,
    in_unit,
    number,
    percent,
    percent_range,
)
from arena.evaluation.report import OutcomeShares, PlayerReport, Report

if TYPE_CHECKING:
    from rich.table import Table

MAX_CELL, MAX_STACKED_CELL = 24, 16
"""Widest cell that is kept on one line: a value with its interval beside it, or below it."""
COLUMN_GAP = 3


@dataclass(frozen=True, slots=True)
class _Layout:
    """The cells of a grid and the widths of its columns."""

    rows: Sequence[Sequence[str]]
    widths: Sequence[int | None]
    """None for columns of names and sentences, which are broken and take the remaining width."""
    total: int
    dense: bool

    @staticmethod
    def of(
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        max_cell: int,
        broken: bool,
        dense: bool = False,
    ) -> _Layout:
        """Measure the columns. `broken` headings take several lines.

        A column with a cell above `max_cell` characters holds text, not numbers.
        """
        widths, total = list[int | None](), 0
        for place, heading in enumerate(headings):
            longest = _longest(line for row in rows for line in row[place].split("\n"))
            wide = max(longest, min(_longest(heading.split() if broken else [heading]), max_cell))
            widths.append(wide if place and longest <= max_cell else None)
            total += min(wide, max_cell) + COLUMN_GAP
        return _Layout(rows, widths, total, dense)


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text: a title, headings, rows. The first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        aligned = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = [self.headings, aligned, *self.rows]
        table = "\n".join(f"| {' | '.join(map(_escape_markdown, line))} |" for line in lines)
        return f"**{_escape_markdown(self.title)}**\n\n{table}\n"

    def rich(self, width: int) -> Table:
        """Return the table for a terminal of this width.

        Numbers are never broken. If the width is too small, headings are broken, and if that is
        not enough, intervals are placed below their values.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        layout = self._layout(width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=layout.dense)
        for place, wide in enumerate(layout.widths):
            side: Literal["left", "right"] = "right" if place else "left"
            heading = Text(self.headings[place])
            table.add_column(heading, justify=side, overflow="fold", width=wide)
        for row in layout.rows:
            table.add_row(*map(Text, row))
        return table

    def _layout(self, width: int) -> _Layout:
        wide = _Layout.of(self.headings, self.rows, MAX_CELL, broken=False)
        broken = _Layout.of(self.headings, self.rows, MAX_CELL, broken=True)
        stacked = [[cell.replace(" [", "\n[") for cell in row] for row in self.rows]
        dense = _Layout.of(self.headings, stacked, MAX_STACKED_CELL, broken=True, dense=True)
        return next((layout for layout in (wide, broken) if layout.total <= width), dense)


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def grids(report: Report, beside: int = 5) -> Iterator[Grid]:
    """Yield the tables of a report, the most important first.

    `beside` is the number of players beside each other in a table of measures.
    """
    yield leaderboard(report)
    if any(player.outcomes.won is not None for player in report.players):
        yield outcomes(report)
    if report.comparison:
        yield comparison(report)
    if report.measures:
        yield from measures(report, beside)
    if report.pairs:
        yield pairs(report)
    if report.seats:
        yield seats(report)
    if any(player.replies.attempts for player in report.players):
        yield replies(report)


def leaderboard(report: Report) -> Grid:
    """Return the players with their returns, win rates, and ratings in a tournament."""
    players = report.players
    rated = any(player.rating.value is not None for player in players)
    columns: dict[str, list[str]] = {"player": [player.player for player in players]}

    def add(heading: str, cell: Callable[[PlayerReport], str]) -> None:
        columns[heading] = [cell(player) for player in players]

    if rated:
        add("rating", lambda player: _rating(player, report.anchor))
        add("rank", lambda player: number(player.rank, 0))
    add("games", lambda player: str(player.games))
    if any(player.games < player.seats for player in players):
        add("seats", lambda player: str(player.seats))
    # In a game that pays 1 to the winner and 0 to the others, the mean return is the win rate.
    if not report.scale.is_win_rate:
        add(f"mean {report.scale.name}", lambda player: amount(player.mean_return, report.scale))
    add("won", lambda player: percent(player.win_rate))
    if any(player.has_fallbacks for player in players):
        add("without fallback", lambda player: str(player.no_fallback.seats))
        add("bounds of won", lambda player: percent_range(player.no_fallback.bounds))
    opponents = f" against {', '.join(report.against)}" if report.against else ""
    games = pluralize(report.games or 0, "game")
    title = f"{game_name(report)}: {games}{opponents}; 95 % intervals"
    return Grid(title, list(columns), list(zip(*columns.values(), strict=True)))


def _rating(player: PlayerReport, anchor: str | None) -> str:
    """Return the rating with its interval; that of the anchor is 1500 by definition."""
    if player.player == anchor:
        return f"{decimal(player.rating.value, 0)} (anchor)"
    return number(player.rating, 0)


def outcomes(report: Report) -> Grid:
    """Return the shares of games won, drawn, lost and truncated, and those with a fallback."""
    rows = [
        [player.player, *(_percent_of_one(share, 0) for share in _shares(player.outcomes))]
        for player in report.players
    ]
    headings = ["player", "won", "drawn", "lost", "truncated", "with fallback"]
    return Grid("Outcomes, in shares of each player's seats", headings, rows)


def _shares(shares: OutcomeShares) -> tuple[float | None, ...]:
    return shares.won, shares.drawn, shares.lost, shares.truncated, shares.fallback


def game_name(report: Report) -> str:
    """Return the game and its main options in a few words."""
    options = report.options
    words = [report.game, options.get("variant")]
    if "players" in options:
        words.append(f"{options['players']} players")
    return " ".join(str(word) for word in words if word)


def comparison(report: Report) -> Grid:
    """Return the differences between player and baseline on the same deals."""
    paired = report.comparison
    assert paired is not None
    scale = report.scale
    rows = [("games won", percent(paired.difference, signed=True))]
    if not scale.is_win_rate:
        ends = f" ({scale.range_text} per game)" if scale.is_bounded else ""
        rows = [
            (f"mean {scale.name}{ends}", amount(paired.difference, scale, signed=True)),
            ("games won", percent(paired.won_difference, signed=True)),
        ]
    if any(player.has_fallbacks for player in report.players):
        bounds = amount_range(paired.fallback_bounds, scale, signed=True)
        rows.insert(1, ("… bounds without fallback moves", bounds))
    for measure in report.measures:
        if measure.name in paired.measures:
            difference = _cell(measure, paired.measures[measure.name], signed=True)
            rows.append((_heading(measure), difference))
    deals = pluralize(paired.deals or 0, "deal")
    title = f"{paired.player} − {paired.baseline}, {deals} in the same seats"
    return Grid(title, ["measure", "difference"], rows)


def measures(report: Report, beside: int) -> Iterator[Grid]:
    """Yield tables of all measures, with `beside` players per table."""
    players = report.players
    listed = [m for m in report.measures if any(m.name in p.measures for p in players)]

    def cell(player: PlayerReport, measure: Measure) -> str:
        interval = player.measures.get(measure.name)
        return _cell(measure, interval) if interval else ""

    games = pluralize(report.scored, "game")
    scored = f", {games} scored by the exact posterior" if report.scored else ""
    title = f"Measures{scored}; ↑ more is better"
    for first in range(0, len(players), beside):
        some = players[first : first + beside]
        rows = [[_heading(m), *(cell(p, m) for p in some)] for m in listed]
        errors = [player.calibration_error for player in some]
        if any(error is not None for error in errors):
            rows.append(["calibration error ↓", *(decimal(error, 3) for error in errors)])
        yield Grid(title, ["measure", *(player.player for player in some)], rows)


def _cell(measure: Measure, interval: IntervalLike, signed: bool = False) -> str:
    """Return a value of a measure; prices of single games need four decimals."""
    return in_unit(measure.unit, interval, 4 if measure.name == "cost" else 2, signed)


def _heading(measure: Measure) -> str:
    """Return title, unit and direction; the unit only if the title or the cells do not show it."""
    arrow = {"higher": " ↑", "lower": " ↓", None: ""}[measure.better]
    title, unit = measure.title, measure.unit
    redundant = unit == "share" or title in unit or unit in title
    return f"{title}{arrow}" if redundant else f"{title}, {unit}{arrow}"


def pairs(report: Report) -> Grid:
    """Return each pair, the better player first: ratings, and the games in which both sat."""
    names = [player.player for player in report.players]
    results = {(pair.first, pair.second): pair for pair in report.pairs}
    ordered = [results.get(pair) for pair in combinations(names, 2)]
    rows = [
        [
            f"{pair.first} − {pair.second}",
            number(pair.difference, 0, signed=True),
            percent(pair.ahead),
            str(pair.games),
        ]
        for pair in ordered
        if pair
    ]
    headings = ["pair", "rating difference", "first ahead, ties half", "games of both"]
    return Grid("Pairs of players", headings, rows)


def seats(report: Report) -> Grid:
    rows = [(f"seat {effect.seat}", number(effect.effect, 0)) for effect in report.seats]
    return Grid("Value of each seat", ["seat", "rating points"], rows)


def replies(report: Report) -> Grid:
    """Return the replies of models, their failures and their cost."""
    headings = ["player", "replies", "legal", "fallbacks", "failures", "cost per game"]
    rows = []
    for player in report.players:
        counts, cost = player.replies, player.usage.cost
        if not counts.attempts:
            continue
        failures = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
        legal = _percent_of_one(counts.legal / counts.attempts, 1)
        price = "unknown" if cost is None else f"${cost:.4f}"
        row = (player.player, str(counts.attempts), legal, str(counts.fallbacks), failures, price)
        rows.append(row)
    return Grid("Replies of models", headings, rows)


def _percent_of_one(share: float | None, digits: int) -> str:
    return UNKNOWN if share is None else f"{decimal(100 * share, digits)} %"
