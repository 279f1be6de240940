"""Leaderboard of submissions to a benchmark suite: ratings, and one static page with a CSV file."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.core.seeds import stream
from arena.core.text import appearance, spreadsheet_row
from arena.evaluation.aggregation import pair_results
from arena.evaluation.benchmark import Suite
from arena.evaluation.benchmark.submission import UNPROVEN, Submission, ahead_of_baseline
from arena.evaluation.records import GameResult, Interval, SeatResult, Slot
from arena.evaluation.report import PairResult
from arena.evaluation.statistics.ratings import Ratings, rate
from replays.html_report import write_document
from replays.html_report.charts import ChartAxis, forest_chart
from replays.html_report.page import environment

PAGE, TABLE = "index.html", "leaderboard.csv"


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
class Standings:
    """All entries of a suite, best first."""

    suite: Suite
    entries: Sequence[BenchEntry]
    pairs: Sequence[PairResult]
    """Both orders of each pair; a common deal counts as a game."""
    anchor: str | None
    """Entry whose rating is set to 1500: the baseline. None: the mean of the entries is."""


def make_standings(submissions: Sequence[Submission]) -> Standings:
    """Compare submissions to one suite. Raises ArenaError if there are several suites."""
    suite = submissions[0].suite
    for other in submissions[1:]:
        if other.suite != suite:
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
    return Standings(suite, entries, pair_results(found), anchor)


def _sort_key(submission: Submission) -> tuple[str, ...]:
    card = submission.card
    return card.name, card.player, card.text_level, card.created.isoformat()


def _labels(submissions: Sequence[Submission]) -> Iterator[str]:
    """Yield a unique name of each submission; the text level tells runs of one model apart."""
    names = Counter(appearance(each.card.name) for each in submissions)
    used = set[str]()
    for each in submissions:
        label = each.card.name
        if names[appearance(label)] > 1 and each.card.uses_models:
            label = f"{label}, {each.card.text_level}"
        labels = (label, *(f"{label} ({number})" for number in range(2, len(submissions) + 2)))
        label = next(each for each in labels if appearance(each) not in used)
        used.add(appearance(label))
        yield label


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


def write_page(standings: Standings, out: Path) -> None:
    """Write `index.html` and `leaderboard.csv` into a folder; earlier ones are replaced.

    The page loads nothing and opens from disk. Equal submissions give equal bytes. Raises
    ArenaError if a file cannot be written.
    """
    template = environment("replays.leaderboard").get_template("page.html.jinja")
    rated = [(each.label, each.rating) for each in standings.entries if each.rating.value]
    label = f"Ratings of {len(rated)} entries with 95 % intervals; numbers in the table"
    page = template.render(
        standings=standings,
        suite=standings.suite,
        title=f"{standings.suite.title}, version {standings.suite.version}",
        headline=_headline(standings),
        ratings=forest_chart(label, rated, ChartAxis("rating")) if rated else None,
        table=TABLE,
        unproven=UNPROVEN,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArenaError(f"cannot write {out}: {error.strerror}") from error
    write_document(csv_text(standings), out / TABLE)
    write_document(page, out / PAGE)


def _headline(standings: Standings) -> list[Markup]:
    """Return the verdict: the leader, and whether it differs from the next one."""
    entries, suite = standings.entries, standings.suite
    first = Markup("<bdi>{}</bdi>").format(entries[0].label)
    if len(entries) == 1:
        return [Markup("{} is the only entry; ratings need two.").format(first)]
    second = entries[1].label
    names = {(pair.first, pair.second): pair for pair in standings.pairs}
    pair = names.get((entries[0].label, second))
    sure = pair is not None and pair.adjusted_p is not None and pair.adjusted_p < 0.05
    form = (
        "{} leads, ahead of <bdi>{}</bdi>: the difference is more than chance."
        if sure
        else "{} has the highest rating; these deals do not tell it from <bdi>{}</bdi>."
    )
    deals = sum(task.deals for task in suite.tasks)
    most = "at most " if any(task.target for task in suite.tasks) else ""
    return [
        Markup(form).format(first, second),
        Markup("{} entries; each plays the same {}{} deals in the same seats.").format(
            len(entries), most, deals
        ),
    ]


def csv_text(standings: Standings) -> str:
    """Return a line for each entry as CSV."""
    suite = standings.suite
    intervals = ["rating", "ahead of the baseline", *suite.skills]
    intervals += [task.id for task in suite.tasks]
    bounds = [f"{name}{end}" for name in intervals for end in ("", " low", " high")]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["player", "SPEC", "text level", *bounds, "tokens per game", "cost per game"]
    writer.writerow(spreadsheet_row(head))
    for entry in standings.entries:
        card = entry.submission.card
        found = [entry.rating, entry.ahead, *entry.skills.values()]
        found += [task.result for task in card.tasks]
        numbers = [each for one in found for each in (one.value, one.low, one.high)]
        games = max(1, card.usage.games)
        cost = None if card.usage.cost is None else card.usage.cost / games
        level = card.text_level if card.uses_models else ""
        names, usage = (entry.label, card.player, level), (card.usage.tokens / games, cost)
        writer.writerow(spreadsheet_row([*names, *numbers, *usage]))
    return out.getvalue()


def standings_json(standings: Standings) -> dict[str, JsonValue]:
    """Return the numbers of the page."""
    suite = standings.suite
    return {
        "suite": suite.name,
        "suite_version": suite.version,
        "entries": [_entry_json(entry) for entry in standings.entries],
    }


def _entry_json(entry: BenchEntry) -> dict[str, JsonValue]:
    card = entry.submission.card
    return {
        "name": entry.label,
        "player": card.player,
        "text_level": card.text_level if card.uses_models else None,
        "rating": entry.rating.model_dump(mode="json"),
        "ahead": entry.ahead.model_dump(mode="json"),
        "skills": {name: share.model_dump(mode="json") for name, share in entry.skills.items()},
        "tasks": {task.task: task.result.model_dump(mode="json") for task in card.tasks},
    }
