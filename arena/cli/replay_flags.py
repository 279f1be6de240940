"""Arguments of one call of `arena replay`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.flags import Flag
from arena.cli.play_flags import ModelFlags
from arena.core.errors import UsageError
from arena.llm.config import Config, setting

if TYPE_CHECKING:
    from arena.episodes.replay import Replay

LookFlag = partial(Flag, rich_help_panel="Look")
PageFlag = partial(Flag, rich_help_panel="Page")
WhatIfFlag = partial(Flag, rich_help_panel="What if")
DataFlag = partial(Flag, rich_help_panel="Data")


@dataclass(frozen=True, slots=True)
class LookFlags:
    """Views of one replay in the terminal."""

    position: Annotated[int | None, LookFlag(min=0, help="Position N, after N plies.")] = None
    seat: Annotated[
        list[str],
        LookFlag(
            help="I: only what this seat could see; with --ask: at its decisions only. "
            "I=SPEC, with --branch: who plays on there."
        ),
    ] = field(default_factory=list)
    verify: Annotated[bool, LookFlag("--verify", help="Play it again and compare.")] = False
    schema: Annotated[bool, LookFlag("--schema", help="Print the format's schema.")] = False
    svg: Annotated[Path | None, LookFlag(help="Write the position to this picture.")] = None


@dataclass(frozen=True, slots=True)
class PageFlags:
    """Views of replays in a browser."""

    web: Annotated[
        bool,
        PageFlag(
            "--web", help="Serve a page to a browser on this machine; takes --position, --seat."
        ),
    ] = False
    port: Annotated[int, PageFlag(min=0, max=65535, help="Of the page; 0: any that is free.")] = (
        8765
    )
    html: Annotated[
        Path | None,
        PageFlag(help="Write the page with this one game to a file that works offline."),
    ] = None


@dataclass(frozen=True, slots=True)
class WhatIfFlags:
    """Other players at the positions of a replay."""

    branch: Annotated[
        int | None, WhatIfFlag(min=0, help="Play on from position N, after N plies.")
    ] = None
    ask: Annotated[
        str | None, WhatIfFlag(help="SPEC: ask this agent for its move at each decision of --seat.")
    ] = None
    seed: Annotated[
        int | None,
        WhatIfFlag(
            min=0,
            max=2**53,
            help="Of chance from --branch on (default: drawn), and of what --ask draws (default: "
            "the seed of the replay).",
        ),
    ] = None
    games: Annotated[int, WhatIfFlag(min=1, max=10**6, help="Times to play on from --branch.")] = 1
    max_concurrent: Annotated[
        int,
        WhatIfFlag(min=1, max=10_000, help="Games of --branch, or questions of --ask, at a time."),
    ] = 16


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """Replays as data."""

    export: Annotated[
        str | None,
        DataFlag(
            help="chat, parquet or art: what models read and wrote, as data. mp4 or gif: a film of "
            "one game."
        ),
    ] = None
    reward: Annotated[
        str | None,
        DataFlag(
            help="TERM=WEIGHT,…: what the column 'reward' of --export holds, in the words of "
            "arena train --reward. Default: the game's own reward."
        ),
    ] = None
    out: Annotated[
        Path | None, DataFlag(help="File of --export; folder of --branch (runs/branch).")
    ] = None


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
