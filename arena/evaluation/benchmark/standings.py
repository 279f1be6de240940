"""Comparison of submissions to one suite: ratings, skills, pairs, exact measures, notable games."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from arena.core.analysis import Measure
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.evaluation.aggregation import pair_results
from arena.evaluation.benchmark import Suite
from arena.evaluation.benchmark.submission import (
    PlayedDeal,
    PlayedTask,
    Submission,
    ahead_of_baseline,
)
from arena.evaluation.records import GameResult, Interval, SeatResult, Slot
from arena.evaluation.report import PairResult
from arena.evaluation.scoring import MODEL_MEASURES, measures_of
from arena.evaluation.statistics import ratio_of_sums
from arena.evaluation.statistics.ratings import Ratings, rate
from arena.evaluation.summary import Sample, bounds_of, intervals_by_name, table_names


@dataclass(frozen=True, slots=True)
class BenchEntry:
    """One submission in the standings."""

    label: str
    """Name that no other entry has."""
    submission: Submission
    rating: Interval
    """Elo points; empty if there is only one entry."""
    rank: Interval
    ahead: Interval
    """Share of all deals on which it is ahead of the baseline; empty for the baseline itself."""
    skills: Mapping[str, Interval]
    """The same by skill."""


@dataclass(frozen=True, slots=True)
class MeasureTable:
    """The exact measures of one game, over all tasks with this game."""

    game: Game
    measures: Sequence[Measure]
    values: Mapping[str, Mapping[str, Interval]]
    """By label and name of the measure."""


@dataclass(frozen=True, slots=True)
class Standings:
    """All entries of a suite, best first."""

    suite: Suite
    entries: Sequence[BenchEntry]
    pairs: Sequence[PairResult]
    """Both orders of each pair; a common deal counts as a game."""
    anchor: str | None
    """Entry whose rating is set to 1500: the baseline. None: the mean of the entries is."""
    measures: Sequence[MeasureTable]


@dataclass(frozen=True, slots=True)
class NotableGame:
    """A game that shows the player at its best or at its worst."""

    kind: str
    """`best` or `worst`."""
    task: PlayedTask
    deal: PlayedDeal


def make_standings(submissions: Sequence[Submission]) -> Standings:
    """Compare submissions to one suite. Raises ArenaError if there are several suites."""
    suite = submissions[0].suite
    for other in submissions[1:]:
        if other.suite.sha256 != suite.sha256:
            raise ArenaError(
                f"{other.folder} is a run of {other.suite.label}, {submissions[0].folder} one of "
                f"{suite.label}: a leaderboard has one version of one suite"
            )
    # Sorted, so that the order of the folders changes no number.
    ordered = sorted(submissions, key=_sort_key)
    by_label = dict(zip(_labels(ordered), ordered, strict=True))
    anchor = _baseline_label(by_label)
    found = rate(list(_common_deals(by_label)), list(by_label), anchor=anchor)
    entries = [_entry(label, by_label[label], found, len(by_label) > 1) for label in found.ratings]
    tables = list(_measure_tables(by_label))
    return Standings(suite, entries, pair_results(found), anchor, tables)


def _sort_key(submission: Submission) -> tuple[str, ...]:
    card = submission.card
    return card.name, card.player, card.text_level, card.created.isoformat()


def _labels(submissions: Sequence[Submission]) -> Iterator[str]:
    """Yield a unique name of each submission; the text level tells runs of one model apart."""
    names = Counter(each.card.name for each in submissions)
    used: Counter[str] = Counter()
    for each in submissions:
        label = each.card.name
        if names[label] > 1 and each.card.uses_models:
            label = f"{label}, {each.card.text_level}"
        used[label] += 1
        yield label if used[label] == 1 else f"{label} ({used[label]})"


def _baseline_label(by_label: Mapping[str, Submission]) -> str | None:
    """Return the entry that is the baseline of all tasks, if there is one."""
    for label, submission in by_label.items():
        player = submission.card.player
        if all(task.baseline_of(player) is None for task in submission.suite.tasks):
            return label
    return None


def _common_deals(by_label: Mapping[str, Submission]) -> Iterator[GameResult]:
    """Yield each deal that several entries played as one game between them, by their scores.

    Entries never meet at a table, but they play the same deals in the same seats against the same
    opponents. The order of their scores on a deal is what the model of ratings describes. Their
    places are drawn for each deal, because the model has an effect of the place.
    """
    ranks: dict[tuple[str, int], dict[str, tuple[float, ...]]] = defaultdict(dict)
    for label, submission in by_label.items():
        for played in submission.tasks:
            for deal in played.deals:
                ranks[played.task.id, deal.seed][label] = deal.rank
    for number, ((_, seed), ranked) in enumerate(sorted(ranks.items())):
        order = sorted(set(ranked.values()))
        of_label = {label: float(order.index(rank)) for label, rank in ranked.items()}
        if len(of_label) < 2:
            continue
        labels = sorted(of_label)
        stream(seed, "places on the leaderboard").shuffle(labels)
        best = max(of_label.values())
        alone = sum(value == best for value in of_label.values()) == 1
        seats = tuple(
            SeatResult(label, of_label[label], alone and of_label[label] == best)
            for label in labels
        )
        yield GameResult(Slot(number, seed, tuple(labels)), "terminated", "", 0, 0, 0.0, seats)


def _entry(label: str, submission: Submission, found: Ratings, rated: bool) -> BenchEntry:
    skills = {
        skill: ahead_of_baseline([each for each in submission.tasks if each.task.skill == skill])
        for skill in submission.suite.skills
    }
    return BenchEntry(
        label,
        submission,
        Interval.of(found.ratings[label]) if rated else Interval(),
        Interval.of(found.ranks[label]) if rated else Interval(),
        ahead_of_baseline(submission.tasks),
        skills,
    )


def _measure_tables(by_label: Mapping[str, Submission]) -> Iterator[MeasureTable]:
    """Yield a table for each game that has measures, in the order of the suite."""
    submissions = list(by_label.values())
    games = {played.task.game: played.game for played in submissions[0].tasks}
    for name, game in games.items():
        samples = {label: _pooled(each, name) for label, each in by_label.items()}
        known = {measure for sample in samples.values() for measure in table_names(sample)}
        shown = [measure for measure in measures_of(game, known) if measure not in MODEL_MEASURES]
        if shown:
            names = [measure.name for measure in shown]
            values = {label: _estimates(sample, game, names) for label, sample in samples.items()}
            yield MeasureTable(game, shown, values)


def _pooled(submission: Submission, game: str) -> Sample:
    """Return the player's games of all tasks with this game."""
    sample = Sample(submission.card.player)
    for played in submission.tasks:
        if played.task.game == game:
            for deal in played.deals:
                sample.add_tested(deal.player, played.game.return_scale)
    return sample


def _estimates(sample: Sample, game: Game, names: Sequence[str]) -> dict[str, Interval]:
    own = [name for name in names if name in sample.names]
    estimates = ratio_of_sums(sample.sums(own), bounds=bounds_of(game, own))
    return intervals_by_name(own, estimates)


def notable_games(submission: Submission) -> list[NotableGame]:
    """Return the best and the worst game of a player, by its gain over the baseline's return.

    Gains count in ranges of their game's returns. Of equal gains the higher return is better. A
    quick win is the better one; of other games the longest one shows most.
    """
    games = [(played, deal) for played in submission.tasks for deal in played.deals]

    def key(item: tuple[PlayedTask, PlayedDeal]) -> tuple[float, float]:
        played, deal = item
        low, high = played.game.return_scale.bounds
        width = high - low if math.isfinite(high - low) else 1.0
        return deal.gain / width, deal.returns / width

    def best_first(item: tuple[PlayedTask, PlayedDeal]) -> tuple[float, float, bool, int]:
        result = item[1].player
        length = -result.decisions if result.tested.won else result.decisions
        return *key(item), result.no_fallback, length

    best = max(games, key=best_first)
    others = [item for item in games if item is not best]
    worst = min(others, key=lambda item: (*key(item), -item[1].player.decisions))
    return [NotableGame("best", *best), NotableGame("worst", *worst)]
