"""Notebook of a model: what it has deduced, in its own words, before its actions.

An entry is at the beginning of a reply. It names what newly follows: what places cannot hold, of
which things they hold at least one, what is certain, and what the place that holds one thing of
each kind may hold:

    <notes>
    Player 1 lacks Mrs White, Hall
    Player 2 has Rope or Study
    Dagger: Player 2
    Envelope: Miss Scarlett, Mrs White; Rope; Hall, Study
    </notes>

It is read as a thought, not as an action, and stays in the chat: the model reads its own entries at
later decisions. A later line about a thing replaces the earlier one, and `Rope: ?` takes it back.
"""

from __future__ import annotations

import json
import re

NOTES, NOTES_END = "<notes>\n", "</notes>\n"
"""Marks around an entry."""
UNKNOWN = "?"
LACKS, HAS, OR = " lacks ", " has ", " or "


def split_entry(reply: str) -> tuple[str, str]:
    """Return the notebook entry at the beginning of a reply, with its marks, and the rest."""
    if not reply.startswith(NOTES) or NOTES_END not in reply:
        return "", reply
    entry, _, rest = reply.partition(NOTES_END)
    return entry + NOTES_END, rest


class ModelNotebook:
    """Reads the entries of one chat: what they say together, whether it is right or not.

    Attributes:
        single: Name of the place that holds one thing of each kind; empty if there is none.
        certain: Place of each thing that is certain.
        lacks: Pairs of a place and a thing that it cannot hold.
        one_of: Places with things of which they hold at least one.
        left: The latest line about the single place.
    """

    def __init__(self, single: str) -> None:
        self.single = single
        self.forget()

    def forget(self) -> None:
        """Begin again: the chat is rebuilt, without the entries."""
        self.certain: dict[str, str] = {}
        self.lacks: set[tuple[str, str]] = set()
        self.one_of: set[tuple[str, tuple[str, ...]]] = set()
        self.left = ""

    def read(self, reply: str) -> None:
        """Read the entry of a reply; do nothing if it has none."""
        for line in split_entry(reply)[0].splitlines():
            name, colon, place = line.partition(": ")
            if name == self.single:
                self.left = line
            elif place == UNKNOWN:
                self.certain.pop(name, None)
            elif colon:
                self.certain[name] = place
            elif LACKS in line:
                name, _, things = line.partition(LACKS)
                self.lacks.update((name, thing) for thing in things.split(", "))
            elif HAS in line:
                name, _, things = line.partition(HAS)
                self.one_of.add((name, tuple(things.split(OR))))

    def statement(self) -> str:
        """Return the beliefs as JSON; what the single place may hold is equally likely there."""
        parts = re.split("; ?", self.left.partition(": ")[2])
        kinds = [part.split(", ") for part in parts if part]
        shares = {thing: 1 / len(kind) for kind in kinds for thing in kind}
        sure = self.certain | {kind[0]: self.single for kind in kinds if len(kind) == 1}
        return json.dumps({"sure": sure, self.single.lower(): shares})
