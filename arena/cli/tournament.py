"""`arena tournament`: rate several players, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arena.cli.experiment import ExperimentOptions, ExperimentRun
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.evaluation.records import Slot
from arena.llm.config import setting


class TournamentOptions(ExperimentOptions):
    """Options of `arena tournament`."""

    short_help = (
        "player players option text_level games seed out resume max_cost markdown html as_json"
    )
    help_examples = (
        "arena tournament cluedo --player bot:novice --player bot:detective --games 100",
        "arena tournament kuhn_poker --player bot:random --player embedded:FOLDER",
    )

    player: list[str] = setting()
    """SPEC of a player; name each with a --player of its own."""
    games: int = setting(60, ge=1, le=10**6)
    """Games of each player, at least."""


def tournament(options: TournamentOptions) -> int:
    """Rate players against each other at balanced tables.

    With --resume, players may be added and --games may be raised: only missing games are played.
    """
    from arena.evaluation.schedule import tournament_schedule

    game, players = options.make_game(), options.player
    if not game.return_scale.has_winner:
        raise UsageError(
            f"{game.name} is not won, so a tournament has nothing to rate; compare whole teams "
            f"with arena eval {game.name} --player SPEC --baseline SPEC --against self"
        )
    names = [redacted(spec) for spec in players]
    tournament_schedule(names, game.num_players, 0, 0)  # Checks the players.
    run = ExperimentRun("tournament", game, options, players, {})
    run.check()
    options.check_files()

    def schedule(run_seed: int, done: Sequence[Slot]) -> list[Slot]:
        missing = {spec for slot in done for spec in slot.specs} - set(names)
        if missing:
            raise UsageError(
                f"--resume: {sorted(missing)[0]} plays in the earlier games; name it with --player "
                "too"
            )
        slots = tournament_schedule(names, game.num_players, options.games, run_seed, done)
        # Those of a stored run have no secrets.
        given = dict(zip(names, players, strict=True))
        return [
            replace(slot, specs=tuple(given.get(spec, spec) for spec in slot.specs))
            for slot in slots
        ]

    return run.conduct(schedule)
