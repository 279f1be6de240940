"""Films of games, as MP4 or GIF: pictures of the viewer's own drawings, one for each position.

The tables of games are drawn by scripts of the page, so a browser of this machine draws the frames,
without a window. It gets one HTML file with the documents of one perspective and can load nothing
else; a film through the eyes of one seat is made from what that seat could know.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from arena.core.errors import UsageError
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay

FilmFormat = Literal["gif", "mp4"]
SIZES: dict[FilmFormat, str] = {"mp4": "1280x720", "gif": "800x450"}

FrameSink = Callable[[bytes], object]
"""Function that takes the next frame, a PNG. Raises OSError if it cannot be written."""

MIN_SIDE, MAX_SIDE = 240, 3840
"""Pixels of a side of the frame."""
MIN_SECONDS, MAX_SECONDS = 0.1, 60.0
"""An MP4 has ten frames per second."""
LAST_SECONDS = 4.0
"""Time of the last position, which shows the result, unless all positions take longer."""
MAX_FRAMES = 2000
"""A GIF of more frames would need gigabytes of memory."""


@dataclass(frozen=True, slots=True)
class FrameSize:
    """Size of the frames in pixels. Both numbers are even: H.264 needs that."""

    width: int
    height: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read WIDTHxHEIGHT. Raises UsageError."""
        match = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text)
        sides = [int(side) for side in match.groups()] if match else []
        if not sides or any(side % 2 or not MIN_SIDE <= side <= MAX_SIDE for side in sides):
            raise UsageError(
                f"--set size={text}: give WIDTHxHEIGHT in pixels, even numbers from {MIN_SIDE} to "
                f"{MAX_SIDE}, such as 1280x720"
            )
        return cls(*sides)


@dataclass(frozen=True, slots=True)
class FilmOptions:
    """One film.

    Attributes:
        first: The first position.
        last: The last position.
        size: The size of the frames.
        seconds: Time of each position except the last.
        dark: Dark colours instead of light ones.
    """

    first: int
    last: int
    size: FrameSize
    seconds: float = 1.0
    dark: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a film that cannot be made."""
        if not MIN_SECONDS <= self.seconds <= MAX_SECONDS:
            raise UsageError(
                f"--set seconds={self.seconds:g}: each position takes {MIN_SECONDS:g} to "
                f"{MAX_SECONDS:g} seconds"
            )
        if self.first > self.last:
            raise UsageError(f"a film from position {self.first} to {self.last} has no frames")
        if len(self.positions) > MAX_FRAMES:
            raise UsageError(
                f"positions {self.first} to {self.last} are {len(self.positions)} frames, and a "
                f"film has at most {MAX_FRAMES}: choose a part with --position and until"
            )

    @classmethod
    def of(
        cls,
        replay: Replay,
        film_format: FilmFormat,
        first: int | None = None,
        last: int | None = None,
        size: FrameSize | None = None,
        seconds: float = 1.0,
        dark: bool = False,
    ) -> Self:
        """Return the options of a film of a game. Raises UsageError if it cannot be made.

        By default it starts after the deal, where the viewer opens the game too, and ends with the
        game, and has the size of its format.
        """
        last = len(replay.moves) if last is None else last
        deals = (at for at, move in enumerate(replay.moves) if isinstance(move, DecisionLine))
        first = min(next(deals, 0), last) if first is None else first
        return cls(first, last, size or FrameSize.parse(SIZES[film_format]), seconds, dark)

    @property
    def positions(self) -> range:
        """The positions, one frame for each."""
        return range(self.first, self.last + 1)

    @property
    def durations(self) -> list[float]:
        """Seconds of each frame."""
        return [self.seconds] * (len(self.positions) - 1) + [max(self.seconds, LAST_SECONDS)]
