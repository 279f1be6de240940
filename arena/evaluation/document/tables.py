"""A report as a document: its sections, with their tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from arena.core.analysis import Measure
from arena.core.text import UNKNOWN, decimal, percentage, pluralize
from arena.evaluation.document import (
    ChartAxis,
    Document,
    ForestChart,
    Grid,
    Section,
)
from arena.evaluation.document.charts import measure_text, standings, turns
from arena.evaluation.document.verdict import adjustment_text, headline, sequential_text
from arena.evaluation.formatting import (
    amount,
    amount_range,
    json_text,
    number,
    options_in_words,
    p_text,
    par_text,
    percent,
    percent_range,
)
from arena.evaluation.report import PlayerReport, Report

KINDS = {"tournament": "Tournament", "eval": "Evaluation", "analysis": "Analysis"}
EVERY_PLAYER = 1000
"""Players beside each other where the width is not limited."""


def document(report: Report, beside: int = EVERY_PLAYER) -> Document:
    """Return what every writer shows of a report.

    `beside` is the number of players beside each other in a table of measures.
    """
    sections = (
        _results(report),
        _differences(report, beside),
        _measures(report, beside),
        _pairs(report),
        _seats(report),
        _replies(report),
        turns(report),
        _settings(report),
    )
    return Document(
        title=_title(report),
        facts=_facts(report),
        headline=headline(report),
        notes=report.notes,
        sections=[section for section in sections if section],
        remarks=list(_remarks(report)),
        definitions=[
            f"{measure.title} ({measure.unit}): {measure.about}"
            for measure in report.listed_measures
            if measure.about  # A measure of an unknown plugin has a name only.
        ],
    )


def _title(report: Report) -> str:
    """Return the kind of report, the game and the players."""
    title = f"{KINDS[report.kind]} · {report.game}"
    if report.comparison is not None:
        return f"{title} · {report.comparison.player} and {report.comparison.baseline}"
    if report.kind == "eval" and report.players:
        return f"{title} · {report.players[0].player}"
    return title


def _facts(report: Report) -> list[str]:
    facts = options_in_words(report.options)
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


# Sections


def _results(report: Report) -> Section | None:
    if not report.players:
        return None
    grids = [leaderboard(report)]
    if report.has_winner and any(player.outcomes.won is not None for player in report.players):
        grids.append(outcomes(report))
    title = "Leaderboard" if report.kind == "tournament" else "Results"
    return Section(title, grids, list(standings(report)))


def _differences(report: Report, beside: int) -> Section | None:
    if report.comparisons:
        return Section("Differences", list(differences(report, beside)))
    return Section("Difference", [comparison(report)]) if report.comparison else None


def _measures(report: Report, beside: int) -> Section | None:
    return Section("Measures", list(measures(report, beside))) if report.listed_measures else None


def _pairs(report: Report) -> Section | None:
    return Section("Pairs", [pairs(report)]) if report.pairs else None


def _seats(report: Report) -> Section | None:
    if not report.seats:
        return None
    rows = [(f"Seat {effect.seat}", effect.effect) for effect in report.seats]
    axis = ChartAxis("effect of the seat")
    chart = ForestChart("Seats", "value of each seat, with 95 % intervals", rows, axis, 0.0)
    drawn = any(interval.value is not None for _, interval in rows)
    return Section("Seats", [seats(report)], [chart] if drawn else [])


def _replies(report: Report) -> Section | None:
    models = [player for player in report.players if player.replies.attempts]
    return Section("Replies and cost", [replies(models)], (), [usage(models)]) if models else None


def _settings(report: Report) -> Section | None:
    details = []
    if report.balance.games.high:
        balance = report.balance
        ranges = {
            "games of a player": balance.games,
            "meetings of a pair": balance.meetings,
            "games of a player in a seat": balance.held,
        }
        rows = [[name, str(each)] for name, each in ranges.items()]
        details.append(Grid("Balance of the schedule", ["count", "from, to"], rows))
    given = {name: value for name, value in report.settings.items() if value is not None}
    if given:
        rows = [[name, json_text(value)] for name, value in given.items()]
        details.append(Grid("Settings", ["setting", "value"], rows))
    return Section("Design", details=details) if details else None


# Tables


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
    shares = ["won", "drawn", "lost", "truncated", "fallback"]
    rows = [
        [player.label, *(percentage(getattr(player.outcomes, share)) for share in shares)]
        for player in report.players
    ]
    headings = ["player", *shares[:-1], "with fallback"]
    won = f"; won{par_text(report.par)}" if report.par is not None else ""
    return Grid(f"Outcomes, in shares of each player's seats{won}", headings, rows)


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
            difference = measure_text(measure, paired.measures[measure.name], signed=True)
            p = p_text(paired.adjusted_p.get(measure.name))
            rows.append((_heading(measure), difference, p))
    deals = pluralize(paired.deals or 0, "deal")
    title = f"{paired.player} − {paired.baseline}, {deals} in the same seats"
    others = adjustment_text(len(paired.adjusted_p), len(paired.measures))
    return _with_p(title, others, ["measure", "difference", P], rows)


def differences(report: Report, beside: int) -> Iterator[Grid]:
    """Yield tables of the differences between scaffolds, with `beside` pairs per table."""
    scale, pairs = report.scale, report.comparisons
    name = "games won" if scale.is_win_rate else f"mean {scale.name}"
    deals = pluralize(pairs[0].deals or 0, "deal")
    others = adjustment_text(len(pairs) - 1, len(pairs))
    title = f"Differences between scaffolds, {deals} in the same seats; {others}"
    for first in range(0, len(pairs), beside):
        some = pairs[first : first + beside]
        p_values = (pair.adjusted_p.get("difference") for pair in some)
        rows = [
            [name, *(amount(pair.difference, scale, signed=True) for pair in some)],
            [P, *("primary" if p is None else p_text(p) for p in p_values)],
        ]
        for measure in report.measures:
            if any(measure.name in pair.measures for pair in some):
                cells = (pair.measures.get(measure.name) for pair in some)
                shown = (measure_text(measure, cell, signed=True) if cell else "" for cell in cells)
                rows.append([_heading(measure), *shown])
        yield Grid(title, ["measure", *(" − ".join(p.scaffolds) for p in some)], rows)


P = "p"


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
    """Yield tables of all measures, with `beside` players per table."""
    players, listed = report.players, report.listed_measures

    def of_player(player: PlayerReport, measure: Measure) -> str:
        interval = player.measures.get(measure.name)
        return measure_text(measure, interval) if interval else ""

    games = pluralize(report.scored, "game")
    scored = f", {games} scored by the exact posterior" if report.scored else ""
    # One interval in twenty misses the truth: a reader who searches many finds some by chance.
    title = f"Measures{scored}; ↑ more is better; exploratory, each interval for itself"
    for first in range(0, len(players), beside):
        some = players[first : first + beside]
        rows = [[_heading(m), *(of_player(p, m) for p in some)] for m in listed]
        errors = [player.calibration_error for player in some]
        if any(error is not None for error in errors):
            rows.append(["calibration error ↓", *(decimal(error, 3) for error in errors)])
        yield Grid(title, ["measure", *(player.label for player in some)], rows)


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


def seats(report: Report) -> Grid:
    rows = [(f"seat {effect.seat}", number(effect.effect, 0)) for effect in report.seats]
    return Grid("Value of each seat", ["seat", "rating points"], rows)


def replies(models: Sequence[PlayerReport]) -> Grid:
    """Return the replies of models, their failures and their cost."""
    headings = ["player", "replies", "legal", "fallbacks", "failures", "cached", "cost per game"]
    rows = []
    for player in models:
        counts, usage, cost = player.replies, player.usage, player.usage.cost
        failures = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
        legal = percentage(counts.legal / counts.attempts)
        price = "unknown" if cost is None else f"${cost:.4f}"
        cached = percentage((usage.cached_tokens or 0) / max(usage.prompt_tokens or 0, 1))
        counted = (str(counts.attempts), legal, str(counts.fallbacks), failures)
        rows.append((player.label, *counted, cached, price))
    return Grid("Replies of models", headings, rows)


def usage(models: Sequence[PlayerReport]) -> Grid:
    """Return tokens and seconds of models."""
    headings = ["player", "prompt tokens", "completion tokens", "seconds per reply"]
    rows = [
        [
            player.label,
            decimal(player.usage.prompt_tokens, 0),
            decimal(player.usage.completion_tokens, 0),
            decimal(player.usage.seconds_per_reply, 2),
        ]
        for player in models
    ]
    return Grid("Tokens per game, and time", headings, rows)
