"""`arena agents`: who can take a seat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena.cli.flags import JsonFlag
from arena.cli.terminal import echo
from arena.core.spec import SCAFFOLDS

if TYPE_CHECKING:
    from arena.plugins.catalog import CatalogEntry


def agents_command(as_json: JsonFlag = False) -> None:
    """List who can take a seat: kinds of players, and the bots of each game."""
    from arena.plugins.loader import catalog

    kinds = [{"spec": e.name, "summary": e.summary} for e in catalog().entries("agent")]
    models = [{"spec": e.name, "summary": e.summary} for e in catalog().entries("backend")]
    bots = _bots(catalog().entries("bot"))
    if as_json:
        print(json.dumps({"agents": kinds, "models": models, "bots": bots}))
        return
    echo("A SPEC says who sits where: arena play cluedo --seat 0=bot:oracle --seat 1=human\n")
    for agent in kinds:
        echo(f"{agent['spec']:<16} {agent['summary']}", indent=" " * 17)
    echo("\nModels; 'arena play --help' says how they are asked:")
    for model in models:
        echo(f"{model['spec']:<16} {model['summary']}", indent=" " * 17)
    echo(f"\nA model may end with its scaffold: {', '.join(f'+{name}' for name in SCAFFOLDS)}")
    echo("\nBots:")
    for line in bots:
        echo(f"{line['spec']:<16} {line['game']:<12} {line['summary']}", indent=" " * 30)


def _bots(entries: Sequence[CatalogEntry]) -> list[dict[str, str]]:
    """Return the bots, each once: a bot of every game names the games that have their own."""
    summaries = {tuple(entry.name.rsplit("/", 1)): entry.summary for entry in entries}
    general = [bot for game, bot in summaries if game == "*"]
    for game, bot in list(summaries):
        if game != "*" and bot in general:
            summaries["*", bot] += f" ({game}: {summaries.pop((game, bot))})"
    return [
        {"spec": f"bot:{bot}", "game": "every game" if game == "*" else game, "summary": summary}
        for (game, bot), summary in summaries.items()
    ]
