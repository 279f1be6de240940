"""Leaderboard of submissions to a benchmark suite: ratings, and one static page with a CSV file."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arena.core.errors import ArenaError
from arena.core.seeds import stream
from arena.core.text import UNKNOWN, appearance, decimal, percentage, spreadsheet_row
from arena.episodes.files import open_draft, writing
from arena.evaluation.aggregation import pair_results
from arena.evaluation.benchmark import Suite
from arena.evaluation.benchmark.submission import UNPROVEN, Submission, ahead_of_baseline
from arena.evaluation.document import (
    ChartAxis,
    Document,
    ForestChart,
    Grid,
    Section,
    Sentence,
    amount,
    number,
    percent,
    rank_text,
)
from arena.evaluation.records import GameResult, Interval, SeatResult, Slot
from arena.evaluation.report import PairResult
from arena.evaluation.statistics.ratings import Ratings, rate
from replays.html_report import write_html

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
    for place, ((_, seed), ranked) in enumerate(sorted(ranks.items())):
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
        yield GameResult(Slot(place, seed, tuple(labels)), "terminated", "", 0, 0, 0.0, seats)


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
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with open_draft(out / TABLE) as file:
        file.write(csv_text(standings).encode())
    write_html(document(standings), out / PAGE)


def document(standings: Standings) -> Document:
    """Return the standings as a document."""
    suite, entries = standings.suite, standings.entries
    rated = [(each.label, each.rating) for each in entries if each.rating.value is not None]
    axis = ChartAxis("rating")
    chart = ForestChart("Ratings", "with 95 % intervals", rated, axis)
    sections = [Section("Leaderboard", [_leaderboard(standings)], [chart] if rated else [])]
    if any(entry.submission.card.uses_models for entry in entries):
        sections.append(Section("Replies and cost", [_usage(entries)]))
    if len(suite.skills) > 1:
        sections.append(Section("Profile", [_profile(standings)], about=PROFILE_TEXT))
    sections.append(Section("Results by task", [_tasks(standings)], about=TASKS_TEXT))
    remarks = [AHEAD_TEXT, UNPROVEN, f"{TABLE} beside this page has all numbers."]
    if len(entries) > 1:
        mean = "the baseline has 1500" if standings.anchor else "their mean is 1500"
        remarks.insert(0, f"{RATINGS_TEXT}; {mean}.")
    return Document(
        title=f"{suite.title}, version {suite.version}",
        facts=[suite.about],
        headline=_headline(standings),
        notes=[],
        sections=sections,
        remarks=remarks,
    )


RATINGS_TEXT = (
    "Ratings are Plackett–Luce strengths on Elo's scale: 400 points are odds of ten to one of a "
    "better return on the same deal"
)
AHEAD_TEXT = (
    "Ahead: on the same deal, in the same seat; equal returns count half, so 50 % is equal play. "
    "Games are checked by arena bench verify FOLDER."
)
PROFILE_TEXT = "Share of the deals of this skill on which the player is ahead of the baseline."
TASKS_TEXT = "Mean return of a game, in its own unit (the win rate where the winner gets all)."


def _leaderboard(standings: Standings) -> Grid:
    rows = []
    for entry in standings.entries:
        rating = number(entry.rating, 0)
        if entry.label == standings.anchor and entry.rating.value is not None:
            rating = f"{decimal(entry.rating.value, 0)} (anchor)"
        ahead = "the baseline" if entry.ahead.value is None else percent(entry.ahead)
        deals = str(sum(task.deals for task in entry.submission.card.tasks))
        rows.append([entry.label, rank_text(entry.rank), rating, ahead, deals])
    headings = ["player", "rank", "rating", "ahead of the baseline", "deals"]
    if len(rows) == 1:  # A rating needs two entries.
        headings, rows = [headings[0], *headings[3:]], [[row[0], *row[3:]] for row in rows]
    return Grid("Leaderboard", headings, rows)


def _usage(entries: Sequence[BenchEntry]) -> Grid:
    rows = []
    for entry in entries:
        card = entry.submission.card
        usage, games = card.usage, max(1, card.usage.games)
        if not card.uses_models:
            continue
        cost = "unknown" if usage.cost is None else f"${usage.cost / games:.4f}"
        legal = percentage(usage.legal / usage.replies) if usage.replies else UNKNOWN
        answered = ", ".join(usage.answered) or "no model"
        rows.append(
            [
                entry.label,
                answered,
                card.text_level,
                decimal(usage.tokens / games, 0),
                cost,
                legal,
                f"{usage.fallback_games} of {usage.games}",
            ]
        )
    headings = ("player", "replies name", "text level", "tokens per game", "cost per game")
    return Grid("Models", (*headings, "legal replies", "games with a fallback"), rows)


def _profile(standings: Standings) -> Grid:
    skills = standings.suite.skills
    rows = [[e.label, *(percent(e.skills[skill]) for skill in skills)] for e in standings.entries]
    return Grid("Profile by skill", ["player", *skills], rows)


def _tasks(standings: Standings) -> Grid:
    rows = [
        [entry.label, *(amount(task.result, task.scale) for task in entry.submission.card.tasks)]
        for entry in standings.entries
    ]
    names = [task.id for task in standings.suite.tasks]
    return Grid("Results by task", ["player", *names], rows)


def _headline(standings: Standings) -> list[Sentence]:
    """Return the verdict: the leader, and whether it differs from the next one."""
    entries, suite = standings.entries, standings.suite
    if len(entries) == 1:
        return [Sentence("{} is the only entry; ratings need two.", (entries[0].label,))]
    first, second = entries[0].label, entries[1].label
    p_values = {(pair.first, pair.second): pair.adjusted_p for pair in standings.pairs}
    p = p_values.get((first, second))
    sure = p is not None and p < 0.05
    form = (
        "{} leads, ahead of {}: the difference is more than chance."
        if sure
        else "{} has the highest rating; these deals do not tell it from {}."
    )
    deals = sum(task.deals for task in suite.tasks)
    most = "at most " if any(task.target for task in suite.tasks) else ""
    return [
        Sentence(form, (first, second)),
        Sentence(
            f"{len(entries)} entries; each plays the same {most}{deals} deals in the same seats."
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
