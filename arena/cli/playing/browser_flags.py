"""Flags of `arena play --web`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from arena.cli.common.flags import Flag
from arena.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class BrowserFlags:
    """How people play in a browser."""

    web: Annotated[
        bool, Flag("--web", help="Play in the browser: each seat 'human' gets a link.")
    ] = False
    host: Annotated[
        str, Flag(help="With --web: address to listen on; 0.0.0.0 lets other machines join.")
    ] = "127.0.0.1"
    port: Annotated[int, Flag(min=0, max=65535, help="With --web: the port; 0 is a free one.")] = 0
    clock: Annotated[
        float | None,
        Flag(min=1, max=86_400, help="With --web: seconds for a decision. Default: no limit."),
    ] = None
    assist: Annotated[
        str,
        Flag(help="With --web: the most help on the page: none, notes, deductions or posterior."),
    ] = "posterior"

    def check_unused(self) -> None:
        """Raise UsageError for a flag that needs --web, if that is not given."""
        usual = BrowserFlags()
        for field in fields(self):
            if getattr(self, field.name) != getattr(usual, field.name):
                raise UsageError(f"--{field.name}: it belongs to --web")
