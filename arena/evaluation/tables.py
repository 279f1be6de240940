"""The tables of a report, for a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from arena.core.analysis import Measure
from arena.core.text import UNKNOWN, decimal, percentage, pluralize
from arena.evaluation.formatting import (
    Grid,
    amount,
    amount_range,
    in_unit,
    number,
    p_text,
    par_text,
    percent,
    percent_range,
)
from arena.evaluation.records import Interval
from arena.evaluation.report import OutcomeShares, PlayerReport, Report
from arena.evaluation.verdict import adjustment_text


def grids(report: Report, beside: int = 5) -> Iterator[Grid]:
    """Yield the tables of a report, the most important first.

    `beside` is the number of players beside each other in a table of measures.
    """
    yield leaderboard(report)
    if report.has_winner and any(player.outcomes.won is not None for player in report.players):
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
    players, won = report.players, f"won{par_text(report.par)}"
    rated = any(player.rating.value is not None for player in players)
    columns: dict[str, list[str]] = {"player": [player.player for player in players]}

    def add(heading: str, cell: Callable[[PlayerReport], str]) -> None:
        columns[heading] = [cell(player) for player in players]

    if any(player.role for player in players):
        add("role", lambda player: player.role or "")
    if rated:
        add("rating", lambda player: _rating(player, report.anchor))
        add("rank", lambda player: number(player.rank, 0))
    add("games", lambda player: str(player.games))
    if any(player.games < player.seats for player in players):
        add("seats", lambda player: str(player.seats))
    # In a game that pays 1 to the winner and 0 to the others, the mean return is the win rate.
    if not report.scale.is_win_rate:
        add(f"mean {report.scale.name}", lambda player: amount(player.mean_return, report.scale))
    if report.has_winner:
        add(won, lambda player: percent(player.win_rate))
    if any(player.has_fallbacks for player in players):
        add("without fallback", lambda player: str(player.no_fallback.seats))
        if report.has_winner:
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
        [player.label, *(percentage(share) for share in _shares(player.outcomes))]
        for player in report.players
    ]
    headings = ["player", "won", "drawn", "lost", "truncated", "with fallback"]
    won = f"; won{par_text(report.par)}" if report.par is not None else ""
    return Grid(f"Outcomes, in shares of each player's seats{won}", headings, rows)


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
    """Return the differences between player and baseline on the same deals, the primary first."""
    paired = report.comparison
    assert paired is not None
    scale = report.scale
    primary = amount(report.difference, scale, signed=True)
    rows = [("primary: games won", primary, "")]
    if not scale.is_win_rate:
        ends = f" ({scale.range_text} per game)" if scale.is_bounded else ""
        won = percent(paired.won_difference, signed=True)
        rows = [(f"primary: mean {scale.name}{ends}", primary, "")]
        if report.has_winner:
            p = p_text(paired.adjusted_p.get("won_difference"))
            rows.append(("games won", won, p))
    if any(player.has_fallbacks for player in report.players):
        bounds = amount_range(paired.fallback_bounds, scale, signed=True)
        rows.insert(1, ("… bounds without fallback moves", bounds, ""))
    for measure in report.measures:
        if measure.name in paired.measures:
            difference = _cell(measure, paired.measures[measure.name], signed=True)
            p = p_text(paired.adjusted_p.get(measure.name))
            rows.append((_heading(measure), difference, p))
    deals = pluralize(paired.deals or 0, "deal")
    title = f"{paired.player} − {paired.baseline}, {deals} in the same seats"
    others = adjustment_text(len(paired.adjusted_p), len(paired.measures))
    return _with_p(f"{title}; {others}" if others else title, ["measure", "difference", P], rows)


P = "p"


def _with_p(title: str, headings: list[str], rows: Sequence[Sequence[str]]) -> Grid:
    """Return a grid without its column of p-values if none is known."""
    place = headings.index(P)
    if all(row[place] in ("", UNKNOWN) for row in rows):
        headings = headings[:place] + headings[place + 1 :]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
    return Grid(title, headings, rows)


def measures(report: Report, beside: int) -> Iterator[Grid]:
    """Yield tables of all measures, with `beside` players per table."""
    players = report.players
    listed = [m for m in report.measures if any(m.name in p.measures for p in players)]

    def cell(player: PlayerReport, measure: Measure) -> str:
        interval = player.measures.get(measure.name)
        return _cell(measure, interval) if interval else ""

    games = pluralize(report.scored, "game")
    scored = f", {games} scored by the exact posterior" if report.scored else ""
    # One interval in twenty misses the truth: a reader who searches many finds some by chance.
    title = f"Measures{scored}; ↑ more is better; exploratory, each interval for itself"
    for first in range(0, len(players), beside):
        some = players[first : first + beside]
        rows = [[_heading(m), *(cell(p, m) for p in some)] for m in listed]
        errors = [player.calibration_error for player in some]
        if any(error is not None for error in errors):
            rows.append(["calibration error ↓", *(decimal(error, 3) for error in errors)])
        yield Grid(title, ["measure", *(player.label for player in some)], rows)


def _cell(measure: Measure, interval: Interval, signed: bool = False) -> str:
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
            p_text(pair.adjusted_p),
            percent(pair.ahead),
            str(pair.games),
        ]
        for pair in ordered
        if pair
    ]
    adjusted = sum(pair is not None and pair.adjusted_p is not None for pair in ordered)
    others = adjustment_text(adjusted, len(rows))
    title = f"Pairs of players; first ahead{par_text(1 / 2)}"
    headings = ["pair", "rating difference", P, "first ahead, ties half", "games of both"]
    return _with_p(f"{title}; {others}" if others else title, headings, rows)


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
        legal = percentage(counts.legal / counts.attempts)
        price = "unknown" if cost is None else f"${cost:.4f}"
        row = (player.label, str(counts.attempts), legal, str(counts.fallbacks), failures, price)
        rows.append(row)
    return Grid("Replies of models", headings, rows)
