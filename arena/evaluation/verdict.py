"""A report in sentences: its result, the uncertainty, and the limits of the method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from arena.core.outcome import ReturnScale
from arena.core.text import decimal, percentage, pluralize
from arena.evaluation.formatting import amount, amount_range, number, par_text, percent
from arena.evaluation.records import Interval
from arena.evaluation.report import (
    LuckAdjusted,
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
    yield from other_estimates(report)
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
    fallbacks = player.replies.fallbacks
    return Sentence(
        f"{{}} has not been measured: {fallbacks} of its {fallbacks + player.replies.legal} "
        "decisions were fallback moves.",
        (player.player,),
    )


def other_estimates(report: Report) -> Iterator[str]:
    """Yield the interval of the confidence sequence and the luck-adjusted win rate."""
    if report.sequential:
        yield _sequential(report.sequential, report.scale)
    if report.controlled:
        yield _luck_adjusted(report.controlled, report.scale)


def definitions(report: Report) -> Iterator[str]:
    """Yield the definition of each measure of the report."""
    for measure in report.listed_measures:
        # A measure of an unknown plugin has a name only.
        if measure.about:
            yield f"{measure.title} ({measure.unit}): {measure.about}"


def _result(report: Report, player: PlayerReport) -> Sentence:
    if report.result(player).value is None:
        return Sentence("{} has no finished game.", (player.player,))
    games, won = pluralize(player.games, "game"), percent(player.win_rate)
    par = par_text(report.par)
    if report.scale.is_win_rate:
        return Sentence(f"{{}} won {won} of {games}{par}.", (player.player,))
    mean = amount(player.mean_return, report.scale)
    won = f"; it won {won}{par}" if report.has_winner else ""
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
        ends = paired.games_needed_range
        spread = f"; {ends} by the 95 % interval of the variance of the pairs" if ends else ""
        yield Sentence(
            f"If the true difference is this large, about {paired.games_needed} pairs of games "
            f"show it (80 % power{spread})."
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


def _sequential(sequential: SequentialResult, scale: ReturnScale) -> str:
    estimate = sequential.estimate
    text = amount(estimate, scale, signed=sequential.of == "difference")
    state = "reached" if sequential.reached else "not reached"
    target = "" if sequential.target is None else f" (target ± {sequential.target:g}, {state})"
    return (
        f"Interval of the {sequential.of} that is valid at whichever game the run stops: {text} "
        f"after {pluralize(estimate.n, 'deal')}{target}."
    )


def _luck_adjusted(adjusted: LuckAdjusted, scale: ReturnScale) -> str:
    name = scale.name if adjusted.of == "return" else adjusted.of
    if not adjusted.valid:
        return f"Luck is not removed from the {name}, because the results differ too rarely."
    worth = f"worth {decimal(adjusted.variance_ratio)} times as many games"
    estimate = amount(adjusted.estimate, scale, signed=adjusted.of == "difference")
    return (
        f"The {name} without the luck of chance and of bots with known policies: {estimate} in "
        f"{pluralize(adjusted.estimate.n, 'deal')}; {worth}."
    )
