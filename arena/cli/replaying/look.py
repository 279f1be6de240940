"""Views of one replay: page, picture, JSON, terminal; and its verification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from arena.cli.common.terminal import echo
from arena.cli.replaying.call import Call
from arena.core.errors import UsageError
from arena.core.text import pluralize, printable

if TYPE_CHECKING:
    from arena.episodes.replay import Replay


def print_schema(call: Call) -> int:
    """Print the JSON schema of a replay."""
    from arena.episodes.record import replay_json_schema

    print(json.dumps(replay_json_schema(), indent=2))
    return 0


def serve_page(call: Call) -> int:
    """Serve the page until Ctrl-C."""
    from replays.web import serve

    return int(serve(call.path, call.page.port, moment_address(call)) or 0)


def moment_address(call: Call) -> str:
    """Return the fragment of the page's address for --position and --seat; "" without them."""
    if call.look.position is None and not call.look.seat:
        return ""
    if call.path.is_dir():
        raise UsageError("--position and --seat with --web: name the replay that they are about")
    _, ply, seat = moment(call)
    fields = {"at": ply, "seat": seat}
    return "#" + "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)


def write_html(call: Call) -> int:
    """Write the page of one replay."""
    from replays.web import write_page

    replay, _, seat = moment(call)
    assert call.page.html is not None  # Else another mode was chosen.
    write_page(replay, seat, call.page.html)
    return 0


def write_svg(call: Call) -> int:
    """Write a picture of one position."""
    from replays.tui.terminal import save_svg

    file = call.look.svg
    assert file is not None  # Else another mode was chosen.
    if file.suffix.lower() not in ("", ".svg"):
        raise UsageError(f"--svg {file}: it writes SVG; name the file {file.with_suffix('.svg')}")
    save_svg(*moment(call), file)
    return 0


def step_through(call: Call) -> int:
    """Show the replay in the terminal, or print it as JSON."""
    from replays.tui import terminal

    show = terminal.print_json if call.as_json else terminal.step_through
    show(*moment(call))
    return 0


def moment(call: Call) -> tuple[Replay, int | None, int | None]:
    """Return the replay, --position and --seat; raises UsageError for what it does not have."""
    replay, ply = call.replay(), call.look.position
    seat = only_seat(replay, call.look.seat)
    if ply is not None and ply > len(replay.moves):
        plies = pluralize(len(replay.moves), "ply")
        raise UsageError(f"--position {ply}: {replay.path} has {plies}")
    return replay, ply, seat


def only_seat(replay: Replay, given: list[str]) -> int | None:
    """Return the seat of --seat; None without it, for a view in which everything is open."""
    if not given:
        return None
    seats = replay.make_game().num_players
    if len(given) > 1 or not (given[0].isascii() and given[0].isdecimal()):
        raise UsageError(
            f"--seat {' --seat '.join(given)}: name one seat by its number to look through its "
            "eyes; I=SPEC goes with --branch"
        )
    if int(given[0]) >= seats:
        raise UsageError(f"--seat {given[0]}: {replay.path} has seats 0 to {seats - 1}")
    return int(given[0])


def verify_replay(call: Call) -> int:
    """Apply the actions again; exit with 1 at the first difference, which is named."""
    from arena.episodes.replay import verify

    replay = call.replay()
    difference = verify(replay)
    if call.as_json:
        found = {"verified": difference is None, "difference": difference}
        complete = replay.outcome is not None
        print(json.dumps({"replay": str(replay.path), **found, "complete": complete}))
    elif difference:
        echo(printable(f"{replay.path}: differs at {difference}"))
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        echo(printable(f"{replay.path}: {state}, {pluralize(len(replay.moves), 'ply')}"))
    if replay.notice and not call.as_json:
        echo(replay.notice)
    return 1 if difference else 0
