"""Sanitizing and shortening of text from outside, and text forms of counts and durations."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue, ValidationError

LONGEST_QUOTE = 200
"""Characters of a quotation of external text in a message."""
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    "\u180b-\u180d\u180f\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
"""Letters and marks that show nothing, although Unicode counts them as visible: fillers, the blank
Braille pattern and variation selectors, but for the two that choose how an emoji looks."""


def encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Make text safe for a file or a terminal: no lone surrogates, no control characters."""
    # Escape sequences could move the cursor or change the title of a terminal.
    return "".join(c if c.isprintable() else " " for c in encodable(text))


def one_line(text: str) -> str:
    """Return free text as players may exchange it: one line, without invisible characters.

    Control and format characters (Unicode categories C*) could move a cursor, reverse the direction
    of writing or hide words, and so could letters that show nothing. Double quotes become single
    ones, so that a quotation of the text between double quotes ends where it seems to end. Quotes
    around the whole text are left out.
    """
    words = _BLANK.sub("", " ".join(text.split()))
    visible = "".join(c for c in words if unicodedata.category(c)[0] != "C")
    # Composed last: an invisible character may have parted a letter from its accent.
    line = " ".join(unicodedata.normalize("NFC", visible).split())
    # Repeated, so that the result is its own form: there may be quotes within quotes.
    while (inner := _without_quotes(line)) != line:
        line = inner
    return line


def _without_quotes(line: str) -> str:
    """Return a line without one pair of quotes around it, and with single quotes for double."""
    if len(line) > 1 and line[0] in '"“' and line[-1] in '"”':
        return line[1:-1].strip()
    line = line.replace('"', "'")
    if len(line) > 1 and line[0] == line[-1] == "'" and line.count("'") == 2:
        return line[1:-1].strip()
    return line


def shorten(text: str, most: int = LONGEST_QUOTE) -> str:
    """Return printable text of at most `most` characters; an ellipsis replaces the middle.

    A message starts with the quotation and ends with the finding ("'…' is not an action of this
    game"), so both ends are kept.
    """
    if len(text) > most:
        # Two thirds for the beginning, one third for the end, and one character for the ellipsis.
        tail = most // 3
        text = f"{text[: most - tail - 1]}…{text[-tail:]}"
    return printable(text)


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun: `1 game`, `2 games`, `3 plies`.

    If `noun` has several words, the last one takes the plural.
    """
    if number == 1:
        return f"1 {noun}"
    # "ply" becomes "plies", but "day" becomes "days".
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}s"


def per_cent(share: float) -> str:
    """Return a share from 0 to 1 as text: `14 %`."""
    return f"{100 * share:.0f} %"


def read_value(text: str) -> JsonValue:
    """Return the value of an option as a person writes it: JSON, or else a word without quotes."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def first_fault(error: ValidationError, whole: str = "") -> str:
    """Return the first error in one line: the field, or else `whole`, and the message."""
    # Without the input, which may be a key in the wrong place.
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"])) or whole
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def explain_options(name: str, options: type[BaseModel], error: ValidationError) -> str:
    """Return the first error in one line, with the allowed values."""
    # One fault is enough for one line.
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(options.model_fields) or "none"
        return f"{name} has no option '{field}'; its options are: {known}"
    message = first["msg"].removeprefix("Value error, ")
    prefix = f"{name}: option {field}={first['input']!r}: " if field else f"{name}: "
    return prefix + message[0].lower() + message[1:]


def clock(seconds: float) -> str:
    """Return `0:07`, `12:40` or `3:05:00`; a dash if the number is not finite."""
    if not math.isfinite(seconds):
        return "–"
    minutes, second = divmod(round(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def duration_in_words(seconds: float) -> str:
    """Return `90 seconds`, `40 minutes` or `2.5 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"


def short_count(count: float | None) -> str:
    """Return `812`, `4.12k`, `23k` or `1.2M`; a dash if the count is unknown."""
    if count is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From 999.5 on, three digits would round up to 1000.
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def size_text(size: float) -> str:
    """Return `3.7 MB` or `1.2 GB`: bytes in decimal units."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


# Numbers: one style in all commands, pages and reports.
#
# - The minus sign is a real one, what is unknown is a dash, and 0 has no sign.
# - A share is a whole percentage, `54 %`. Only below 1 % it has a decimal, `0.4 %`, and so has one
#   that is known to less than 1 %. One that is nearly but not quite everything is `>99 %`.
# - Information has two decimals: `7.90 bits`.
#
# Texts that models read have wordings of their own, which checkpoints depend on.

MINUS, UNKNOWN = "−", "–"
COMMAS_FROM = 10_000
"""Size of a number from which thousands have commas."""


def decimal(value: float | None, digits: int = 2, signed: bool = False) -> str:
    """Return `12,345.6`, `−0.50` or `–`; 0 never has a sign."""
    if value is None:
        return UNKNOWN
    if not round(value, digits):
        return f"{0:.{digits}f}"
    comma = "," if abs(value) >= COMMAS_FROM else ""
    return f"{value:{'+' if signed else ''}{comma}.{digits}f}".replace("-", MINUS)


def share_digits(share: float | None) -> int:
    """Return the decimals of a share in per cent: one below 1 %, else none."""
    return int(share is not None and 0 < abs(share) < 0.00995)


def percentage(share: float | None) -> str:
    """Return a share from 0 to 1 as text: `14 %`, `0.4 %`, `<0.1 %`, `>99 %`."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{decimal(100 * share, share_digits(share))} %"


def bits_text(bits: float | None) -> str:
    """Return an amount of information: `7.90 bits`."""
    return UNKNOWN if bits is None else f"{decimal(bits)} bits"


def real_minus(text: str) -> str:
    """Replace the hyphens before negative numbers in a text by minus signs."""
    return re.sub(r"(?<![\w\-.])-(?=\d)", MINUS, text)
