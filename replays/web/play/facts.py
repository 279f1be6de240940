"""Facts of a table that never change."""

from __future__ import annotations

from arena.core.knowledge import PlacedKnowledge
from arena.core.observation import ObservedGame
from arena.core.spec import redacted
from arena.plugins.views import scene_name
from replays.analysis.timeline import game_title
from replays.web.play.documents import HELP_LEVELS, Help, TableGameJson
from replays.web.play.places import TableSetup


def table_facts(setup: TableSetup) -> TableGameJson:
    """Return what each page of a table is sent first."""
    match = setup.match
    game, knowledge = match.game, match.game.knowledge(0)
    return {
        "name": game.name,
        "title": game_title(game),
        "summary": game.summary,
        "seats": list(game.seat_names),
        "specs": [redacted(spec) for spec in match.specs],
        "options": game.options.model_dump(mode="json"),
        "scene": scene_name(game),
        "has_posterior": knowledge is not None,
        "has_grid": isinstance(knowledge, PlacedKnowledge),
        "rules": game.rules(),
        "offered_help": offered_help(setup),
    }


def offered_help(setup: TableSetup) -> list[Help]:
    """Return the levels of help that a table allows and its game has."""
    game = setup.match.game
    missing = set[Help]()
    if game.knowledge(0) is None:
        missing.add("posterior")
    kind = type(game)
    if (kind.describe, kind.situation) == (ObservedGame.describe, ObservedGame.situation):
        missing |= {"notes", "deductions"}
    most = HELP_LEVELS.index(setup.most_help)
    return [level for level in HELP_LEVELS[: most + 1] if level not in missing]
