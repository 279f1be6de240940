"""Intervals and options as text.

The style of numbers is that of all commands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from arena.core.outcome import WIN_RATE, ReturnScale
from arena.core.text import UNKNOWN, decimal, percentage, share_digits
from arena.evaluation.records import Interval

SHARES = ("share", "probability", "rate")
"""Units whose values are shown in per cent."""
NO_DECIMALS_FROM = 100
"""Size of a number from which intervals have no decimals."""


def number(interval: Interval, digits: int = 2, signed: bool = False) -> str:
    """Return `0.81 [0.78, 0.84]`; an unknown end is a dash."""
    if interval.value is not None and abs(interval.value) >= NO_DECIMALS_FROM:
        digits = 0
    return _with_ends(interval, 1, digits, signed, "")


def percent(interval: Interval, signed: bool = False) -> str:
    """Return `54 % [48, 60]`, or for a difference of shares `+12 points [+3, +21]`."""
    digits = _share_digits(interval)
    return _with_ends(interval, 100, digits, signed, " points" if signed else " %")


def amount(interval: Interval, scale: ReturnScale, signed: bool = False) -> str:
    """Return `−0.17 chips [−0.22, −0.11]`, or for shares as `percent`, by the unit of the scale."""
    if scale.unit == "share":
        return percent(interval, signed)
    return _with_ends(interval, 1, 2, signed, f" {scale.unit}" if scale.unit else "")


def percent_range(bounds: Interval) -> str:
    """Return `48 to 60 %` for bounds without a value."""
    return amount_range(bounds, WIN_RATE)


def amount_range(bounds: Interval, scale: ReturnScale, signed: bool = False) -> str:
    """Return `48 to 60 %`, or `−3 to +21 points`, for bounds without a value, by the unit."""
    if bounds.low is None or bounds.high is None:
        return UNKNOWN
    is_share = scale.unit == "share"
    factor, digits = (100, 0) if is_share else (1, 2)
    low, high = (decimal(factor * end, digits, signed) for end in (bounds.low, bounds.high))
    unit = ("points" if signed else "%") if is_share else scale.unit
    return f"{low} to {high} {unit}".rstrip()


def _with_ends(interval: Interval, scale: int, digits: int, signed: bool, unit: str) -> str:
    """Return the value, and its ends if it and at least one of them are known."""

    def text(end: float | None) -> str:
        return decimal(None if end is None else scale * end, digits, signed)

    if interval.value is None:
        return UNKNOWN
    value = f"{text(interval.value)}{unit}"
    if interval.low is None and interval.high is None:
        return value
    return f"{value} [{text(interval.low)}, {text(interval.high)}]"


def in_unit(unit: str, interval: Interval, digits: int = 2, signed: bool = False) -> str:
    """Return the interval of a measure that has this unit."""
    if unit in SHARES:
        return percent(interval, signed)
    return number(interval, digits, signed)


def p_text(p: float | None) -> str:
    """Return a p-value: `0.012`, `<0.001`, or `–`."""
    if p is None or p >= 0.001:
        return decimal(p, 3)
    return "<0.001"


def par_text(par: float | None) -> str:
    """Return ` (par 33 %)` to print beside win rates; empty if par is not known."""
    return "" if par is None else f" (par {percentage(par)})"


def rank_text(rank: Interval) -> str:
    """Return `2`, or `1–3` if the interval contains several ranks."""
    if rank.low is None or rank.high is None:
        return decimal(rank.value, 0)
    low, high = decimal(rank.low, 0), decimal(rank.high, 0)
    return low if low == high else f"{low}–{high}"


def _share_digits(interval: Interval) -> int:
    """Return 1 if the share, or the half width of its interval, is below 1 %; else 0.

    Up to 3 if nearly everything would otherwise be shown as 100 %.
    """
    digits, size = share_digits(interval.value), abs(interval.value or 0.0)
    if interval.low is not None and interval.high is not None and interval.high > interval.low:
        digits = max(digits, share_digits((interval.high - interval.low) / 2))
    while size < 1 and digits < 3 and round(100 * size, digits) == 100:
        digits += 1
    return digits


def options_in_words(options: Mapping[str, JsonValue]) -> list[str]:
    """Return `4 players`, `no board`, `cards` for num_players=4, board=False, variant="cards"."""
    return [_option(name, value) for name, value in options.items() if value is not None]


def _option(name: str, value: JsonValue) -> str:
    words = name.replace("_", " ")
    match value:
        case bool():
            return words if value else f"no {words}"
        case int() | float() if words.startswith("num "):
            return f"{value} {words[4:]}"
        case int() if words == "players":
            return f"{value} players"
        case str() if name in {"variant", "rules"}:
            return value
        case _:
            return f"{words} {json_text(value)}"


def json_text(value: JsonValue) -> str:
    """Return text unchanged and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
