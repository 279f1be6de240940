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

from pathlib import Path
from typing import ClassVar, Protocol

from arena.observation import Event, Json


class Scene(Protocol):
    """The table as one viewer sees it; it grows event by event."""

    module: ClassVar[Path]
    """The file of the ES module that draws it."""

    def update(self, event: Event) -> None:
        """Take in one more event that the viewer witnessed."""

    def to_json(self) -> Json:
        """The table now, as the module expects it; a value that does not change later."""
