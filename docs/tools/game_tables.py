"""Survey the games of other libraries, and tables of all games for the documentation.

    python docs/tools/game_tables.py survey FAMILY   # writes results/games-FAMILY.json

A survey needs the library. `docs/tools/results.py render` writes the tables, from the stored
surveys and from arena's own games.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MOST_PLIES = 200
"""Plies of random play after which an own game shows whether it hides anything."""


def survey(family: str) -> Path:
    """Play each game of a family once and store what works."""
    sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "docs" / "tools")]
    from adapter_survey import survey_apart

    from arena.plugins.loader import game_family
    from results import RESULTS, commit

    found = [survey_apart(listed) for listed in game_family(family).games()]
    python = platform.python_version()
    document = {
        "commit": commit(ROOT),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python docs/tools/game_tables.py survey {family}",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {python}",
        "report": {"games": [asdict(game) for game in found]},
    }
    path = RESULTS / f"games-{family}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def own_rows() -> tuple[list[str], list[list[str]]]:
    """Return the table of arena's own games, from the games themselves."""
    from arena.agents.seating import bot_names
    from arena.plugins.loader import catalog, make_game

    header = ["game", "what it is", "seats", "information", "works", "bots"]
    rows = []
    for entry in catalog().entries("game"):
        if entry.plugin != "games":  # Another package's.
            continue
        game = make_game(entry.name)
        seats = _seats(game)
        hides = "imperfect" if _hides(game) else "perfect"
        bots = ", ".join(f"`{name}`" for name in bot_names(entry.name))
        rows.append([f"`{entry.name}`", game.summary, seats, hides, _features(game), bots])
    return header, rows


def _seats(game: Any) -> str:
    field = type(game).Options.model_json_schema().get("properties", {}).get("players", {})
    low, high = field.get("minimum"), field.get("maximum")
    return f"{low}–{high}" if low and high else str(game.num_players)


def _hides(game: Any) -> bool:
    """Return whether some event of a random game is not public."""
    from arena.episodes.match import act_out

    state = game.initial_state()
    act_out(state, random.Random(1), MOST_PLIES)
    return any(event.audience is not None for event in state.log.events) or (
        game.analysis.resample((), 0, random.Random(1)) is not None
    )


def _features(game: Any) -> str:
    has = {
        "arrays": bool(game.arrays.specs),
        "exact knowledge": game.analysis.knowledge(0) is not None,
        "speech": bool(getattr(game, "speech", ())),
        "view": game.new_view(None) is not None,
    }
    return ", ".join(name for name, there in has.items() if there)


def family_rows(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the table of one stored survey; games that cannot be played have their reason."""
    header = ["game", "seats", "information", "finished and verified", "works", "problem"]
    rows = []
    for game in document["report"]["games"]:
        done = "yes" if game["finished"] and game["verified"] else "no"
        works = ["text" if game["text_per_seat"] else "", *game["features"]]
        rows.append(
            [
                f"`{game['name']}`",
                str(game["players"]),
                game["information"],
                done,
                ", ".join(filter(None, works)) if done == "yes" else "",
                _cell(game["problem"]),
            ]
        )
    return header, rows


def _cell(text: str) -> str:
    """Return text that cannot end a cell or be read as markup."""
    plain = text.replace("|", "/").replace("*", "").replace("<", "‹").replace("_", "\\_")
    return plain if len(plain) <= 120 else f"{plain[:119]}…"


def summary_line(document: Mapping[str, Any]) -> str:
    """Return the counts of one stored survey as a sentence."""
    games: Sequence[Mapping[str, Any]] = document["report"]["games"]
    done = [game for game in games if game["finished"] and game["verified"]]
    return (
        f"{len(games)} games are listed, {sum(game['loaded'] for game in games)} load with their "
        f"defaults, {len(done)} were played to the end at random and their replays verified, "
        f"{sum(game['text_per_seat'] for game in done)} of these show every seat a text.\n\n"
    )


if __name__ == "__main__":
    if sys.argv[1:2] != ["survey"] or len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"Wrote {survey(sys.argv[2])}")
