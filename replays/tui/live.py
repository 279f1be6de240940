"""Watching a game while it is played: a picture that changes, or plain lines on a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from arena import Game, Header, Outcome, Ply, State
from replays.tui.frame import Beliefs, Moment, Size, frame, title_of


class LiveView:
    """A watcher for one game; everything is open to it."""

    def __init__(self, game: Game, specs: Sequence[str]) -> None:
        self.game = game
        self.specs = specs
        self._console = Console()
        self._beliefs = Beliefs(game)
        self._live: Live | None = None
        self._header: Header | None = None
        self._state: State | None = None
        self._failures = 0

    def begin(self, header: Header, state: State) -> None:
        self._header = header
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        else:
            print(f"{title_of(header)}: {', '.join(self.specs)}")

    def ply(self, ply: Ply, state: State) -> None:
        self._state = state
        self._failures += ply.decision.failure is not None
        if self._live:
            failed = [f"{self._failures} moves failed"] if self._failures else []
            self._draw(f"turn {state.turn}", *failed)
            return
        for event in ply.events:
            print(self.game.narrate(event))
        if ply.decision.failure:
            print(f"! player {ply.player}: {ply.decision.failure}; a fallback was played for it")
        sys.stdout.flush()

    def end(self, outcome: Outcome) -> None:
        returns = ", ".join(f"{value:g}" for value in outcome.returns)
        result = f"{outcome.reason}; returns {returns}"
        if self._live:
            self._draw(f"turn {self._state.turn if self._state else 0}", outcome.status)
        self.close()
        print(f"{outcome.status}: {result}")

    def close(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self, *where: str) -> None:
        assert self._live and self._state and self._header
        title = title_of(self._header, None, where, self._console.width)
        size = Size(self._console.width, min(self._console.height - 2, 40))
        moment = Moment.of(self._state)
        picture = frame(title, moment, self.specs, self._beliefs, None, size)
        self._live.update(picture, refresh=True)
