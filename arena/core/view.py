"""What a viewer's page draws of a game's table: the seam between a game and a browser.

A game registers its scene as `catalog.add("scene", GAME, "module:Class")`; a class that is called
with the game and the seat that looks on (None: everything is open) and is a `Scene`. It is made
from events only, those that the seat has witnessed, so that it cannot show what the seat does not
know. Games without a scene are shown by their `diagram` and their events.

Its ES module has one function:

    export function draw(scene, context)

`scene` is what `to_json` gave, `context` has `game` (name), `options`, `seats` (their names),
`specs`, `seat` (number or null), `before` (the scene one ply earlier, or null: what has changed may
be marked), and `h(tag, attributes, ...children)` and `s(...)`, which make HTML and SVG elements;
strings become text, never markup. It returns one element, with a text form for who cannot see it.
It imports nothing and asks for nothing: the page's policy would refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from arena.core.event import Event
from arena.core.json import Json

if TYPE_CHECKING:
    from rich.console import RenderableType


class Scene(Protocol):
    """The table as one viewer sees it; it grows event by event."""

    module: ClassVar[Path]
    """The file of the ES module that draws it."""

    def update(self, event: Event) -> None:
        """Take in one more event that the viewer witnessed."""

    def to_json(self) -> Json:
        """The table now, as the module expects it; a value that does not change later."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A rich renderable and its height. At most 80 columns by 14 lines, to fit beside the talk."""

    renderable: RenderableType
    lines: int
    seat_notes: Mapping[int, str] = field(default_factory=dict)
    """A word on a seat that its line should show, for example that it is out."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """The picture's signs and what they mean; at most seven, of a few words each."""
