"""Casual and indirect English, rewritten into the forms of the phrase book.

Models and people say the same thing in many ways; each rule of `wording.txt` stands for a class of
them. `CASUAL` rewrites plain text in lower case, before names become tokens; `QUESTIONED` rewrites
a text of tokens (see `phrases`), `INDIRECT` one sentence of it.
"""

from __future__ import annotations

import re
from importlib.resources import files

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
CASUAL, QUESTIONED, INDIRECT = (_SECTIONS[name] for name in ("CASUAL", "QUESTIONED", "INDIRECT"))


def rewrite(text: str, rules: Rules) -> str:
    """Apply each rule once, in order."""
    for pattern, words in rules:
        text = pattern.sub(words, text)
    return text
