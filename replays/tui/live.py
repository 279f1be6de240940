"""Live view of a running game: a frame on a terminal, plain lines on a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from arena import Game, Header, Outcome, Ply, State
from arena.core.views.ending import ending
from replays.tui.frame import EntropyTracker, Size, Snapshot, draw_frame, format_title

MAX_HEIGHT = 40
"""Lines of a frame."""


class LiveView:
    """Watcher of one game, with everything open."""

    def __init__(self, game: Game, specs: Sequence[str]) -> None:
        self.game = game
        self.specs = specs
        self._console = Console()
        self._entropy = EntropyTracker(game)
        self._live: Live | None = None
        self._header: Header | None = None
        self._state: State | None = None
        self._failures = 0

    def begin(self, header: Header, state: State) -> None:
        """Open the display."""
        self._header = header
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        else:
            print(f"{format_title(header)}: {', '.join(self.specs)}")

    def ply(self, ply: Ply, state: State) -> None:
        """Show a ply."""
        self._state = state
        self._failures += ply.decision.failure is not None
        if self._live:
            failures = [f"{self._failures} moves failed"] if self._failures else []
            self._draw(f"turn {state.turn}", *failures)
            return
        for event in filter(lambda event: event.shown_to(None), ply.events):
            print(self.game.narrate(event))
        if ply.decision.failure:
            print(f"! player {ply.player}: {ply.decision.failure}; a fallback was played for it")
        sys.stdout.flush()

    def end(self, outcome: Outcome) -> None:
        """Show the outcome and close the display."""
        if self._live:
            self._draw(f"turn {self._state.turn if self._state else 0}", outcome.status)
        self.close()
        print(ending(self.game, outcome))

    def close(self) -> None:
        """Close the display; safe to call twice."""
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self, *where: str) -> None:
        assert self._live and self._state and self._header
        title = format_title(self._header, None, where, self._console.width)
        size = Size(self._console.width, min(self._console.height - 2, MAX_HEIGHT))
        snapshot = Snapshot.of(self._state)
        frame = draw_frame(title, snapshot, self.specs, self._entropy.bits, None, size)
        self._live.update(frame, refresh=True)
