"""Numbers of games that claims need, by the formulas of `arena.evaluation.statistics`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena.evaluation.benchmark.standings import Standings
from arena.evaluation.report_parts import CountRange, Interval
from arena.evaluation.statistics.intervals import rate
from arena.evaluation.statistics.sample_size import games_needed_for_rates

STUDY_GAMES, STUDY_SOLVED = 18, 4
"""Games, and those that a correct accusation ended, in the one published study of language models
at Clue (Ansell and Toney-Wails 2026, arXiv 2603.17169)."""
CLAIMS = (
    ("three players", 1 / 3, 1 / 2),
    ("three players", 1 / 3, 0.4),
    ("four players", 1 / 4, 1 / 2),
    ("four players", 1 / 4, 1 / 3),
    ("six players", 1 / 6, 1 / 3),
    ("six players", 1 / 6, 1 / 4),
    ("six players", 1 / 6, 0.2),
)
"""Table, par and the claimed win rate."""


@dataclass(frozen=True, slots=True)
class PublishedStudy:
    """What the games of the study show."""

    games: int
    solved: int
    share: Interval
    """Of solved games."""
    needed_for_double: int
    """Games that tell its share from twice that share."""
    needed_for_half_more: int
    """Games that tell its share from one and a half times that share."""


@dataclass(frozen=True, slots=True)
class RateClaim:
    """A claim about a win rate, and the games that it needs."""

    table: str
    par: float
    claimed: float
    games: int | None
    """Of the player, and as many of an equal player on other deals."""


@dataclass(frozen=True, slots=True)
class PairedClaim:
    """A measured difference, and the games that show it."""

    entry: str
    task: str
    baseline: str
    deals: int
    paired: int | None
    paired_range: CountRange | None
    unpaired: int | None


def published_study() -> PublishedStudy:
    """Return what 18 games show."""
    share = STUDY_SOLVED / STUDY_GAMES
    return PublishedStudy(
        STUDY_GAMES,
        STUDY_SOLVED,
        Interval.of(rate(STUDY_SOLVED, STUDY_GAMES)),
        games_needed_for_rates(share, 2 * share) or 0,
        games_needed_for_rates(share, 1.5 * share) or 0,
    )


def rate_claims() -> list[RateClaim]:
    """Return the games that each of `CLAIMS` needs on independent deals."""
    return [
        RateClaim(table, par, claimed, games_needed_for_rates(par, claimed))
        for table, par, claimed in CLAIMS
    ]


def paired_claims(standings: Standings) -> list[PairedClaim]:
    """Return the pairs of games that each measured difference to the baseline needs."""
    return list(_paired_claims(standings))


def _paired_claims(standings: Standings) -> Iterator[PairedClaim]:
    for entry in standings.entries:
        for played in entry.submission.tasks:
            comparison = played.report.comparison
            if comparison is not None:
                yield PairedClaim(
                    entry.label,
                    played.task.id,
                    comparison.baseline,
                    comparison.deals or 0,
                    comparison.games_needed,
                    comparison.games_needed_range,
                    comparison.games_needed_unpaired,
                )
