"""`arena tournament`: rate several players, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pydantic import JsonValue

from arena.cli.experiment import ExperimentOptions, ExperimentRun
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.evaluation.records import Slot
from arena.llm.config import setting


class TournamentOptions(ExperimentOptions):
    """Options of `arena tournament`."""

    short_help = (
        "player players text_level games tables seed out resume max_cost markdown html as_json"
    )
    help_examples = (
        "arena tournament cluedo --player bot:novice --player bot:detective --games 100",
        "arena tournament kuhn_poker --player bot:random --player embedded:FOLDER",
    )

    player: list[str] = setting(complete="spec")
    """SPEC of a player; name each with a --player of its own."""
    games: int = setting(60, ge=1, le=10**6)
    """Games of each player, at least."""
    tables: int | None = setting(None, ge=1)
    """Number of different line-ups. Default: a new one for each game."""
    anchor: str | None = setting(None)
    """Player whose rating is set to 1500. Default: the mean of the players is."""


def tournament(options: TournamentOptions) -> int:
    """Rate players against each other at balanced tables.

    With --resume, players may be added and --games may be raised: only missing games are played.
    """
    from arena.evaluation.tournament_schedule import tournament_schedule

    game, players, tables = options.make_game(), options.player, options.tables
    if not game.return_scale.has_winner:
        raise UsageError(
            f"{game.name} is not won, so a tournament has nothing to rate; compare whole teams "
            f"with arena eval {game.name} --player SPEC --baseline SPEC --against self"
        )
    names = [redacted(spec) for spec in players]
    tournament_schedule(names, game.num_players, 0, 0, tables)  # Checks the players.
    anchor = redacted(options.anchor) if options.anchor else None
    if anchor and anchor not in names:
        raise UsageError(f"--anchor {anchor}: name it among the players, with --player too")
    settings: dict[str, JsonValue] = {"tables": tables}
    run = ExperimentRun("tournament", game, options, players, settings, anchor=anchor)
    run.check()
    options.check_files()

    def schedule(run_seed: int, done: Sequence[Slot]) -> list[Slot]:
        missing = {spec for slot in done for spec in slot.specs} - set(names)
        if missing:
            raise UsageError(
                f"--resume: {sorted(missing)[0]} plays in the earlier games; name it with --player "
                "too"
            )
        seats = game.num_players
        slots = tournament_schedule(names, seats, options.games, run_seed, tables, done)
        return _with_secrets(slots, players)

    return run.conduct(schedule)


def _with_secrets(slots: Iterable[Slot], specs: Iterable[str]) -> list[Slot]:
    """Replace the SPECs of slots, which have no secrets in a stored run, by the given ones."""
    given = {redacted(spec): spec for spec in specs}
    return [
        replace(slot, specs=tuple(given.get(spec, spec) for spec in slot.specs)) for slot in slots
    ]
