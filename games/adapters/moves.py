"""Actions and events of games that another library plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from arena import Action, Event
from arena.core.text import printable

NO_ARRAY = b""


@dataclass(frozen=True, slots=True)
class LibraryMove(Action):
    """A move by its number in the library; `text` is the same at every position."""

    number: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class LibraryChance(Action):
    """A result of chance by its number in the library."""

    number: int
    label: str
    """The library's own text, which may not tell all results apart."""

    def __str__(self) -> str:
        return f"chance {self.number}: {self.label}"


@dataclass(frozen=True, slots=True)
class LibrarySeed(Action):
    """Chance: the seed from which the library draws everything that follows."""

    seed: int

    def __str__(self) -> str:
        return f"seed {self.seed}"


@dataclass(frozen=True, slots=True)
class LibraryMoved(Event):
    """A player has made a move; public only in games without hidden information."""

    player: int
    move: str
    public: bool

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.public else (self.player,)


@dataclass(frozen=True, slots=True)
class LibraryDrew(Event):
    """A result of chance. With hidden information the library's texts show who knows what of it,
    and only viewers who see everything get the event."""

    result: str
    public: bool

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.public else ()


@dataclass(frozen=True, slots=True)
class LibraryObserved(Event):
    """What the library shows to one player now: text, labels of its moves, and an array."""

    player: int
    text: str
    labels: tuple[str, ...]
    """The library's text of each legal move, in order, where it depends on the position."""
    array: bytes
    """Values as float32, for `arrays`; not part of a replay, which computes them again."""
    public: bool

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.public else (self.player,)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the event without its array."""
        fields: dict[str, Any] = {
            "event": type(self).__name__,
            "audience": None if self.public else [self.player],
            "player": self.player,
            "text": self.text,
            "labels": self.labels,
            "public": self.public,
        }
        return fields


def one_line_label(text: str) -> str:
    """Return a label of the library on one line, without control characters."""
    # Nearly all labels are in this form already; the check is faster than the change.
    return text if text.isprintable() else " ".join(printable(text).split())


def clean_lines(text: str) -> str:
    """Return a text of the library without control characters; lines and tabs stay."""
    if text.replace("\n", "").isprintable():
        return text.strip("\n")
    lines = (printable(line.expandtabs()).rstrip() for line in text.splitlines())
    return "\n".join(lines).strip("\n")
