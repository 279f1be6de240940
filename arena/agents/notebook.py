"""Notebook of a model: what it has deduced, in its own words, before its actions.

An entry is at the beginning of a reply. It names what is newly certain, and what the place that
holds one thing of each kind may hold:

    <notes>
    Rope: Player 2
    Envelope: Miss Scarlett, Mrs White; Dagger; Hall, Study
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


def split_entry(reply: str) -> tuple[str, str]:
    """Return the notebook entry at the beginning of a reply, with its marks, and the rest."""
    if not reply.startswith(NOTES) or NOTES_END not in reply:
        return "", reply
    entry, _, rest = reply.partition(NOTES_END)
    return entry + NOTES_END, rest


class Notebook:
    """What the entries of one chat say together, whether it is right or not.

    Attributes:
        single: Name of the place that holds one thing of each kind; empty if there is none.
        certain: Place of each thing that is certain.
        left: The latest line about the single place.
    """

    def __init__(self, single: str) -> None:
        self.single = single
        self.forget()

    def forget(self) -> None:
        """Begin again: the chat is rebuilt, without the entries."""
        self.certain: dict[str, str] = {}
        self.left = ""

    def read(self, reply: str) -> bool:
        """Read the entry of a reply; return whether there is one."""
        entry = split_entry(reply)[0]
        for line in entry.splitlines():
            name, colon, place = line.partition(": ")
            if name == self.single:
                self.left = line
            elif place == UNKNOWN:
                self.certain.pop(name, None)
            elif colon:
                self.certain[name] = place
        return bool(entry)

    def statement(self) -> str:
        """Return the beliefs as JSON; what the single place may hold is equally likely there."""
        kinds = [part.split(", ") for part in re.split("; ?", self.left.partition(": ")[2])]
        shares = {thing: 1 / len(kind) for kind in kinds for thing in kind}
        return json.dumps({"sure": self.certain, self.single.lower(): shares})
