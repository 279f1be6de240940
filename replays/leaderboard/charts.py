"""Charts of a leaderboard: ratings, skills, cost against strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from arena.evaluation.benchmark.card import CardUsage
from arena.evaluation.benchmark.standings import BenchEntry, Standings
from replays.html_report.charts import MARKS, forest_chart, line_chart
from replays.html_report.svg_canvas import ChartAxis, ChartPoint, Series, percent_tick


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
