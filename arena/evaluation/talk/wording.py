"""Speech as tokens, and its wording rewritten into the forms of the phrase book.

Models and people say the same thing in many ways; each rule of `wording.txt` stands for a class of
them. `CASUAL` rewrites plain text in lower case, before names become tokens; `TOKENS` rewrites a
text of tokens (see `phrases`), `INDIRECT` one sentence of it. `HOLDINGS` are forms of claims about
values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from arena.core.claims import Vocabulary

LONGEST = 2000
"""Characters of a speech that are read."""
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MARKUP = re.compile(r"<[^<>]{0,80}>|[*_`#~|\[\]{}\\]")
_PLAYER = re.compile(r"(?<![\w@])(?:players?|seats?|p|no\.) ?(\d{1,3})\b(?!\d)")
_LIST = re.compile(
    # A comma alone joins only what goes on as a list: "@1, @2 and @3", "@1, @2 are".
    r"@([\d+]+)(?:,? (?:and|or|nor|&) |, (?=@[\d+]+(?:, @[\d+]+)*(?:,? (?:and|or|nor|&) @| "
    r"(?:are|were|both|all|look|seem|have|must|can|should|might|may)\b|$|[.!?;:])))(?=@)@([\d+]+)"
)
_ITEMS = re.compile(
    # "two hats and a ball": a number holds for its own item only.
    r"(?<!\d )(?<!two )(?<!three )(?<!four )(?<!one )"
    r"%([\d+]+)(?:,? (?:and|or|nor|&) |, )(?:the |(?<=\ba %\d and )a )?(?=%)%([\d+]+)"
)
_QUOTE = re.compile(r"(?:(?<=\s)|(?<=^)|(?<=:))(['\"])(?=\w).{1,300}?(?<=[\w.!?])\1(?=\W|$)")
_VALUE = r"(?:(?<=worth )|(?<=only )|(?<= me )|(?<=scores )|(?<= at )){0}\b|\b{0}(?= points?\b)"
"""A number in words that is a value."""
Rules = tuple[tuple[re.Pattern[str], str], ...]


def _read(text: str) -> dict[str, Rules]:
    """Return the rules of a file by section; its head explains the format."""
    names: dict[str, str] = {}
    sections: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    rules: list[tuple[re.Pattern[str], str]] = []
    for line in text.splitlines():
        if not line or line.startswith(";"):
            continue
        if section := re.fullmatch(r"\[([A-Z]+)\]", line):
            rules = sections.setdefault(section[1], [])
            continue
        left, sign, right = re.split(r"( := |  =>  )", line, maxsplit=1)
        if sign == " := ":
            names[left] = right
        else:
            pattern = re.sub(r"\{([A-Z]+)\}", lambda found: names[found[1]], left)
            # Quotes show a space at the end.
            rules.append((re.compile(pattern), right.removeprefix('"').removesuffix('"')))
    return {name: tuple(found) for name, found in sections.items()}


_SECTIONS = _read(files("arena.evaluation.talk").joinpath("wording.txt").read_text("utf-8"))
CASUAL, TOKENS, INDIRECT, HOLDINGS = (
    _SECTIONS[name] for name in ("CASUAL", "TOKENS", "INDIRECT", "HOLDINGS")
)


def rewrite(text: str, rules: Rules) -> str:
    """Apply each rule once, in order."""
    for pattern, words in rules:
        text = pattern.sub(words, text)
    return text


@lru_cache(maxsize=16)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of whole phrases; longer ones are tried first."""
    ordered = sorted(words, key=len, reverse=True)
    return re.compile(rf"(?<![\w@#%&'])(?:{'|'.join(map(re.escape, ordered))})(?!\w)")


def _replace(text: str, sign: str, table: Mapping[str, int]) -> str:
    """Replace phrases by the token of what they name."""
    return _pattern(tuple(table)).sub(lambda found: f"{sign}{table[found[0]]}", text)


def _join(text: str, pattern: re.Pattern[str], sign: str) -> str:
    """Join lists of tokens: `@1, @2 and @3` to `@1+2+3`."""
    # One step for each name, of which there are at most as many as players.
    for _ in range(12):
        joined = pattern.sub(rf"{sign}\1+\2", text)
        if joined == text:
            break
        text = joined
    return text


def tokenise(text: str, vocabulary: Vocabulary) -> str:
    """Return a speech in lower case, with tokens for players, roles, items and acts."""
    plain = text[:LONGEST].replace("’", "'").replace("‘", "'")
    plain = plain.replace("“", '"').replace("”", '"').replace("–", "-").replace("—", " - ")
    plain = " ".join(_MARKUP.sub(" ", plain).casefold().split())
    plain = rewrite(_QUOTE.sub(" quote ", plain), CASUAL)
    plain = _PLAYER.sub(r"@\1", plain)
    named = (("#", vocabulary.groups), ("&", vocabulary.acts), ("%", vocabulary.items))
    for sign, names in named:
        table = {word: n for n, words in enumerate(names.values()) for word in words}
        if table:
            plain = _replace(plain, sign, table)
    plain = rewrite(plain, TOKENS)
    plain = _join(_join(plain, _LIST, "@"), _ITEMS, "%")
    for number, word in enumerate(_NUMBERS):
        plain = re.sub(_VALUE.format(word), str(number), plain)
    return plain
