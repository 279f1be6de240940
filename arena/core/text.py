"""Sanitizing and shortening of text from outside, and text forms of counts and durations."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue, ValidationError
    from pydantic_core import ErrorDetails

LONGEST_QUOTE = 200
"""Characters of a quotation of external text in a message."""
# Tables instead of Unicode's properties: those of characters that were added later depend on the
# version of Python, and a replay must read the same in all of them.
_INVISIBLE = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\ufffc"
    "\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
    # Letters and marks that show nothing: fillers, blanks, joiners and variation selectors.
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u2d7f\u3164\ufe00-\ufe0f\uffa0"
    "\U00013441\U00013442\U0001107f\U00016fe4\U0001d159]"
    # But for the two that choose how an emoji looks.
    "(?<![#*0-9\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u275a\u2763-\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff][\ufe0e\ufe0f])"
)
"""Control and format characters, surrogates, private use, and whatever else shows nothing."""
_DOUBLE = (
    '"\xab\xbb\u02ba\u02dd\u02ee\u02f5\u02f6\u030b\u030e\u030f\u0348\u05f2\u05f4\u1cd3\u201c-\u201f'
    "\u2033\u2034\u2036\u2037\u2039\u203a\u2057\u275d\u275e\u2760\u276e\u276f\u2e42\u3003\u300c-\u300f"
    "\u301d-\u301f\ufe41-\ufe44\uff02\uff62\uff63\U0001f676-\U0001f678"
)
"""Quotation marks, and what looks like a double one."""
_SINGLE = (
    "'`\xb4\u02b9\u02bb-\u02bf\u02c8\u02ca\u02cb\u02f4\u0384\u055a\u055b\u055d\u05f3\u07f4\u07f5\u2018-\u201b"
    "\u2032\u2035\u275b\u275c\u275f\ua78c\uff07\uff40"
)
"""Characters like a single quotation mark, two of which look like a double one."""
_QUOTE = re.compile(f"[{_SINGLE}{_DOUBLE}]{{2,}}|[{_DOUBLE}]")
_ENCLOSED = re.compile(f"[{_DOUBLE}](.+)[{_DOUBLE}]|'([^']+)'")
_ACCENTED = re.compile("[A-Za-z\xc0-\u1fff][\u0300-\u036f]+")
"""Letters that compose in the same way in all versions of Unicode."""
_LOOK_ALIKE = str.maketrans(  # Capital letters count too: В and в, Η and η.
    "01iı|авеіјкӏмнорстухһѕԁԛԝαβεικμνορτυχηζ", "ollllabeljklmhopctyxhsdqwabelkmvoptuxhz"
)
"""Digits, Cyrillic and Greek letters, and the Latin ones that they look like."""
_OPENING, _CLOSING, _BAR = "<＜﹤", ">＞﹥", "|｜"
"""Characters of control tokens; some tokenizers normalize the full-width ones."""
_TURN = (
    # <|im_start|>, <turn|>, DeepSeek's <｜User｜>; <s>; [|user|], [INST], [TOOL_CALLS].
    rf"(?<=[{_OPENING}])(?=[{_BAR}])|(?<=[{_BAR}])(?=[{_CLOSING}])"
    rf"|(?<=[{_OPENING}])(?=/?(?:s|[be]os|pad|unk|(?:start|end)_of_turn)[{_CLOSING}])"
    r"|(?<=\[)(?=\|[^|\s]{1,40}\|\]|/?(?:INST|THINK|IMG|[BE]OS|[gs]?MASK|[A-Z]+_[A-Z_]+)\])"
)
_TAG = rf"{_TURN}|(?<=[{_OPENING}])(?=/?[^\s/{_OPENING}{_CLOSING}]{{2,60}}[{_CLOSING}])"
# The set of first characters lets the search skip all others.
_TURN_TOKENS, _TAGS = (re.compile(rf"[{_OPENING}{_BAR}\[](?:{each})") for each in (_TURN, _TAG))

_FORMULA = re.compile("[\t\r\n]| *[=+\\-@＝＋－＠]")


def encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Make text safe for a file or a terminal: no lone surrogates, no control characters."""
    # Escape sequences could move the cursor or change the title of a terminal.
    return "".join(c if c.isprintable() else " " for c in encodable(text))


@lru_cache(maxsize=1024)  # A prompt quotes all that was said before.
def one_line(text: str) -> str:
    """Return free text as players may exchange it: one line, without invisible characters.

    Those could move a cursor, reverse the direction of writing or hide words. Quotation marks of
    any form become a single one, so that a quotation of the text between double quotes ends where
    it seems to end. Quotes around the whole text are left out.
    """
    visible = " ".join(_INVISIBLE.sub("", " ".join(text.split())).split())
    # Composed last: an invisible character may have parted a letter from its accent.
    line = _ACCENTED.sub(lambda letter: normalize("NFC", letter[0]), visible)
    # Repeated, so that the result is its own form: there may be quotes within quotes.
    while (inner := _without_quotes(line)) != line:
        line = inner
    return line


def _without_quotes(line: str) -> str:
    """Return a line without one pair of quotes around it, or with single quotes for double."""
    if enclosed := _ENCLOSED.fullmatch(line):
        return (enclosed[1] or enclosed[2]).strip()
    return _INVISIBLE.sub("", _QUOTE.sub("'", line))


def plain_letters(text: str) -> str:
    """Return text with ordinary letters in place of full-width ones and other forms (NFKC).

    Letter by letter: to normalise many combining marks together takes quadratic time.
    """
    return text if text.isascii() else "".join(normalize("NFKC", letter) for letter in text)


def appearance(name: str) -> str:
    """Return a form of a name that is equal for names that look alike: Anna, АNNА, Ànna.

    A short version of the skeletons of Unicode's technical standard 39.
    """
    letters = (c for c in normalize("NFKD", name.casefold()) if not combining(c))
    return " ".join("".join(letters).translate(_LOOK_ALIKE).replace("rn", "m").split())


def quote(text: str) -> str:
    """Return free text between double quotes, none of which is within the text."""
    return f'"{one_line(text)}"'


def neutralise(text: str, *, is_answer: bool = False) -> str:
    """Return text for a chat, in which no control token of a known chat template is spelled out.

    A space parts the first character of such a spelling from the others, `< |im_end|>`: a server
    that tokenizes a rendered chat would read the whole spelling as the end of a turn. All tags of
    at least two characters are parted, `< think>`. In the answer of a model only the tokens that
    separate turns are: tags belong to its format.
    """
    return (_TURN_TOKENS if is_answer else _TAGS).sub(r"\g<0> ", text)


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


def cut(text: str, length: int) -> str:
    """Return the beginning of a long text, with a note of how much is missing."""
    missing = len(text) - length
    return text if missing <= 0 else f"{text[:length]}… ({missing:,} more characters)"


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


def listed(words: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


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


def json_object(answer: str) -> dict[str, JsonValue]:
    """Return the JSON object from the first brace of a text to its last one; {} without one."""
    found = read_value(answer[answer.find("{") : answer.rfind("}") + 1])
    return found if isinstance(found, dict) else {}


def spreadsheet_row(cells: Iterable[object]) -> list[object]:
    """Return the cells of a line of CSV; text that a spreadsheet would compute is quoted.

    Numbers stay numbers. The quote is an apostrophe, which spreadsheets take for "this is text".
    """
    # Blanks at the beginning are skipped by some, full-width characters are read as the others.
    return [
        f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in cells
    ]


def unique_json(text: bytes) -> JsonValue:
    """Read JSON. Raises ValueError for an object with a key twice: readers would differ on it."""
    value: JsonValue = json.loads(text, object_pairs_hook=_unique)
    return value


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {shorten(repr(twice), 40)} occurs twice")
    return fields


PLAIN_FAULTS = {
    **dict.fromkeys(("int_parsing", "int_from_float", "int_type"), "give a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "give a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "give true or false"),
    "missing": "a value is missing",
    "extra_forbidden": "no such field",
    "finite_number": "give a finite number",
    "string_type": "give a text",
    "dict_type": "give names with values",
    "greater_than_equal": "give at least {ge}",
    "greater_than": "give more than {gt}",
    "less_than_equal": "give at most {le}",
    "less_than": "give less than {lt}",
}
"""Messages for people by pydantic's type of error, with its context."""


def fault_message(fault: ErrorDetails) -> str:
    """Return what is wrong with a value, in words for people; the value is not quoted."""
    if fault["type"] == "literal_error":
        return f"choose {fault['ctx']['expected']}".replace("'", "")
    plain = PLAIN_FAULTS.get(fault["type"])
    if plain is not None:
        return plain.format(**fault.get("ctx", {}))
    message = fault["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def first_fault(error: ValidationError, whole: str = "") -> str:
    """Return the first error in one line: the field, or else `whole`, and the message."""
    # Without the input, which may be a key in the wrong place.
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or whole
    message = fault_message(first)
    return f"{place}: {message}" if place else message


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean 'NAME'? " for the known name that is most similar; "" without one."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"did you mean '{near[0]}'? " if near else ""


def explain_options(name: str, options: type[BaseModel], error: ValidationError) -> str:
    """Return the first error in one line, with the allowed values."""
    # One fault is enough for one line.
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(options.model_fields) or "none"
        near = did_you_mean(field, options.model_fields)
        return f"{name} has no option '{field}'; {near}its options are: {known}"
    message = fault_message(first)
    if first["type"] == "literal_error":
        # For example "0, 1 or 'statements'": only words can be misspelt.
        words = re.findall("'(.+?)'", first["ctx"]["expected"])
        message = did_you_mean(str(first["input"]), words) + message
    return (
        f"{name}: option {field}={first['input']!r}: {message}" if field else f"{name}: {message}"
    )


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
        return pluralize(round(seconds), "second")
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
