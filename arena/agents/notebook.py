"""Notebook of a model: what it has deduced, in its own words, before its actions.

An entry is at the beginning of a reply and holds the whole table of a Cluedo player: which things
players newly turned out to lack, of which they have shown one, where each thing may be, and what
the place that holds one thing of each kind holds with certainty:

    <notes>
    Player 1, Player 3 lacks Mrs White, Rope, Study
    Player 2 has Rope or Study
    Player 1 has Hall
    Mrs White 2E
    Rope 12
    Hall 1
    Envelope: ?; Dagger; ?
    </notes>

Places are written by a label: `12` is "with Player 1 or Player 2", `E` is the envelope. The entry
is read as a thought, not as an action, and stays in the chat: the model reads its own entries at
later decisions. A later line about a thing replaces the earlier one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations

from arena.core.analysis import Placement

NOTES, NOTES_END = "<notes>\n", "</notes>\n"
"""Marks around an entry."""
UNKNOWN = "?"
LACKS, HAS, OR = " lacks ", " has ", " or "
LONGEST_NOTES = 2000
"""Characters of the notes of a scratchpad that are kept."""
MOST_PLACES = 7
"""Most places of a game: with more, the labels of a row have no common token."""


_BLOCK = re.compile(r"<notes>(.*?)</notes>", re.DOTALL | re.IGNORECASE)


def own_notes(reply: str) -> str | None:
    """Return the newest notes of a reply, cut to the length that is kept; None without notes."""
    blocks = _BLOCK.findall(reply)
    return blocks[-1].strip()[:LONGEST_NOTES] if blocks else None


def split_entry(reply: str) -> tuple[str, str]:
    """Return the notebook entry at the beginning of a reply, with its marks, and the rest."""
    if not reply.startswith(NOTES) or NOTES_END not in reply:
        return "", reply
    entry, _, rest = reply.partition(NOTES_END)
    return entry + NOTES_END, rest


def place_labels(places: Sequence[str]) -> tuple[str, ...]:
    """Return one character for each place: its number or initial, or else letters in order."""
    labels = tuple(place[-1] if place[-1].isdigit() else place[0] for place in places)
    if len(set(labels)) == len(labels):
        return labels
    return tuple(chr(ord("A") + number) for number in range(len(places)))


def row_ends(places: Sequence[str]) -> list[str]:
    """Return each end of a row, ` 12\\n`, for at most seven places; empty for more."""
    labels = place_labels(places) if len(places) <= MOST_PLACES else ()
    return [
        f" {''.join(chosen)}\n"
        for count in range(1, len(labels) + 1)
        for chosen in combinations(labels, count)
    ]


class ModelNotebook:
    """Reads the entries of one chat: what they say together, whether it is right or not.

    Attributes:
        single: Name of the place that holds one thing of each kind; empty if there is none.
        possible: Places that a thing may be in.
        left: The latest line about the single place.
    """

    def __init__(self, start: Placement) -> None:
        """`start` names things and places."""
        self.single = start.single
        self.places = dict(zip(place_labels(start.places), start.places, strict=True))
        self._kinds = dict(zip(start.things, start.kinds, strict=True))
        self.possible: dict[str, tuple[str, ...]] = {}
        self.left = ""

    def read(self, reply: str) -> None:
        """Read the entry of a reply; do nothing if it has none."""
        for line in split_entry(reply)[0].splitlines():
            thing, _, labels = line.rpartition(" ")
            if self.single and line.startswith(f"{self.single}: "):
                self.left = line
            elif thing in self._kinds and set(labels) <= self.places.keys():
                self.possible[thing] = tuple(self.places[label] for label in labels)

    def statement(self) -> str:
        """Return the beliefs as JSON; what the single place may hold is equally likely there."""
        sure = {thing: where[0] for thing, where in self.possible.items() if len(where) == 1}
        candidates = [thing for thing, where in self.possible.items() if self.single in where]
        kinds = [self._kinds[thing] for thing in candidates]
        shares = {thing: 1 / kinds.count(self._kinds[thing]) for thing in candidates}
        return json.dumps({"sure": sure, self.single.lower(): shares})
