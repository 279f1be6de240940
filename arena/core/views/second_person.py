"""Texts about a game for the person who plays it: "you" instead of the name of the own seat.

The texts of games name every player by number ("Player 0 suggests ..."), because models read them.
A person reads "You suggest ...". The rules are patterns over the sentences that games write, so a
game needs no second wording of its events:

- The own name before a verb in the third person is the subject: "Player 0 is wrong" becomes "You
  are wrong", and later verbs of the sentence follow ("... and are wrong").
- "The ships of Player 0" become "your ships", "Player 0's" becomes "your".
- Everywhere else the name is an object or an item of a list: "Player 1 shows you: Rope".

Speech between double quotes stays as it was spoken.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from arena.core.tabletop import Panel, Tabletop, TileRow

_NUMBERED = re.compile(r"Player \d+")
_QUOTED = re.compile(r'("[^"]*")')
_IRREGULAR = {"is": "are", "has": "have", "was": "were", "does": "do", "goes": "go"}
_NO_VERBS = frozenset({"this", "as", "his", "its", "us", "thus"})
"""Words in -s that may follow a name and are no verbs in the third person."""
_LATER_VERB = re.compile(
    r"\b((?:and|but|who)(?: still)? )(is|has|was|does|gives|shows|names|wins|loses|reveals)\b"
)


def second_person(text: str, name: str) -> str:
    """Return a text for the player with this name: "Player 0 holds" becomes "You hold".

    Names that are no "Player N" could be words of the text, so they stay.
    """
    if not _NUMBERED.fullmatch(name) or name not in text:
        return text
    return "\n".join(_line(line, name) for line in text.split("\n"))


def table_for(table: Tabletop, name: str) -> Tabletop:
    """Return a table with "you" for the player with this name."""
    return Tabletop(
        tuple(_panel_for(panel, name) for panel in table.panels), second_person(table.caption, name)
    )


def base_form(verb: str) -> str:
    """Return the form of a regular or common verb that follows "you": "passes" becomes "pass"."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    # "passes", "watches", "pushes", "boxes" end in -es; "chooses" and "raises" only in -s.
    if re.search(r"(?:ss|ch|sh|x|zz)es$", verb):
        return verb[:-2]
    return verb[:-1]


def _panel_for(panel: Panel, name: str) -> Panel:
    return replace(
        panel,
        title=second_person(panel.title, name),
        rows=tuple(_row_for(row, name) for row in panel.rows),
        columns=tuple(second_person(column, name) for column in panel.columns),
        lines=tuple(second_person(line, name) for line in panel.lines),
    )


def _row_for(row: TileRow, name: str) -> TileRow:
    return replace(row, name=second_person(row.name, name), note=second_person(row.note, name))


def _line(line: str, name: str) -> str:
    """Return one line; the parts between double quotes stay."""
    # "You are Player 0" has to name the seat: the other players use this name in speech.
    if line.startswith(f"You are {name}"):
        return line
    parts = _QUOTED.split(line)
    # Every second part is a quotation.
    parts[::2] = [_addressed(part, name) for part in parts[::2]]
    return _capitalised("".join(parts))


def _addressed(text: str, name: str) -> str:
    patterns = _patterns(name)
    text = patterns.own_turn.sub(r"\1your turn.", text)
    text = patterns.owned.sub(lambda match: f"{match[1] or ''}your {match[2].lower()}", text)
    text = patterns.possessive.sub("your", text)
    text = patterns.subject.sub(_verb, text)
    return patterns.name.sub("you", text)


def _verb(match: re.Match[str]) -> str:
    aside, verb, rest = match["aside"] or "", match["verb"], match["rest"]
    if verb in _NO_VERBS:
        return f"you{aside} {verb}{rest}"
    later = _LATER_VERB.sub(lambda each: each[1] + base_form(each[2]), rest)
    return f"you{aside} {base_form(verb)}{later}"


class _Patterns:
    """The patterns for one name."""

    def __init__(self, name: str) -> None:
        own = rf"\b{re.escape(name)}\b"
        # In "Mission 1 of Player 2, Player 0 fails" the verb belongs to the mission.
        listed = r"(?<!Player \d, )(?<!Player \d and )(?<! of )"
        self.name = re.compile(own)
        self.own_turn = re.compile(rf"^(Turn \d+: ){own}\.$")
        # The owner alone, not the first of several: "Mission 1 of Player 0, Player 2".
        self.owned = re.compile(
            rf"(^|\W)(?:[Tt]he )?([A-Za-z]+) of {own}(?!, Player| and Player| \(|'s)"
        )
        self.possessive = re.compile(rf"{own}['’]s\b")
        # Later verbs count up to the end of the sentence or to a new subject.
        self.subject = re.compile(
            rf"{listed}{own}(?P<aside> \([^)]*\)|, who)? (?P<verb>[a-z]+s)\b"
            r"(?P<rest>(?:(?!Player \d|\bit\b)[^.;])*)"
        )


@lru_cache(maxsize=64)
def _patterns(name: str) -> _Patterns:
    return _Patterns(name)


def _capitalised(line: str) -> str:
    """Return a line in which "you" begins sentences, and table cells, in upper case."""
    return re.sub(r"(^(?:- )?|[.!?] )you", lambda match: f"{match[1]}You", line)
