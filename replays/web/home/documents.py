"""Documents of the home page, as the server sends them."""

from __future__ import annotations

from typing import Literal, TypedDict

EntryKind = Literal["eval", "tournament", "train"]


class EntryJson(TypedDict):
    """One evaluation, tournament or training run in the list."""

    kind: EntryKind
    path: str
    """Path of its folder, relative to the served folder."""
    title: str
    facts: list[str]
    status: str
    """`running`, `finished`, `interrupted`, `unreadable`, …"""
    changed: str
    """Time of the last change, in UTC."""
    bytes: int
    opens: bool
    """True if there is a report of it."""
    error: str | None
    """Reason why it cannot be read."""


class HomeJson(TypedDict):
    """Everything in the folder but games."""

    root: str
    entries: list[EntryJson]
    """The last changed first."""
    left_out: int
    """Entries that are not listed because there are too many."""
    games: int
    unread: int
    """Replays that were found but not read yet."""
