"""Scenes for a web page and pictures for a terminal, for games that deserve drawings of their own.

Most games need neither: a `TableView` (see `tabletop`) is drawn everywhere. For a drawing of its
own, a game registers its scene with `catalog.add("scene", GAME, "module:Class")`. The class is
called with the game and the viewer's seat (None: the viewer sees everything) and is a `Scene`. It
is made only from the events that the seat has witnessed, so it cannot show hidden information.

The ES module of a scene has one function:

    export function draw(scene, context)

`scene` is the value of `to_json`. `context` has `game` (name), `options`, `seats` (their names),
`specs`, `seat` (number or null), `before` (the scene one ply earlier, or null: a scene may mark
changes), and `h(tag, attributes, ...children)` and `s(...)`, which create HTML and SVG elements;
strings become text, never markup. The function returns one element, with a text alternative for
people who cannot see it. It imports and requests nothing: the page's policy would block that.

Where people play in a browser, they can click elements with the attribute `data-action`, the text
of an action, or `data-value`, the value of a field of an action, such as a room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from arena.core.event import Event

if TYPE_CHECKING:
    from rich.console import RenderableType


class Scene(Protocol):
    """The table as one viewer sees it; it is updated event by event."""

    module: ClassVar[Path]
    """The file of the ES module that draws it."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""

    def to_json(self) -> Mapping[str, object]:
        """Return the table now, as the module expects it; the value does not change later.

        A JSON object: a dict or a `TypedDict` of values that the json module can write.
        """


@dataclass(frozen=True, slots=True)
class Picture:
    """A rich renderable and its height: at most 80 columns by 14 lines."""

    renderable: RenderableType
    lines: int
    seat_notes: Mapping[int, str] = field(default_factory=dict)
    """A short note about a seat for its line, for example that it is out of the game."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """Signs of the picture and their meanings; at most seven, of a few words each."""
