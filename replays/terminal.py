"""The terminal viewer: step through a replay, as one seat saw it or with everything open."""

from __future__ import annotations

import io
import json
import re
import select
import sys
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys
from rich.console import Console, Group, RenderableType
from rich.text import Text

from arena import ArenaError, Event, Replay
from replays.frame import Beliefs, Moment, Size, frame, sees, title_of

KEYS = "→ n next   ← p back   PgDn PgUp turn   g G start end   0-5 a seat, all   q quit"
FORWARD = {"n", " ", "right", "down", "c-m", "c-j", "j", "l"}
BACK = {"p", "b", "left", "up", "backspace", "h", "k"}
QUIT = {"q", "escape", "c-c", "c-d"}
PAGE = {"pagedown": 1, "pageup": -1, "]": 1, "[": -1}
ENDS = {"g": 0, "home": 0, "G": -1, "end": -1}


def step_through(replay: Replay, ply: int | None, seat: int | None) -> None:
    """Interactive on a terminal; on a pipe all of it in plain lines, or the position at `ply`."""
    if replay.notice:
        print(replay.notice, file=sys.stderr)
    if sys.stdin.isatty() and sys.stdout.isatty():
        Stepper(replay, ply or 0, seat).run()
    elif ply is not None:
        _print_position(replay, ply, seat)
    else:
        _print_lines(replay, seat)


def save_svg(replay: Replay, ply: int | None, seat: int | None, file: Path) -> None:
    """The position after `ply` plies (default: the last) as a picture for a page or a paper."""
    stepper = Stepper(replay, len(replay.moves) if ply is None else ply, seat)
    console = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    stepper.console = console
    console.print(stepper.picture(height=25, keys=False))
    # Without rich's fonts from another host: a picture should open anywhere, and tell nobody.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", console.export_svg(title="arena replay"), flags=re.S)
    try:
        file.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise ArenaError(f"cannot write {file}: {error.strerror}") from error
    print(f"Picture: {file}")


def print_json(replay: Replay, ply: int | None, seat: int | None) -> None:
    """One object: header, plies with the events that `seat` witnessed, outcome, notice."""
    plies = []
    for walked in replay.walk():
        if ply is not None and walked.ply.number >= ply:
            break
        events = [e.to_json() for e in walked.ply.events if sees(seat, e)]
        line = {"ply": walked.ply.number, "events": events}
        if seat is None or seat == walked.ply.player:
            line |= {"player": walked.ply.player, "action": str(walked.ply.decision.action)}
        plies.append(line)
    # The seed gives the deal away, and the outcome what is still to come.
    header = replay.header.model_dump(mode="json", exclude=set() if seat is None else {"seed"})
    ended = replay.outcome is not None and (ply is None or ply >= len(replay.moves))
    outcome = replay.outcome.model_dump(mode="json") if replay.outcome and ended else None
    print(
        json.dumps(
            {"header": header, "plies": plies, "outcome": outcome, "notice": replay.notice},
            ensure_ascii=False,
        )
    )


def _print_lines(replay: Replay, seat: int | None) -> None:
    game = replay.make_game()
    print(f"{title_of(replay.header, seat)}: {', '.join(replay.header.players)}")
    for walked in replay.walk():
        for event in walked.ply.events:
            if sees(seat, event):
                print(game.narrate(event))
    if replay.outcome:
        print(f"{replay.outcome.status}: {replay.outcome.reason}")


def _print_position(replay: Replay, ply: int, seat: int | None) -> None:
    stepper = Stepper(replay, ply, seat)
    stepper.console.print(stepper.picture())


def keys_typed() -> Iterator[str]:
    """The keys that are typed, one by one, without showing them; ends with the input."""
    keyboard = create_input()
    with keyboard.raw_mode():
        while not keyboard.closed:
            select.select([keyboard.fileno()], [], [])
            keys = keyboard.read_keys()
            for press in keys or keyboard.flush_keys():  # A lone Escape waits to be flushed.
                yield press.key.value if isinstance(press.key, Keys) else press.key


class Stepper:
    """The position after a number of plies, and the keys that change that number."""

    def __init__(self, replay: Replay, ply: int, seat: int | None) -> None:
        self.replay = replay
        self.ply = ply
        self.seat = seat
        self.console = Console()
        self.game = replay.make_game()
        log: list[Event] = []
        self.moments = [Moment(self.game, 0, (), log, 0)]
        for walked in replay.walk():
            log.extend(walked.ply.events)
            state = walked.state
            self.moments.append(Moment(self.game, state.turn, state.to_act, log, len(log)))

    def run(self) -> None:
        with self.console.screen() as screen:
            screen.update(self.picture())
            for key in keys_typed():
                if not self.press(key):
                    return
                screen.update(self.picture())

    def press(self, key: str) -> bool:
        """Carry out one key, by its name in prompt_toolkit; False when it is time to leave."""
        if key in QUIT:
            return False
        last = len(self.replay.moves)
        if key in FORWARD:
            self.ply = min(self.ply + 1, last)
        elif key in BACK:
            self.ply = max(self.ply - 1, 0)
        elif key in PAGE:
            self._turn(PAGE[key])
        elif key in ENDS:
            self.ply = range(last + 1)[ENDS[key]]
        elif key == "a":
            self.seat = None
        elif key.isascii() and key.isdecimal() and int(key) < len(self.replay.header.players):
            self.seat = int(key)
        return True

    def _turn(self, step: int) -> None:
        """To the next or the previous turn's beginning."""
        here = self.moments[self.ply].turn
        while 0 <= self.ply + step < len(self.moments):
            self.ply += step
            if self.moments[self.ply].turn != here:
                return

    def picture(self, height: int | None = None, keys: bool = True) -> RenderableType:
        """The position, `height` lines high (default: what the terminal has room for)."""
        moment = self.moments[self.ply]
        view = "everything open" if self.seat is None else f"as seat {self.seat} saw it"
        title = (
            f"{title_of(self.replay.header, self.seat)} · turn {moment.turn} · "
            f"ply {self.ply}/{len(self.replay.moves)} · {view}"
        )
        size = Size(self.console.width, height or min(self.console.height, 40) - 1)
        specs = self.replay.header.players
        picture = frame(title, moment, specs, Beliefs(self.game), self.seat, size)
        return Group(picture, Text(KEYS, style="dim")) if keys else picture
