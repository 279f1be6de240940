"""Games in the terminal: a running game, or a replay as lines, one position, SVG or JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console, Group, RenderableType
from rich.live import Live

from arena import Game, Header, Outcome, Ply, Replay, State
from arena.agents.display import ending
from arena.episodes.record import OutcomeLine
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.timeline import players_at
from replays.html_report import write_document
from replays.tui.frame import (
    EntropyTracker,
    Size,
    Snapshot,
    draw_frame,
    format_title,
    take_snapshots,
)
from replays.tui.panels import comments_at, draw_comments
from replays.tui.viewer import TerminalViewer, position_title

SVG_SIZE = Size(84, 24)
MAX_HEIGHT = 40
"""Lines of a frame that is not on a screen of its own."""


class LiveView:
    """Watcher of one game, with everything open: a frame on a terminal, lines on a pipe."""

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
        self._header, self._state = header, state
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        else:
            print(f"{format_title(header)}: {', '.join(self.specs)}")

    def ply(self, ply: Ply, state: State) -> None:
        """Show a ply."""
        self._state = state
        self._failures += ply.decision.failure is not None
        if self._live:
            self._draw(f"{self._failures} moves failed" if self._failures else "")
            return
        for event in filter(lambda event: event.shown_to(None), ply.events):
            print(self.game.text.narrate(event))
        if ply.decision.failure:
            print(f"! player {ply.player}: {ply.decision.failure}; a fallback was played for it")
        sys.stdout.flush()

    def end(self, outcome: Outcome) -> None:
        """Show the outcome and close the display."""
        if self._live:
            self._draw(outcome.status)
        self.close()
        print(ending(self.game, outcome))

    def close(self) -> None:
        """Close the display; safe to call twice."""
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self, status: str) -> None:
        assert self._live and self._state and self._header
        snapshot, console = Snapshot.of(self.game, self._state), self._console
        title = format_title(self._header, None, (f"turn {snapshot.turn}", status))
        size = Size(console.width, min(console.height - 3, MAX_HEIGHT))
        frame = draw_frame(snapshot, self.specs, self._entropy.bits, None, size)
        self._live.update(Group(title, frame), refresh=True)


def step_through(replay: Replay, ply: int | None, seat: int | None) -> None:
    """Show a replay: interactively on a terminal, as text on a pipe.

    On a pipe, print the position after `ply` plies, or all events if `ply` is None.
    """
    if replay.notice:
        print(replay.notice, file=sys.stderr)
    if sys.stdin.isatty() and sys.stdout.isatty():
        TerminalViewer(replay, ply or 0, seat).run()
    elif ply is not None:
        console = Console()
        size = Size(console.width, min(console.height, MAX_HEIGHT) - 2)
        console.print(_draw_position(replay, ply, seat, size))
    else:
        _print_events(replay, seat)


def save_svg(replay: Replay, ply: int | None, seat: int | None, file: Path) -> None:
    """Write the position after `ply` plies (default: the last) as an SVG picture.

    Raises ArenaError if the file cannot be written.
    """
    console = Console(record=True, width=SVG_SIZE.width, file=io.StringIO(), force_terminal=True)
    position = len(replay.moves) if ply is None else ply
    console.print(_draw_position(replay, position, seat, SVG_SIZE))
    # Remove rich's web fonts: the picture must not contact another host when it is opened.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", console.export_svg(title="arena replay"), flags=re.S)
    write_document(svg, file)
    print(f"Picture: {file}")


def print_json(replay: Replay, ply: int | None, seat: int | None) -> None:
    """Print one object: header, plies with the events that `seat` witnessed, outcome, notice."""
    plies: list[dict[str, object]] = []
    for walked in replay.walk():
        if ply is not None and walked.ply.number >= ply:
            break
        events = [
            event.to_json() for event in walked.ply.events if seat is None or event.seen_by(seat)
        ]
        line: dict[str, object] = {"ply": walked.ply.number, "events": events}
        if seat is None or seat == walked.ply.player:
            line |= {"player": walked.ply.player, "action": str(walked.ply.decision.action)}
        plies.append(line)
    # At an earlier position the outcome is not known yet.
    is_last = ply is None or ply >= len(replay.moves)
    outcome = replay.outcome if is_last else None
    document = {
        "header": _header_json(replay.header, seat),
        "plies": plies,
        "outcome": _outcome_json(outcome, seat) if outcome else None,
        "notice": replay.notice,
    }
    print(json.dumps(document, ensure_ascii=False))


def _header_json(header: Header, seat: int | None) -> dict[str, JsonValue]:
    """Return the header; a seat may know no seed.

    The names of parents have the seed, too.
    """
    document: dict[str, JsonValue] = header.model_dump(mode="json")
    if seat is not None:
        del document["seed"], document["agents_seed"]
        document["branches"] = [{"ply": branch.ply} for branch in header.branches]
    return document


def _outcome_json(outcome: OutcomeLine, seat: int | None) -> dict[str, JsonValue]:
    """Return the outcome; a game that was cut off has not revealed its roles to a seat."""
    document: dict[str, JsonValue] = outcome.model_dump(mode="json")
    if seat is not None and outcome.status == "truncated":
        del document["roles"], document["teams"]
    return document


def _print_events(replay: Replay, seat: int | None) -> None:
    game = replay.make_game()
    print(f"{format_title(replay.header, seat)}: {', '.join(replay.header.players)}")
    for walked in replay.walk():
        for event in walked.ply.events:
            if event.shown_to(seat):
                print(game.text.narrate(event))
    if replay.outcome:
        print(f"{replay.outcome.status}: {replay.outcome.reason}")


def _draw_position(replay: Replay, position: int, seat: int | None, size: Size) -> RenderableType:
    """Return the table at a position, and the comments on the last ply."""
    snapshot = take_snapshots(replay)[position]
    specs = players_at(replay.header, position - 1)
    entropy = EntropyTracker(snapshot.game)
    # Comments come in the order of `visible_from`, so later plies need no assessment.
    comments = takewhile(
        lambda comment: comment["visible_from"] <= position,
        ReplayAnalysis(replay).comments(seat),
    )
    return Group(
        position_title(replay, snapshot, position, seat),
        draw_frame(snapshot, specs, entropy.bits, seat, size),
        draw_comments(comments_at(comments, position)),
    )
