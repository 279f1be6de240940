"""`arena tournament`: rate several players, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

from arena.cli.experiment import ExperimentFlags, ExperimentRun
from arena.cli.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.play_flags import ModelFlags
from arena.cli.report import ReportFlags
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.evaluation.records import Slot


@flag_groups
def tournament_command(
    game: GameName,
    game_flags: GameFlags,
    player: Annotated[
        list[str], Flag(help="SPEC of a player; name each with a --player of its own.")
    ],
    flags: ExperimentFlags,
    report_flags: ReportFlags,
    model_flags: ModelFlags,
    games: Annotated[int, Flag(min=1, max=10**6, help="Games of each player, at least.")] = 60,
    tables: Annotated[
        int | None,
        Flag(min=1, help="Number of different line-ups. Default: a new one for each game."),
    ] = None,
    anchor: Annotated[
        str | None,
        Flag(help="Player whose rating is set to 1500. Default: the mean of the players is."),
    ] = None,
    seed: SeedFlag = None,
) -> int:
    """Rate players against each other at balanced tables.

    With --resume, players may be added and --games may be raised: only missing games are played.
    """
    from arena.evaluation.aggregation import TournamentAggregator
    from arena.evaluation.tournament_schedule import tournament_schedule

    the_game = game_flags.make(game)
    if not the_game.return_scale.has_winner:
        raise UsageError(
            f"{game} is not won, so a tournament has nothing to rate; compare whole teams with "
            f"arena eval {game} --player SPEC --baseline SPEC --against self"
        )
    names = [redacted(spec) for spec in player]
    tournament_schedule(names, the_game.num_players, 0, 0, tables)  # Checks the players.
    run = ExperimentRun(
        "tournament", the_game, game_flags, model_flags, flags, player, seed, {"tables": tables}
    )
    run.check()
    reference = redacted(anchor) if anchor else None
    if reference and reference not in names:
        raise UsageError(f"--anchor {reference}: name it among the players, with --player too")
    report_flags.check()

    def schedule(run_seed: int, done: Sequence[Slot]) -> list[Slot]:
        missing = {spec for slot in done for spec in slot.specs} - set(names)
        if missing:
            raise UsageError(
                f"--resume: {sorted(missing)[0]} plays in the earlier games; name it with --player "
                "too"
            )
        seats = the_game.num_players
        slots = tournament_schedule(names, seats, games, run_seed, tables, done)
        return _with_secrets(slots, player)

    return run.conduct(schedule, TournamentAggregator(the_game, names, reference), report_flags)


def _with_secrets(slots: Iterable[Slot], specs: Iterable[str]) -> list[Slot]:
    """Replace the SPECs of slots, which have no secrets in a stored run, by the given ones."""
    given = {redacted(spec): spec for spec in specs}
    return [
        replace(slot, specs=tuple(given.get(spec, spec) for spec in slot.specs)) for slot in slots
    ]
