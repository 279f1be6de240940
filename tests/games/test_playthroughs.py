"""Golden playthroughs: the exact text of a fixed game for each seat.

`ARENA_WRITE_PLAYTHROUGHS=1 pytest FILE` writes them anew; a difference is then read and committed,
or it is a bug.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from arena.core.action import CHANCE
from arena.core.view import diagram
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.plugins.catalog import make_game

FOLDER = Path(__file__).parents[1] / "playthroughs"
GAMES: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("tictactoe", "tictactoe", {}, ["bot:random"] * 2),
    ("kuhn_poker", "kuhn_poker", {}, ["bot:random"] * 2),
    (
        "codenames",
        "codenames",
        {"players": 6, "rows": 3, "columns": 4},
        [*["bot:shared_table"] * 5, "bot:random"],
    ),
    ("goofspiel", "goofspiel", {"players": 3, "cards": 4}, ["bot:random"] * 3),
    (
        "battleship",
        "battleship",
        {"width": 4, "height": 4, "ships": [3, 2]},
        ["bot:gunner", "bot:hunter"],
    ),
    ("negotiation", "negotiation", {}, ["bot:boulware", "bot:conceder"]),
    ("leduc_poker", "leduc_poker", {}, ["bot:equilibrium", "bot:equilibrium"]),
    (
        "liars_dice",
        "liars_dice",
        {"players": 3, "rounds": "last_standing"},
        ["bot:counter", "bot:reader", "bot:reader"],
    ),
    (
        "hanabi",
        "hanabi",
        {"players": 3, "colours": 3, "ranks": 4, "hint_tokens": 5},
        ["bot:conventions"] * 3,
    ),
    ("cluedo-cards", "cluedo", {"players": 3}, ["bot:oracle", "bot:detective", "bot:novice"]),
    (
        "cluedo-classic",
        "cluedo",
        {"variant": "classic", "players": 4, "theme": "us"},
        ["bot:oracle", "bot:detective", "bot:novice", "bot:random"],
    ),
    (
        "cluedo-generated",
        "cluedo",
        {"players": 3, "theme": "generated", "suspects": 4, "weapons": 4, "rooms": 5},
        ["bot:oracle", "bot:detective", "bot:novice"],
    ),
    ("avalon", "avalon", {"players": 5}, ["bot:deducer"] * 5),
    ("werewolf", "werewolf", {"players": 7}, ["bot:deducer"] * 7),
    ("werewolf-statements", "werewolf", {"players": 5, "talk": "statements"}, ["bot:sceptic"] * 5),
    ("avalon-statements", "avalon", {"talk": "statements"}, ["bot:sceptic"] * 5),
    (
        "negotiation-statements",
        "negotiation",
        {"turns": 4, "talk": "statements"},
        ["bot:random"] * 2,
    ),
]


FIRST, LAST = 110, 39
"""Lines of a long playthrough that are stored; the others are there as a digest."""


def written_out(episode: Episode) -> str:
    """Return every ply and, at each decision, the text since the player's previous one."""
    game = make_game(episode.header.game, **episode.header.options)
    state = game.initial_state()
    lines = [game.text.rules(), ""]
    read = [0] * game.num_players
    for ply in episode.plies:
        if ply.player != CHANCE:
            observation = state.observe(ply.player)
            level = ("events", "notes", "deductions")[ply.player % 3]
            text = observation.text(level, read[ply.player])  # type: ignore[arg-type]
            read[ply.player] = observation.num_events
            lines += [f"--- to seat {ply.player} ({level})", text]
        lines.append(
            f">>> {'chance' if ply.player == CHANCE else ply.player}: {ply.decision.action}"
        )
        state.apply(ply.player, ply.decision.action)
    lines += [f"=== {episode.outcome.reason}; returns {episode.outcome.returns}", ""]
    lines += [diagram(game, state.log.events), ""]
    lines = "\n".join(lines).splitlines()
    if len(lines) > FIRST + 1 + LAST:
        left_out = "\n".join(lines[FIRST:-LAST]).encode()
        digest = hashlib.sha256(left_out).hexdigest()
        lines[FIRST:-LAST] = [f"... {len(lines) - FIRST - LAST} lines with SHA-256 {digest}"]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("file", "name", "options", "specs"), GAMES, ids=[g[0] for g in GAMES])
def test_playthrough(file: str, name: str, options: dict[str, Any], specs: list[str]) -> None:
    game = make_game(name, **options)
    text = written_out(asyncio.run(play(Match(game, specs, 1), Match(game, specs, 1).seat())))
    path = FOLDER / f"{file}.txt"
    if os.environ.get("ARENA_WRITE_PLAYTHROUGHS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
