"""Arguments of one call of `arena replay`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.play_flags import ModelFlags
from arena.core.errors import UsageError
from arena.llm.config import Config, setting

if TYPE_CHECKING:
    from arena.episodes.replay import Replay


class LookFlags(Config):
    """Views of one replay in the terminal."""

    position: int | None = setting(None, "Look", ge=0)
    """Position N, after N plies."""
    seat: list[str] = setting([], "Look")
    """I: only what this seat could see; with --ask: at its decisions only. I=SPEC, with --branch:
    who plays on there."""
    verify: bool = setting(False, "Look", flag="--verify")
    """Play it again and compare."""
    print_schema: bool = setting(False, "Look", flag="--schema")
    """Print the format's schema."""
    svg: Path | None = setting(None, "Look")
    """Write the position to this picture."""


class PageFlags(Config):
    """Views of replays in a browser."""

    web: bool = setting(False, "Page", flag="--web")
    """Serve a page to a browser on this machine; takes --position, --seat."""
    port: int = setting(8765, "Page", ge=0, le=65535)
    """Of the page; 0: any that is free."""
    html: Path | None = setting(None, "Page")
    """Write the page with this one game to a file that works offline."""


class WhatIfFlags(Config):
    """Other players at the positions of a replay."""

    branch: int | None = setting(None, "What if", ge=0)
    """Play on from position N, after N plies."""
    ask: str | None = setting(None, "What if")
    """SPEC: ask this agent for its move at each decision of --seat."""
    seed: int | None = setting(None, "What if", ge=0, le=2**53)
    """Of chance from --branch on (default: drawn), and of what --ask draws (default: the seed of
    the replay)."""
    games: int = setting(1, "What if", ge=1, le=10**6)
    """Times to play on from --branch."""
    max_concurrent: int = setting(16, "What if", ge=1, le=10_000)
    """Games of --branch, or questions of --ask, at a time."""


class ExportFlags(Config):
    """Replays as data."""

    export: str | None = setting(None, "Data")
    """chat, parquet or art: what models read and wrote, as data. mp4 or gif: a film of one game."""
    reward: str | None = setting(None, "Data")
    """TERM=WEIGHT,…: what the column 'reward' of --export holds, in the words of arena train
    --reward. Default: the game's own reward."""
    out: Path | None = setting(None, "Data")
    """File of --export; folder of --branch (runs/branch)."""


class FilmFlags(Config):
    """Films: --export mp4 and gif. They show only what --seat may know, from --position on."""

    until: int | None = setting(None, "Film", flag=False, ge=0)
    """Last position of a film; --position is the first."""
    seconds: float = setting(1.0, "Film", flag=False)
    """Time of each position in a film."""
    size: str | None = setting(None, "Film", flag=False)
    """WIDTHxHEIGHT of a film. Default: 1280x720, gif 800x450."""
    dark: bool = setting(False, "Film", flag=False)
    """Make the film in dark colours."""


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of one call."""

    look: LookFlags
    page: PageFlags
    what_if: WhatIfFlags
    data: ExportFlags
    film: FilmFlags
    model_flags: ModelFlags
    paths: tuple[Path, ...]
    as_json: bool
    named: frozenset[str]
    """Flags of the command line, by their names in Python."""

    @property
    def path(self) -> Path:
        """The one path. Raises UsageError for none or several."""
        if not self.paths:
            raise UsageError(
                "missing argument: FILE; arena replay FILE, or arena replay FOLDER --web"
            )
        if len(self.paths) > 1:
            raise UsageError(f"{self.paths[1]}: one replay at a time, except with --export of data")
        return self.paths[0]

    def replay(self) -> Replay:
        """Read the one replay. Raises ReplayError for another file."""
        from arena.episodes.replay import read_replay

        return read_replay(self.path)
