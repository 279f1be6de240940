"""A report as text: its result and the limits of the method in sentences, its numbers in tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from arena.core.analysis import Measure
from arena.core.outcome import ReturnScale
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
from arena.evaluation.report import (
    PairedComparison,
    PlayerReport,
    Report,
    SequentialResult,
)

TRUNCATED_LIMIT = 0.1
"""Share of truncated games above which a result says so. Played to the end, they could move a mean
return by a tenth of its range: as much as the whole 95 % interval of a win rate in 400 games."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with `{}` for each name of a player.

    Names are kept apart because they come from outside and may be written from right to left: a
    page must escape and isolate them.
    """

    template: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.template.format(*self.names)


def sentences(report: Report) -> Iterator[str]:
    """Yield all sentences of a report as text, the most important first."""
    yield from map(str, headline(report))
    yield from report.notes
    if report.sequential:
        yield sequential_text(report.sequential, report.scale)
    if report.design:
        yield f"Design: {report.design}"


def headline(report: Report) -> list[Sentence]:
    """Return the result in sentences; the first one is the answer.

    It is called primary, except in an analysis: it was chosen before the games, so it is not
    adjusted for the other comparisons.
    """
    unmeasured = [player for player in report.players if player.is_unmeasured]
    if unmeasured:
        return [_unmeasured(player) for player in unmeasured]
    first, *others = _results(report)
    if report.kind != "analysis" and report.players:
        first = replace(first, template=f"Primary result: {first.template}")
    return [first, *others]


def adjustment_text(adjusted: int, comparisons: int) -> str:
    """Return how the p-values of a table allow for the number of its comparisons."""
    if adjusted:
        return f"p adjusted for {pluralize(adjusted, 'comparison')} (Holm)"
    return "exploratory, not adjusted" if comparisons else ""


def _results(report: Report) -> list[Sentence]:
    ranked = report.ranked
    if report.comparison:
        return [*_compared(report, report.comparison), *_bounded(report)]
    if not ranked:
        return [Sentence("No player has been measured yet.")]
    best = report.players[0] if report.kind == "eval" else ranked[0]
    if best.rating.value is None:
        return [_result(report, best), *_truncated(report)]
    leader = Sentence(f"{{}} leads with a rating of {number(best.rating, 0)}.", (best.player,))
    return [leader, *_rank(best.rank), *_truncated(report)]


def _unmeasured(player: PlayerReport) -> Sentence:
    return Sentence(
        f"{{}} has not been measured: {player.replies.fallbacks} of its "
        f"{player.replies.decisions} decisions were fallback moves.",
        (player.player,),
    )


def definitions(report: Report) -> Iterator[str]:
    """Yield the definition of each measure of the report."""
    for measure in report.listed_measures:
        # A measure of an unknown plugin has a name only.
        if measure.about:
            yield f"{measure.title} ({measure.unit}): {measure.about}"


def _result(report: Report, player: PlayerReport) -> Sentence:
    result = report.result(player)
    if result.value is None:
        return Sentence("{} has no finished game.", (player.player,))
    games, par = pluralize(player.games, "game"), par_text(report.par)
    if report.scale.is_win_rate:
        return Sentence(f"{{}} won {percent(result)} of {games}{par}.", (player.player,))
    mean = amount(result, report.scale)
    won = f"; it won {percent(player.win_rate)}{par}" if report.has_winner else ""
    return Sentence(
        f"{{}} has a mean {report.scale.name} of {mean} in {games}{won}.", (player.player,)
    )


def _truncated(report: Report) -> Iterator[Sentence]:
    """Yield a warning if so many games were cut off that the result may be another one."""
    share = report.truncated
    if share <= TRUNCATED_LIMIT:
        return
    yield Sentence(
        f"{percentage(share)} of the games were truncated and count with their returns so far: "
        "this result is about play up to that limit, not about finished games; a higher "
        "--max-turns lets them end."
    )


def _rank(rank: Interval) -> Iterator[Sentence]:
    if rank.low is None or rank.high is None:
        return
    low, high = decimal(rank.low, 0), decimal(rank.high, 0)
    yield Sentence(
        "The 95 % interval of its rank contains only this place."
        if low == high
        else f"The 95 % interval of its rank is {low} to {high}."
    )


def _verdict(difference: Interval, scale: ReturnScale) -> str:
    """Return the verdict in words, by the interval only, never by the size of the value."""
    if not difference.excludes_zero:
        return "cannot be distinguished from"
    more = (difference.value or 0.0) > 0
    if scale.is_win_rate:
        return f"wins {'more' if more else 'less'} often than"
    return f"has a {'higher' if more else 'lower'} mean {scale.name} than"


def _compared(report: Report, paired: PairedComparison) -> Iterator[Sentence]:
    difference, scale = report.difference, report.scale
    names = paired.player, paired.baseline
    if difference.value is None:
        yield Sentence("{} and {} have not played a common deal yet.", names)
        return
    deals = pluralize(paired.deals or 0, "deal")
    size = amount(difference, scale, signed=True)
    yield Sentence(
        f"{{}} {_verdict(difference, scale)} {{}}: {size} in {deals} that both played in the same "
        "seats.",
        names,
    )
    yield from _truncated_pairs(paired, difference, scale)
    if not scale.is_win_rate and report.has_winner:
        won = percent(paired.won_difference, signed=True)
        yield Sentence(f"The difference in games won is {won}.")
    if paired.games_needed is not None:
        yield Sentence(
            f"If the true difference is this large, about {paired.games_needed} pairs of games "
            f"show it (80 % power)."
        )


def _bounded(report: Report) -> Iterator[Sentence]:
    """Yield the bounds of the difference, if games had fallback moves."""
    bounds = report.comparison.fallback_bounds if report.comparison else Interval()
    if bounds.low is not None and any(player.has_fallbacks for player in report.players):
        yield Sentence(
            "Without fallback moves the difference would be within "
            f"{amount_range(bounds, report.scale, signed=True)}, whatever these games had become."
        )


def _truncated_pairs(
    paired: PairedComparison, difference: Interval, scale: ReturnScale
) -> Iterator[Sentence]:
    """Yield a warning if many games were cut off, or if their ends could reverse the verdict."""
    deals, bounds = paired.deals or 0, paired.if_finished
    reversible = difference.excludes_zero and bounds.low is not None and not bounds.excludes_zero
    if not reversible and paired.truncated <= TRUNCATED_LIMIT * deals:
        return
    warning = (
        f"In {paired.truncated} of {pluralize(deals, 'pair')} a game was truncated and counts with "
        "its returns so far: the verdict is about play up to that limit, not about finished games"
    )
    if bounds.low is not None and bounds.high is not None:
        ends = Interval(value=bounds.low), Interval(value=bounds.high)
        low, high = (amount(end, scale, signed=True) for end in ends)
        warning += f"; these could give anything from {low} to {high}"
    yield Sentence(f"{warning}.")


def sequential_text(sequential: SequentialResult, scale: ReturnScale) -> str:
    """Return the interval of the confidence sequence as a sentence."""
    estimate = sequential.estimate
    text = amount(estimate, scale, signed=sequential.of == "difference")
    state = "reached" if sequential.reached else "not reached"
    target = "" if sequential.target is None else f" (target ± {sequential.target:g}, {state})"
    return (
        f"Interval of the {sequential.of} that is valid at whichever game the run stops: {text} "
        f"after {pluralize(estimate.n, 'deal')}{target}."
    )


# Tables


def grids(report: Report, beside: int = 5) -> Iterator[Grid]:
    """Yield the tables of a report, the most important first.

    `beside` is the number of players beside each other in a table of measures.
    """
    yield leaderboard(report)
    if report.has_winner and any(player.outcomes.won is not None for player in report.players):
        yield outcomes(report)
    if report.comparisons:
        yield from differences(report, beside)
    elif report.comparison:
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
            difference = _cell(measure, paired.measures[measure.name], signed=True)
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
                shown = (_cell(measure, cell, signed=True) if cell else "" for cell in cells)
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


def replies(report: Report) -> Grid:
    """Return the replies of models, their failures and their cost."""
    headings = ["player", "replies", "legal", "fallbacks", "failures", "cached", "cost per game"]
    rows = []
    for player in report.players:
        counts, usage, cost = player.replies, player.usage, player.usage.cost
        if not counts.attempts:
            continue
        failures = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
        legal = percentage(counts.legal / counts.attempts)
        price = "unknown" if cost is None else f"${cost:.4f}"
        cached = percentage((usage.cached_tokens or 0) / max(usage.prompt_tokens or 0, 1))
        counted = (str(counts.attempts), legal, str(counts.fallbacks), failures)
        rows.append((player.label, *counted, cached, price))
    return Grid("Replies of models", headings, rows)
