"""What a game's own picture of its table hands to a viewer in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Picture:
    """A rich renderable and its height. At most 80 columns by 14 lines, to fit beside the talk."""

    renderable: RenderableType
    lines: int
    seat_notes: Mapping[int, str] = field(default_factory=dict)
    """A word on a seat that its line should show, for example that it is out."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """The picture's signs and what they mean; at most seven, of a few words each."""
