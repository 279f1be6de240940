"""A report as a document: its sections, with their tables and charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from pydantic import JsonValue

from arena.core.analysis import Measure
from arena.core.text import UNKNOWN, percentage, pluralize
from arena.evaluation.document import (
    ChartAxis,
    Document,
    Grid,
    LineChart,
    Section,
    Sentence,
    Series,
    amount,
    in_unit,
    number,
    options_in_words,
    p_text,
    par_text,
    percent,
    points_of,
    value_in_words,
)
from arena.evaluation.records import Interval
from arena.evaluation.report import (
    PairedComparison,
    PlayerReport,
    Report,
    TurnSeries,
    adjustment_text,
    headline,
    sequential_text,
)
from arena.plugins.catalog import game_title

KINDS = {"tournament": "Tournament", "eval": "Evaluation", "analysis": "Analysis"}
EVERY_PLAYER = 1000
"""Players beside each other where the width is not limited."""
ENTROPY = Measure("entropy", "Remaining entropy", "bits", "lower", "")
MIN_DEALS = 5
"""Deals that a point of a line needs to be drawn: few deals give wide intervals, which would hide
the other points."""
MAX_FACTS = 2
"""Options of the game below the title; all are among the settings."""
MOST_LINES = 7
"""Lines of one chart; the players beyond are in its table."""
TURNS = (
    "All points are about the same games: a game that the player has won counts as 0 bits from "
    "then on, and one that others have ended keeps the value of the player's last turn."
)


def document(report: Report, beside: int = EVERY_PLAYER) -> Document:
    """Return what every writer shows of a report.

    `beside` is the number of players beside each other in a table of measures.
    """
    players = report.players
    title = "Leaderboard" if report.kind == "tournament" else "Results"
    models = [player for player in players if player.replies.attempts]
    turns = list(_turns(report))
    ended = report.has_winner and any(player.outcomes.won is not None for player in players)
    given: dict[str, JsonValue] = {"options": ", ".join(options_in_words(report.options)) or None}
    given |= report.settings
    chosen = [(name, value_in_words(value)) for name, value in given.items() if value is not None]
    settings = [Grid("Settings", ["setting", "value"], chosen)] if chosen else []
    sections = (
        Section(title, [leaderboard(report)] if players else ()),
        Section("Decisions", list(measures(report, beside)) if report.listed_measures else ()),
        Section("Pairs", [pairs_of(report)] if report.pairs else ()),
        Section("Turn by turn", (), [c for c, _ in turns], [grid for _, grid in turns], TURNS),
        Section("Replies", [replies(models)] if models else ()),
        Section("Outcomes", [outcomes(report)] if ended else (), is_folded=True),
        Section("Settings", settings, is_folded=True),
    )
    return Document(
        title=_title(report),
        facts=_facts(report),
        headline=headline(report),
        notes=report.notes,
        sections=[each for each in sections if each.grids or each.charts or each.details],
        remarks=list(_remarks(report)),
        definitions=[
            f"{measure.title} ({measure.unit}): {measure.about}"
            for measure in report.listed_measures
            if measure.about  # A measure of an unknown plugin has a name only.
        ],
    )


def combined(title: str, parts: Sequence[tuple[str, Document]]) -> Document:
    """Return one document with a section for each of several, below its name."""
    answers, sections = list[Sentence](), list[Section]()
    for name, part in parts:
        answer = part.headline[0]
        prefix = Sentence.plain(f"{name}: ").template
        answers.append(Sentence(prefix + answer.template, answer.names))
        folded = [grid for each in part.sections if each.is_folded for grid in each.grids]
        details = [grid for each in part.sections for grid in each.details]
        charts = [chart for each in part.sections for chart in each.charts]
        about = " ".join([*map(str, part.headline[1:]), *part.notes, *part.remarks])
        grids = list(part.grids(explain=False))
        sections.append(Section(name, grids, charts, [*details, *folded], about))
    definitions = dict.fromkeys(text for _, part in parts for text in part.definitions)
    facts = [pluralize(len(parts), "section")]
    return Document(title, facts, answers, (), sections, definitions=list(definitions))


def _title(report: Report) -> str:
    """Return the kind of report, the game and the players."""
    title = f"{KINDS[report.kind]} · {game_title(report.game)}"
    if report.comparison is not None:
        return f"{title} · {report.comparison.player} and {report.comparison.baseline}"
    if report.kind == "eval" and report.players:
        return f"{title} · {report.players[0].player}"
    return title


def _facts(report: Report) -> list[str]:
    facts = options_in_words(report.options)[:MAX_FACTS]
    if report.games is not None:
        facts.append(pluralize(report.games, "game"))
    if report.kind != "eval" and report.players:
        facts.append(pluralize(len(report.players), "player"))
    return facts


def _remarks(report: Report) -> Iterator[str]:
    if report.sequential:
        yield sequential_text(report.sequential, report.scale)
    if report.design:
        yield f"Design: {report.design}"


# Tables


def leaderboard(report: Report) -> Grid:
    """Return the players with their returns, win rates, and ratings in a tournament.

    The difference of a player and its baseline is the last row.
    """
    players, won, scale = report.players, f"won{par_text(report.par)}", report.scale
    paired = report.comparison
    difference = [DIFFERENCE] if paired else []
    columns = {"player": [*(player.player for player in players), *difference]}

    def add(heading: str, cell: Callable[[PlayerReport], str], difference: str = "") -> None:
        columns[heading] = [*map(cell, players), *([difference] if paired else [])]

    if any(player.role for player in players):
        add("role", lambda player: player.role or "")
    if any(player.rating.value is not None for player in players):
        add("rating", lambda player: number(player.rating, 0))
        add("rank", lambda player: number(player.rank, 0))
    add("games", lambda player: str(player.games), str(paired.deals or 0) if paired else "")
    if any(player.games < player.seats for player in players):
        add("seats", lambda player: str(player.seats))
    # In a game that pays 1 to the winner and 0 to the others, the mean return is the win rate.
    returns = amount(report.difference, scale, signed=True)
    if not scale.is_win_rate:
        add(f"mean {scale.name}", lambda player: amount(player.mean_return, scale), returns)
    if report.has_winner:
        wins = percent(paired.won_difference, signed=True) if paired else ""
        add(won, lambda player: percent(player.win_rate), returns if scale.is_win_rate else wins)
    opponents = f" against {', '.join(report.against)}" if report.against else ""
    games = pluralize(report.games or 0, "game")
    words = ", ".join([report.game, *options_in_words(report.options)[:MAX_FACTS]])
    title = f"{words}: {games}{opponents}; 95 % intervals"
    return Grid(title, list(columns), list(zip(*columns.values(), strict=True)), COLUMNS)


def outcomes(report: Report) -> Grid:
    """Return the shares of games won, drawn, lost and truncated, and those with a fallback."""
    shares = ["won", "drawn", "lost", "truncated", "fallback"]
    rows = [
        [player.label, *(percentage(getattr(player.outcomes, share)) for share in shares)]
        for player in report.players
    ]
    headings = ["player", *shares[:-1], "with fallback"]
    won = f"; won{par_text(report.par)}" if report.par is not None else ""
    return Grid(f"Outcomes, in shares of each player's seats{won}", headings, rows, COLUMNS)


P, DIFFERENCE = "p", "difference"
COLUMNS = {
    P: "Probability of a difference at least this large between equal players, adjusted for the "
    "number of rows (Holm).",
    DIFFERENCE: "The player minus its baseline, on the same deals in the same seats. That of the "
    "results was chosen before the games; the others are clues.",
    "rating": "Elo points; 400 more are odds of ten to one.",
    "rank": "Place by rating, with its 95 % interval.",
    "truncated": "Share of games that were cut off at the limit of turns.",
    "with fallback": "Share of games with a move that was played for a player without a legal "
    "reply.",
}
"""Definitions of columns."""


def _with_p(
    title: str, adjustment: str, headings: list[str], rows: Sequence[Sequence[str]]
) -> Grid:
    """Return a grid without its column of p-values if none is known."""
    title = f"{title}; {adjustment}" if adjustment else title
    place = headings.index(P)
    if all(row[place] in ("", UNKNOWN) for row in rows):
        headings = headings[:place] + headings[place + 1 :]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
    return Grid(title, headings, rows)


def measures(report: Report, beside: int) -> Iterator[Grid]:
    """Yield tables of all measures, with `beside` players per table.

    The last one has the differences of a player and its baseline.
    """
    players, listed = report.players, report.listed_measures
    paired = report.comparison
    games = pluralize(report.scored, "game")
    scored = f", {games} scored by the exact posterior" if report.scored else ""
    # One interval in twenty misses the truth: a reader who searches many finds some by chance.
    title = f"Measures{scored}; ↑ more is better; exploratory, each interval for itself"
    abouts = COLUMNS | {_heading(m): m.about for m in listed}
    for first in range(0, len(players), beside):
        some = players[first : first + beside]
        rows = [[_heading(m), *(_of_player(p, m) for p in some)] for m in listed]
        grid = Grid(title, ["measure", *(player.label for player in some)], rows, abouts)
        is_last = first + beside >= len(players)
        yield _with_differences(grid, paired, listed) if paired and is_last else grid


def _of_player(player: PlayerReport, measure: Measure) -> str:
    interval = player.measures.get(measure.name)
    return measure_text(measure, interval) if interval else ""


def _with_differences(grid: Grid, paired: PairedComparison, listed: Sequence[Measure]) -> Grid:
    """Return a table of measures with the difference of each, and its p-value."""
    rows = []
    for row, measure in zip(grid.rows, listed, strict=True):
        cells = ["", ""]
        if measure.name in paired.measures:
            size = measure_text(measure, paired.measures[measure.name], signed=True)
            cells = [size, p_text(paired.adjusted_p.get(measure.name))]
        rows.append([*row, *cells])
    others = adjustment_text(len(paired.adjusted_p), len(paired.measures))
    headings = [*grid.headings, DIFFERENCE, P]
    return replace(_with_p(grid.title, others, headings, rows), abouts=grid.abouts)


def _heading(measure: Measure) -> str:
    """Return title, unit and direction; the unit only if the title or the cells do not show it."""
    arrow = {"higher": " ↑", "lower": " ↓", None: ""}[measure.better]
    title, unit = measure.title, measure.unit
    redundant = unit == "share" or title in unit or unit in title
    return f"{title}{arrow}" if redundant else f"{title}, {unit}{arrow}"


def measure_text(measure: Measure, interval: Interval, signed: bool = False) -> str:
    """Return a value of a measure; prices of single games need four decimals."""
    return in_unit(measure.unit, interval, 4 if measure.name == "cost" else 2, signed)


def pairs_of(report: Report) -> Grid:
    """Return each pair, the better player first: ratings, and the games in which both sat."""
    names = [player.player for player in report.players]
    results = {(pair.first, pair.second): pair for pair in report.pairs}
    ordered = [results[pair] for pair in combinations(names, 2) if pair in results]
    rows = [
        [
            f"{pair.first} − {pair.second}",
            number(pair.difference, 0, signed=True),
            p_text(pair.adjusted_p),
            percent(pair.ahead),
            str(pair.games),
        ]
        for pair in ordered
    ]
    adjusted = sum(pair.adjusted_p is not None for pair in ordered)
    others = adjustment_text(adjusted, len(rows))
    title = f"Pairs of players; first ahead{par_text(1 / 2)}"
    headings = ["pair", "rating difference", P, "first ahead, ties half", "games of both"]
    return _with_p(title, others, headings, rows)


def replies(models: Sequence[PlayerReport]) -> Grid:
    """Return the replies of models, and their failures."""
    headings = ["player", "replies", "legal", "fallbacks", "failures"]
    rows = []
    for player in models:
        counts = player.replies
        failures = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
        legal = percentage(counts.legal / counts.attempts)
        rows.append((player.label, str(counts.attempts), legal, str(counts.fallbacks), failures))
    return Grid("Replies of models", headings, rows)


# Charts


def _turns(report: Report) -> Iterator[tuple[LineChart, Grid]]:
    """Yield the measures by turn: charts, each with its numbers."""
    known = {"entropy": ENTROPY} | {measure.name: measure for measure in report.measures}
    names = {name for player in report.players for name in player.series}
    for name in sorted(names):
        if players := [player for player in report.ranked if player.line(name)]:
            yield _by_turn(known.get(name, Measure(name, name, "", None, "")), players)


def _by_turn(measure: Measure, players: Sequence[PlayerReport]) -> tuple[LineChart, Grid]:
    """Return a measure by the player's own turn, with a line per player."""
    lines = [player.line(measure.name) for player in players]
    series = [
        Series(points_of(_drawn(line)), color, marker=color)
        for color, line in enumerate(lines[:MOST_LINES])
    ]
    title = measure.title + (f" ({measure.unit})" if measure.unit else "")
    # An entropy is never negative; other bits may be.
    bounds = (0.0, math.inf) if measure is ENTROPY else measure.bounds
    better = f"; {measure.better} is better" if measure.better else ""
    names = [player.label for player in players]
    chart = LineChart(
        measure.title,
        f"by the player's own turn{better}",
        series,
        ChartAxis("own turn", whole=True, ticks=9),
        ChartAxis(title, bounds=bounds),
        names[:MOST_LINES],
    )
    rows = [
        [str(turn), *(measure_text(measure, line[turn]) if turn in line else "" for line in lines)]
        for turn in sorted({turn for line in lines for turn in line})
    ]
    return chart, Grid(f"{measure.title} by turn", ["turn", *names], rows)


def _drawn(line: TurnSeries) -> TurnSeries:
    return {turn: point for turn, point in line.items() if point.n >= MIN_DEALS} or line
