"""Numbers and results in words: as many digits as an interval bears out, and no more."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from markupsafe import Markup

from arena.core.json import Json
from replays.html_report.report import Comparison, Estimate, Player, Report

SHARES = ("share", "probability", "rate")
"""Units that are shown in per cent."""
_THIN = "\u202f"
_KINDS = {"tournament": "Tournament", "eval": "Evaluation", "analysis": "Analysis"}


def shorten(text: str, length: int) -> str:
    """The ends of a long text: a SPEC says what it is at the front, which one at the back."""
    if len(text) <= length:
        return text
    back = length // 3
    return f"{text[: length - back - 1]}…{text[-back:]}"


def number(value: float | None, digits: int = 2) -> str:
    """With a real minus, and thousands apart."""
    if value is None:
        return "–"
    text = f"{value:,.{digits}f}".replace(",", _THIN).replace("-", "−")
    return text[1:] if text.startswith("−") and not text.strip("−0.") else text


def value_of(estimate: Estimate, unit: str = "", percent: str = "%") -> str:
    """The value alone; a difference of two shares is counted in `points`."""
    if estimate.value is None:
        return "–"
    behind = f"{_THIN}{percent}" if unit in SHARES else ""
    return number(estimate.value * _scale(unit), _digits(estimate, unit)) + behind


def interval_of(estimate: Estimate, unit: str = "") -> str:
    """From low to high; empty where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (
        number(end * _scale(unit), _digits(estimate, unit)) for end in (estimate.low, estimate.high)
    )
    return f"{low} to {high}"


def _scale(unit: str) -> int:
    return 100 if unit in SHARES else 1


def _digits(estimate: Estimate, unit: str) -> int:
    """Two digits of the interval's half width, at most three behind the point (per cent: one)."""
    most = 1 if unit in SHARES else 3
    if estimate.low is None or estimate.high is None or estimate.high <= estimate.low:
        return min(2, most)
    # Rounded, since 0.1 may stand here as 0.09999999.
    half = float(f"{(estimate.high - estimate.low) / 2 * _scale(unit):.6g}")
    return min(most, max(0, 1 - math.floor(math.log10(half))))


def rank_of(rank: Estimate) -> str:
    """`2`, or `1–3` where the interval leaves several."""
    if rank.low is None or rank.high is None:
        return number(rank.value, 0)
    low, high = number(rank.low, 0), number(rank.high, 0)
    return low if low == high else f"{low}–{high}"


def options_in_words(options: Mapping[str, Json]) -> list[str]:
    """`{"num_players": 4, "board": False, "variant": "cards"}`: 4 players, no board, cards."""
    return [_option(key, value) for key, value in options.items()]


def _option(key: str, value: Json) -> str:
    words = key.replace("_", " ")
    match value:
        case bool():
            return words if value else f"no {words}"
        case int() | float() if words.startswith("num "):
            return f"{value} {words[4:]}"
        case int() if words == "players":
            return f"{value} players"
        case str() if key in {"variant", "rules"}:
            return value
        case _:
            return f"{words} {plain(value)}"


def plain(value: Json) -> str:
    """A setting as a settings file would have it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def title(report: Report) -> str:
    """What was measured, and at which game."""
    what = f"{_KINDS[report.kind]} · {report.game}"
    if report.comparison is not None:
        return f"{what} · {report.comparison.player} and {report.comparison.baseline}"
    if report.kind == "eval" and report.players:
        return f"{what} · {report.players[0].player}"
    return what


def headline(report: Report, ranked: list[Player]) -> list[Markup]:
    """The result in sentences; the first is the one to remember."""
    if report.comparison is not None:
        return _compared(report.comparison)
    if not ranked:
        return [Markup("No player has been measured yet.")]
    if report.kind == "eval":
        return [_rate(report.players[0])]
    best = ranked[0]
    if best.rating.value is not None:
        said = "<bdi>{}</bdi> leads with a rating of {}{}."
        words = Markup(said).format(best.player, value_of(best.rating), _within(best.rating))
        return [words, *_place(best)]
    return [_rate(best)]


def _rate(player: Player) -> Markup:
    if player.win_rate.value is None:
        return Markup("<bdi>{}</bdi> has no finished game.").format(player.player)
    rate, within = value_of(player.win_rate, "share"), _within(player.win_rate, "share")
    said = "<bdi>{}</bdi> wins {} of {} games{}."
    return Markup(said).format(player.player, rate, number(player.games, 0), within)


def _place(player: Player) -> list[Markup]:
    if player.rank.low is None or player.rank.high is None:
        return []
    if player.rank.low == player.rank.high:
        return [Markup("Its first place is outside the reach of chance (95 % interval).")]
    said = "The games leave it any place from {} to {} (95 % interval)."
    return [Markup(said).format(number(player.rank.low, 0), number(player.rank.high, 0))]


def _within(estimate: Estimate, unit: str = "") -> str:
    between = interval_of(estimate, unit)
    return f" (95 % interval {between})" if between else ""


def _compared(comparison: Comparison) -> list[Markup]:
    names = comparison.player, comparison.baseline
    difference = comparison.difference
    if difference.value is None:
        said = "<bdi>{}</bdi> and <bdi>{}</bdi> have not yet played a common deal."
        return [Markup(said).format(*names)]
    sentences = [_verdict(comparison)]
    if comparison.deals is not None:
        said = (
            "Both played the same {} deals in the same seats, so most luck of the deal cancels out."
        )
        sentences.append(Markup(said).format(number(comparison.deals, 0)))
    if comparison.games_needed is not None:
        said = (
            "If the true difference is this large, about {} pairs of games are enough to show it."
        )
        sentences.append(Markup(said).format(number(comparison.games_needed, 0)))
    clean = comparison.clean_difference
    if clean.value is not None and clean.n < (comparison.deals or 0):
        said = "Without games that had fallback moves: {} points{}."
        sentences.append(Markup(said).format(points(clean), _within(clean, "share")))
    return sentences


def _verdict(comparison: Comparison) -> Markup:
    difference = comparison.difference
    low, high = difference.low, difference.high
    size = f"{points(difference)} percentage points{_within(difference, 'share')}"
    if low is None or high is None:
        said = "<bdi>{}</bdi> against <bdi>{}</bdi>: {}; how sure that is, is not known."
        return Markup(said).format(comparison.player, comparison.baseline, size)
    if low > 0 or high < 0:
        said = "<bdi>{}</bdi> wins {} often than <bdi>{}</bdi>: {}."
        more = "more" if low > 0 else "less"
        return Markup(said).format(comparison.player, more, comparison.baseline, size)
    said = "Between <bdi>{}</bdi> and <bdi>{}</bdi> nothing is decided: {}, which includes 0."
    return Markup(said).format(comparison.player, comparison.baseline, size)


def points(difference: Estimate) -> str:
    """A difference of two shares, in percentage points, with its sign."""
    if difference.value is None:
        return "–"
    size = number(difference.value * 100, _digits(difference, "share"))
    return f"+{size}" if difference.value > 0 else size
