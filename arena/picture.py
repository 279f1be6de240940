"""What a game's own picture of its table hands to a viewer in the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Picture:
    """A rich renderable and its height. At most 80 columns by 14 lines, to fit beside the talk."""

    renderable: RenderableType
    lines: int
