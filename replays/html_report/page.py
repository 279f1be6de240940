"""The page: what stands on it, and in which order the players stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from arena.core.json import Json
from replays.html_report import formatting as wording
from replays.html_report.document import environment
from replays.html_report.plots import MARKERS, Forest, Row, calibration, forest, lines
from replays.html_report.report import Estimate, Measure, Player, Report, read_report

MARKS = ("●", "■", "▲", "◆", "▼", "✚", "✖")
"""The plots' markers as characters, for the legends."""
_ENTROPY = Measure(name="entropy", title="Still hidden", unit="bits", better="lower")


@dataclass(frozen=True, slots=True)
class Series:
    """One line plot, and who is drawn in it; its table has everybody."""

    key: str
    measure: Measure
    plot: Markup
    drawn: Sequence[Player]
    players: Sequence[Player]
    turns: Sequence[int]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The plot of stated against true probabilities, and who is drawn in it."""

    plot: Markup
    drawn: Sequence[Player]
    players: Sequence[Player]


@dataclass(frozen=True, slots=True)
class Cell:
    """How often the row's player ended ahead of the column's."""

    ahead: Estimate
    games: int

    @property
    def shade(self) -> int:
        """From 0, always behind, to 8, always ahead."""
        return 4 if self.ahead.value is None else min(8, max(0, round(self.ahead.value * 8)))


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every player against every other; None on the diagonal, and where two never met."""

    players: Sequence[str]
    rows: Sequence[Sequence[Cell | None]]


def render(report: Mapping[str, Json]) -> str:
    """The whole file. Raises ArenaError for what is no report."""
    read = read_report(report)
    ranked = sorted(read.players, key=_standing)
    measured = {name for player in ranked for name in player.measures}
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            report=read,
            ranked=ranked,
            title=wording.title(read),
            facts=_facts(read),
            headline=wording.headline(read, ranked),
            standings=_standings(ranked),
            measures=[m for m in _measures(read, measured) if m.name in measured],
            series=_series(read, ranked),
            calibration=_calibration(ranked),
            matrix=_matrix(read, ranked),
            seats=_seats(read),
        )
    )


@cache
def _environment() -> Environment:
    made = environment()
    made.globals["marks"] = MARKS
    return made


def _standing(player: Player) -> tuple[bool, float]:
    """Best first: by rating, else by win rate; who has neither stands last."""
    best = player.rating if player.rating.value is not None else player.win_rate
    return best.value is None, -(best.value or 0.0)


def _facts(report: Report) -> list[str]:
    facts = wording.options_in_words(report.options)
    if report.games is not None:
        facts.append(f"{wording.number(report.games, 0)} games")
    if report.kind != "eval" and report.players:
        facts.append(f"{len(report.players)} players compared")
    return facts


def _standings(ranked: Sequence[Player]) -> Markup | None:
    """Ratings with their intervals, or win rates where nobody is rated."""
    rated = any(player.rating.value is not None for player in ranked)
    rows = [Row(p.player, p.rating if rated else p.win_rate) for p in ranked]
    if all(row.estimate.value is None for row in rows):
        return None
    return forest(Forest("standings", "rating" if rated else "win rate", rows, percent=not rated))


def _measures(report: Report, measured: set[str]) -> list[Measure]:
    """As the report lists them, then those of which it has only the name."""
    listed = {measure.name for measure in report.measures}
    return [*report.measures, *(Measure(name=name) for name in sorted(measured - listed))]


def _series(report: Report, ranked: Sequence[Player]) -> list[Series]:
    known = {"entropy": _ENTROPY} | {measure.name: measure for measure in report.measures}
    names = sorted({name for player in ranked for name in player.series} - {"calibration"})
    made = []
    for place, name in enumerate(names):
        players = [player for player in ranked if player.line(name)]
        if not players:
            continue
        drawn = players[: len(MARKERS)]
        measure = known.get(name, Measure(name=name))
        title = (measure.title or name) + (f" ({measure.unit})" if measure.unit else "")
        points = {number: player.line(name) for number, player in enumerate(drawn)}
        plot = lines(f"series{place}", wording.shorten(title, 36), points)
        turns = sorted({turn for player in players for turn in player.line(name)})
        made.append(Series(name, measure, plot, drawn, players, turns))
    return made


def _calibration(ranked: Sequence[Player]) -> Calibration | None:
    players = [player for player in ranked if player.bins]
    if not players:
        return None
    drawn = players[: len(MARKERS)]
    plot = calibration("calibration", {n: player.bins for n, player in enumerate(drawn)})
    return Calibration(plot, drawn, players)


def _matrix(report: Report, ranked: Sequence[Player]) -> Matrix | None:
    """A pair that is given once is known from both sides."""
    if not report.pairs:
        return None
    cells = {(p.second, p.first): Cell(p.ahead.flipped(), p.games) for p in report.pairs}
    cells |= {(p.first, p.second): Cell(p.ahead, p.games) for p in report.pairs}
    met = {name for pair in cells for name in pair}
    names = [name for name in dict.fromkeys(p.player for p in ranked) if name in met]
    names += sorted(met.difference(names))
    return Matrix(names, [[cells.get((row, column)) for column in names] for row in names])


def _seats(report: Report) -> Markup | None:
    rows = [Row(f"Seat {each.seat}", each.effect) for each in report.seats]
    if all(row.estimate.value is None for row in rows):
        return None
    return forest(Forest("seats", "effect of the seat", rows, reference=0.0))
