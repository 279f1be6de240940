"""Pages of a leaderboard: first page, one page for each entry, method; their charts and claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from arena.core.text import pluralize
from arena.evaluation.benchmark import UNPROVEN, CardUsage
from arena.evaluation.benchmark.standings import BenchEntry, NotableGame, Standings
from arena.evaluation.benchmark.submission import PlayedTask
from arena.evaluation.formatting import Grid, amount, options_in_words
from arena.evaluation.paired import games_needed_for_rates
from arena.evaluation.records import Interval
from arena.evaluation.report import PairedComparison
from arena.evaluation.statistics import rate
from replays.html_report.charts import (
    MARKS,
    ChartAxis,
    ChartPoint,
    Series,
    forest_chart,
    line_chart,
    percent_tick,
)
from replays.html_report.page import environment, matrix_of, pairs_adjustment
from replays.web.page_files import digest

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
    """Games that show a difference between its share and twice that share."""
    needed_for_half_more: int
    """Games that show a difference between its share and 1.5 times that share."""


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
    comparison: PairedComparison


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


def paired_claims(standings: Standings) -> Iterator[PairedClaim]:
    """Yield the pairs of games that each measured difference to the baseline needs."""
    for entry in standings.entries:
        for played in entry.submission.tasks:
            if played.report.comparison is not None:
                yield PairedClaim(entry.label, played.task.id, played.report.comparison)


@dataclass(frozen=True, slots=True)
class SkillChart:
    """The entries by one skill."""

    skill: str
    tasks: Sequence[str]
    chart: Markup


@dataclass(frozen=True, slots=True)
class CostChart:
    """Cost, or tokens where no price is known for all models, against strength."""

    chart: Markup
    drawn: Sequence[BenchEntry]
    """In the order of colours and marks, which repeat."""
    by_tokens: bool


def rating_chart(standings: Standings) -> Markup | None:
    """Draw the ratings; None without any."""
    rows = [(e.label, e.rating) for e in standings.entries if e.rating.value is not None]
    if not rows:
        return None
    label = f"Ratings of {len(rows)} entries with 95 % intervals; numbers in the table"
    return forest_chart(label, rows, ChartAxis("rating"))


def skill_charts(standings: Standings) -> list[SkillChart]:
    """Draw a chart for each skill: the share of deals ahead of the baseline."""
    charts = []
    for skill in standings.suite.skills:
        values = [(entry.label, entry.skills[skill]) for entry in standings.entries]
        rows = [(label, share) for label, share in values if share.value is not None]
        if rows:
            tasks = [task.id for task in standings.suite.tasks if task.skill == skill]
            label = f"{skill}: share of deals ahead of the baseline, {len(rows)} entries"
            axis = ChartAxis("ahead of the baseline", 0.0, 1.0, format=percent_tick)
            charts.append(SkillChart(skill, tasks, forest_chart(label, rows, axis, 0.5)))
    return charts


def cost_chart(standings: Standings) -> CostChart | None:
    """Draw cost per game against rating; None if no entry asks a model, or without ratings."""
    drawn = [entry for entry in standings.entries if entry.rating.value is not None]
    used = [entry for entry in drawn if entry.submission.card.uses_models]
    if not used:
        return None
    costs = [entry.submission.card.usage.cost for entry in used]
    by_tokens = None in costs or not any(costs)
    series = []
    for number, entry in enumerate(drawn):
        x, rating = _per_game(entry, by_tokens), entry.rating
        point = ChartPoint(x, rating.value or 0.0, rating.low, rating.high)
        mark = number % len(MARKS)
        series.append(Series([point], color=mark, marker=mark, bars=True))
    title = "tokens per game" if by_tokens else "US dollars per game"
    label = f"{title} against rating, {len(drawn)} entries; numbers in the table"
    most = max(point.x for line in series for point in line.points) or 1.0
    # From 0, with room for the marks of bots.
    axis = ChartAxis(title, -0.04 * most, 1.06 * most)
    chart = line_chart(label, series, axis, ChartAxis("rating"), height=280)
    return CostChart(chart, drawn, by_tokens)


def _per_game(entry: BenchEntry, by_tokens: bool) -> float:
    usage: CardUsage = entry.submission.card.usage
    total = usage.tokens if by_tokens else usage.cost or 0.0
    return total / max(1, usage.games)


@dataclass(frozen=True, slots=True)
class ReportLink:
    """The full report of a task."""

    task: PlayedTask
    page: str

    @property
    def result(self) -> str:
        """The mean return, with its unit."""
        report = self.task.report
        return amount(report.result(report.players[0]), report.scale)

    @property
    def difference(self) -> str:
        return amount(self.task.report.difference, self.task.report.scale, signed=True)


@dataclass(frozen=True, slots=True)
class GameLink:
    """An annotated game."""

    game: NotableGame
    page: str

    @property
    def text(self) -> str:
        """The result in words."""
        deal, scale = self.game.deal, self.game.task.game.return_scale
        words = f"{pluralize(deal.player.decisions, 'decision')} of all players"
        if scale.is_win_rate:
            own = "won" if deal.returns else "not won"
            if deal.baseline is None:
                return f"{own}; {words}"
            other = "won" if deal.returns - deal.gain else "did not win"
            return f"{own}, the baseline {other}; {words}"
        own = f"{deal.returns:g} {scale.unit}".rstrip()
        if deal.baseline is None:
            return f"{scale.name} {own}; {words}"
        return f"{scale.name} {own}, the baseline {deal.returns - deal.gain:g}; {words}"


@dataclass(frozen=True, slots=True)
class EntryLinks:
    """One entry with its pages."""

    entry: BenchEntry
    page: str
    reports: Sequence[ReportLink]
    games: Sequence[GameLink]
    verified: bool
    archive: str
    """ZIP of the submission."""


@dataclass(frozen=True, slots=True)
class Download:
    """One table or figure as files."""

    title: str
    files: Sequence[str]


@dataclass(frozen=True, slots=True)
class Citation:
    """How the state of a leaderboard is cited."""

    state: str
    """First digits of the SHA-256 of its numbers."""
    date: str
    """Of the newest submission, so that equal submissions give equal bytes."""
    text: str
    bibtex: str

    @property
    def archived(self) -> str:
        """The file of its numbers, which is kept when the site is written again."""
        return f"archive/{self.date}-{self.state}.json"


def index_page(
    standings: Standings,
    links: Sequence[EntryLinks],
    citation: Citation,
    downloads: Sequence[Download],
    models: Grid,
) -> str:
    """Return the first page."""
    labels = [entry.label for entry in standings.entries]
    return _page(
        "index.html.jinja",
        standings,
        title=f"{standings.suite.title}, version {standings.suite.version}",
        headline=_headline(standings),
        links=links,
        citation=citation,
        downloads=downloads,
        models=models,
        marks=MARKS,
        ratings=rating_chart(standings),
        skill_charts=skill_charts(standings),
        costs=cost_chart(standings),
        matrix=matrix_of(standings.pairs, labels),
        adjustment=pairs_adjustment(standings.pairs),
    )


def entry_page(standings: Standings, links: EntryLinks) -> str:
    """Return the page of one entry."""
    return _page("entry.html.jinja", standings, title=links.entry.label, links=links)


def method_page(standings: Standings) -> str:
    """Return the page that explains the numbers."""
    return _page(
        "method.html.jinja",
        standings,
        title="Method",
        study=published_study(),
        claims=rate_claims(),
        paired=list(paired_claims(standings)),
        options=[", ".join(options_in_words(task.options)) for task in standings.suite.tasks],
    )


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


def _page(template: str, standings: Standings, **fields: object) -> str:
    return (
        _environment()
        .get_template(template)
        .render(standings=standings, suite=standings.suite, unproven=UNPROVEN, **fields)
    )


def page_style() -> str:
    """Return the style sheet of the pages."""
    return str(_environment().globals["style"])


@cache
def _environment() -> Environment:
    page = environment("replays.leaderboard", ["site.css"])
    # A policy that allows this style sheet and nothing else.
    allowed = f"default-src 'none'; style-src 'sha256-{digest(str(page.globals['style']))}'"
    page.globals["policy"] = f"{allowed}; base-uri 'none'; form-action 'none'"
    return page
