"""`arena replay`: look at a finished game, or check it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import Flag
from arena.errors import UsageError

if TYPE_CHECKING:
    from arena.replay import Replay


def replay_command(
    file: Annotated[Path | None, typer.Argument(help="A replay (.jsonl).")] = None,
    ply: Annotated[int | None, Flag(min=0, help="The position after this ply.")] = None,
    seat: Annotated[int | None, Flag(min=0, help="Only what this seat could see.")] = None,
    verify: Annotated[bool, Flag("--verify", help="Play it again and compare.")] = False,
    schema: Annotated[bool, Flag("--schema", help="Print the format's schema.")] = False,
    svg: Annotated[Path | None, Flag(help="Write the position to this picture.")] = None,
    as_json: Annotated[bool, Flag("--json", help="As JSON.")] = False,
) -> int:
    """Step through a replay in the terminal, or verify it."""
    from arena.episode import replay_json_schema
    from arena.registry import catalog
    from arena.replay import read_replay

    if schema:
        print(json.dumps(replay_json_schema(), indent=2))
        return 0
    if file is None:
        raise UsageError("which replay? arena replay FILE")
    replay = read_replay(file)
    if verify:
        return _verify(replay, as_json)
    seats = replay.make_game().num_players
    if seat is not None and seat >= seats:
        raise UsageError(f"--seat {seat}: {file} has seats 0 to {seats - 1}")
    if ply is not None and ply > len(replay.moves):
        raise UsageError(f"--ply {ply}: {file} has {len(replay.moves)} plies")
    if svg is not None:
        catalog().load("viewer", "svg")(replay, ply, seat, svg)
        return 0
    view = "json" if as_json else "terminal"
    catalog().load("viewer", view)(replay, ply, seat)
    return 0


def _verify(replay: Replay, as_json: bool) -> int:
    """Exit code 1 on the first difference, which is named."""
    from arena.replay import verify

    difference = verify(replay)
    if as_json:
        print(
            json.dumps(
                {
                    "replay": str(replay.path),
                    "verified": difference is None,
                    "difference": difference,
                    "complete": replay.outcome is not None,
                }
            )
        )
    elif difference:
        print(f"{replay.path}: differs at {difference}")
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        print(f"{replay.path}: {state}, {len(replay.moves)} plies")
    if replay.notice and not as_json:
        print(replay.notice)
    return 1 if difference else 0
