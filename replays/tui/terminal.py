"""The terminal viewer: step through a replay, as one seat saw it or with everything open."""

from __future__ import annotations

import io
import json
import re
import sys
from itertools import takewhile
from pathlib import Path

from rich.console import Console, Group, RenderableType

from arena import ArenaError, Header, Json, Replay
from replays.analysis.seating import players_at
from replays.analysis.study import Study
from replays.tui.frame import Beliefs, Size, frame, moments_of, sees, title_of
from replays.tui.panels.comments import here, in_words
from replays.tui.panels.view import legible
from replays.tui.stepper import Stepper, title_at

WIDE, HIGH = 84, 25
"""Of a picture that is saved."""
MOST_HIGH = 40
"""Lines of a position that is printed."""


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
    console = Console(record=True, width=WIDE, file=io.StringIO(), force_terminal=True)
    number = len(replay.moves) if ply is None else ply
    console.print(_position(replay, number, seat, Size(WIDE, HIGH - 1)))
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
    header = _header(replay.header, seat)
    # The outcome tells what is still to come.
    ended = replay.outcome is not None and (ply is None or ply >= len(replay.moves))
    outcome = replay.outcome.model_dump(mode="json") if replay.outcome and ended else None
    print(
        json.dumps(
            {"header": header, "plies": plies, "outcome": outcome, "notice": replay.notice},
            ensure_ascii=False,
        )
    )


def _header(header: Header, seat: int | None) -> Json:
    """The seed gives the deal away; a parent has the same deal, and the seed in its name."""
    shown: dict[str, Json] = header.model_dump(mode="json")
    if seat is not None:
        del shown["seed"]
        shown["branches"] = [{"ply": branch.ply} for branch in header.branches]
    return shown


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
    console = Console()
    size = Size(console.width, min(console.height, MOST_HIGH) - 1)
    console.print(_position(replay, ply, seat, size))


def _position(replay: Replay, ply: int, seat: int | None, size: Size) -> RenderableType:
    """The table after so many plies, and what exact knowledge says of the last one."""
    moment = moments_of(replay)[ply]
    title = title_at(replay, moment, ply, seat, size.width)
    beliefs = Beliefs(moment.game)
    specs = [legible(spec) for spec in players_at(replay.header, ply - 1)]
    picture = frame(title, moment, specs, beliefs, seat, size)
    # They come in the order in which they are found: the rest of the game is left unjudged.
    found = takewhile(lambda each: each["found"] <= ply, Study(replay).comments(seat))
    return Group(picture, *map(in_words, here(found, ply)))
