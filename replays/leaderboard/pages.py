"""The pages of a leaderboard: first page, one page for each entry, method."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from arena.core.text import pluralize
from arena.evaluation.benchmark.standings import BenchEntry, NotableGame, Standings
from arena.evaluation.benchmark.submission import PlayedTask
from arena.evaluation.output.formatting import amount, options_in_words
from arena.evaluation.output.verdict import adjustment_text
from replays.html_report.charts import MARKS
from replays.html_report.document import environment
from replays.html_report.page import PairMatrix, matrix_of
from replays.leaderboard.charts import cost_chart, rating_chart, skill_charts
from replays.leaderboard.claims import paired_claims, published_study, rate_claims


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


def index_page(standings: Standings, links: Sequence[EntryLinks]) -> str:
    """Return the first page."""
    labels = [entry.label for entry in standings.entries]
    charts = skill_charts(standings)
    pairs = {frozenset((p.first, p.second)): p.adjusted_p is not None for p in standings.pairs}
    matrix: PairMatrix | None = matrix_of(standings.pairs, labels)
    return _page(
        "index.html.jinja",
        standings,
        title=f"{standings.suite.title}, version {standings.suite.version}",
        headline=_headline(standings),
        links=links,
        marks=MARKS,
        ratings=rating_chart(standings),
        skill_charts=charts,
        costs=cost_chart(standings),
        matrix=matrix,
        adjustment=adjustment_text(sum(pairs.values()), len(pairs)),
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
        paired=paired_claims(standings),
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
    environment_ = _environment()
    style = str(environment_.globals["style"])
    return environment_.get_template(template).render(
        standings=standings, suite=standings.suite, policy=_policy(style), **fields
    )


@cache
def _environment() -> Environment:
    page = environment("replays.leaderboard")
    folder = Path(__file__).parent
    sheets = (folder.parent / "html_report" / "page.css", folder / "site.css")
    # Unix line ends: a browser hashes the text in this form.
    text = "".join(sheet.read_text(encoding="utf-8").replace("\r\n", "\n") for sheet in sheets)
    page.globals["style"] = Markup(text)
    return page


def _policy(style: str) -> str:
    """Return a policy that allows this style sheet and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
