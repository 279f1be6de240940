"""`arena tournament`: who of several players is best, and how sure is that?"""

from __future__ import annotations

from typing import Annotated

from arena.cli.common import models
from arena.cli.common.experiment import Run, RunFlags, raw_specs
from arena.cli.common.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.common.report import ReportFlags
from arena.core.errors import UsageError


@flag_groups
def tournament_command(
    game: GameName,
    which: GameFlags,
    player: Annotated[
        list[str], Flag(help="SPEC of a player; name each with a --player of its own.")
    ],
    games: Annotated[
        int, Flag(min=1, max=10**6, help="Games in which each player sits, at least.")
    ] = 60,
    tables: Annotated[
        int | None,
        Flag(min=1, help="Different line-ups to draw. Default: a new one for each game."),
    ] = None,
    seed: SeedFlag = None,
    flags: RunFlags = RunFlags(),  # noqa: B008 - frozen.
    report: ReportFlags = ReportFlags(),  # noqa: B008
    asking: models.ModelFlags = models.ModelFlags(),  # noqa: B008
) -> int:
    """Rate players against each other at balanced tables.

    With --resume, players may be added and --games be raised: only what is lacking is played.
    """
    from arena.core.spec import shown
    from arena.evaluation.aggregation import Tournament
    from arena.evaluation.schedule import tournament_schedule

    the_game = which.make(game)
    names = [shown(spec) for spec in player]
    tournament_schedule(names, the_game.num_players, 0, 0, tables)  # Checks the players.
    run = Run("tournament", the_game, which, asking, flags, player, seed, {"tables": tables})
    run.check()
    report.check()
    with run.open_results() as results:
        done = results.schedule()
        missing = {spec for slot in done for spec in slot.specs} - set(names)
        if missing:
            raise UsageError(
                f"--resume: {sorted(missing)[0]} plays in {results.path}; name it with --player too"
            )
        slots = tournament_schedule(
            names, the_game.num_players, games, run.first_seed, tables, done
        )
        findings = Tournament(the_game, names)
        return run.conduct(results, raw_specs(slots, player), findings, report)
