"""The result of a report in sentences, and the limits of its method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from arena.core.outcome import ReturnScale
from arena.core.text import decimal, percentage, pluralize
from arena.evaluation.document import Sentence, amount, amount_range, number, par_text, percent
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
    yield from _truncated_pairs(paired)
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


def _truncated_pairs(paired: PairedComparison) -> Iterator[Sentence]:
    """Yield a warning if many games were cut off."""
    if paired.truncated > TRUNCATED_LIMIT * (paired.deals or 0):
        yield Sentence(
            f"In {paired.truncated} of {pluralize(paired.deals or 0, 'pair')} a game was truncated "
            "and counts with its returns so far: the verdict is about play up to that limit, not "
            "about finished games."
        )


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
