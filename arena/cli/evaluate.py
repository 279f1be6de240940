"""`arena eval`: measure a player, and compare it with a baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import JsonValue

from arena.agents.seating import default_opponent
from arena.cli.completion import complete_spec
from arena.cli.experiment import ExperimentFlags, ExperimentRun
from arena.cli.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.play_flags import ModelFlags, has_models
from arena.cli.report import ReportFlags
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import redacted, split_specs
from arena.evaluation.records import Slot

BLANKS = re.compile(r"\s*,\s*")
MAX_DEALS = 10_000
"""Deals after which --until-ci stops, unless --games sets another number."""

AgainstFlag = Annotated[
    list[str],
    Flag(
        help="SPEC[,SPEC…] of the other seats. Too few are repeated; from too many, a random "
        "subset is drawn per deal. 'self' is the player under test. Default: the game's default "
        "opponent."
    ),
]
UntilFlag = Annotated[
    float | None,
    Flag(
        min=0.0,
        help="Play until the 95 % half-width is below this, in units of the return (win rate "
        "0.03: about 3,000 deals), at most --games (10,000) deals.",
    ),
]

BaselineFlag = Annotated[
    str | None, Flag(help="SPEC to compare with, on the same deals in the same seats.")
]
ScaffoldsFlag = Annotated[
    str | None,
    Flag(
        help="Compare the player with itself: two or more of none, notes, deductions and "
        "scratchpad, with commas between them. Each deal is played once with each."
    ),
]
DealsFlag = Annotated[int | None, Flag(min=1, max=10**5, help="Deals. Default: 100.")]


@flag_groups
def eval_command(
    game: GameName,
    game_flags: GameFlags,
    player: Annotated[
        list[str], Flag(help="SPEC of the player that is measured.", autocompletion=complete_spec)
    ],
    flags: ExperimentFlags,
    report_flags: ReportFlags,
    model_flags: ModelFlags,
    against: AgainstFlag = [],  # noqa: B006
    baseline: BaselineFlag = None,
    scaffolds: ScaffoldsFlag = None,
    games: DealsFlag = None,
    until_ci: UntilFlag = None,
    seed: SeedFlag = None,
) -> int:
    """Measure a player: returns, wins, exact deduction metrics, the difference to a baseline."""
    from arena.evaluation.schedule import SELF, evaluation_schedule

    the_game, tested = game_flags.make(game), _single(player)
    opponents = _opponents(the_game, against)
    if baseline == tested:
        raise UsageError(
            f"--baseline {redacted(baseline)}: it is the player itself; without --baseline, "
            "its opponents are those of --against, or else the game's default bot"
        )
    compared = [tested, *([baseline] if baseline else [])]
    if scaffolds is not None:
        compared = _scaffolded(tested, scaffolds, baseline, until_ci)
    opponent_names = [redacted(spec) for spec in opponents]
    names, baseline_name = [redacted(spec) for spec in compared], baseline and redacted(baseline)
    specs = [*compared, *(spec for spec in opponents if spec != SELF)]
    settings: dict[str, JsonValue] = {
        "player": names[0],
        "baseline": baseline_name,
        "against": [*opponent_names],
        **({"scaffolds": [*names]} if scaffolds else {}),
    }
    run = ExperimentRun("eval", the_game, game_flags, model_flags, flags, specs, seed, settings)
    run.check()
    report_flags.check()
    deals = games or (MAX_DEALS if until_ci is not None else 100)

    def schedule(run_seed: int, _: Sequence[Slot]) -> list[Slot]:
        seats = the_game.num_players
        slots = evaluation_schedule(seats, compared[0], opponents, compared[1:], deals, run_seed)
        return list(slots)

    if scaffolds is not None:
        from arena.evaluation.scaffolds import ScaffoldAggregator

        by_scaffold = ScaffoldAggregator(the_game, names, opponent_names)
        return run.conduct(schedule, by_scaffold, report_flags)
    from arena.evaluation.aggregation import EvaluationAggregator

    evaluation = EvaluationAggregator(the_game, names[0], baseline_name, until_ci, opponent_names)
    return run.conduct(schedule, evaluation, report_flags)


def _scaffolded(
    player: str, scaffolds: str, baseline: str | None, until_ci: float | None
) -> list[str]:
    """Return the SPEC of the player with each scaffold. Raises UsageError."""
    from arena.evaluation.scaffolds import scaffolded

    for flag, value in (("--baseline", baseline), ("--until-ci", until_ci)):
        if value is not None:
            raise UsageError(f"--scaffolds compares one player with itself; leave out {flag}")
    if not has_models([player]):
        raise UsageError(f"--scaffolds {scaffolds}: {redacted(player)} is no model and reads none")
    return scaffolded(player, scaffolds)


def _single(player: list[str]) -> str:
    if len(player) > 1:
        raise UsageError(
            f"--player {redacted(player[1])}: arena eval measures one player; compare two with "
            "--baseline, or more with arena tournament"
        )
    return player[0]


def _opponents(game: Game, against: list[str]) -> list[str]:
    """Return the SPECs of --against, or the game's default opponent."""
    if not against:
        return [default_opponent(game)]
    specs = []
    for text in against:
        items = split_specs(text)
        # An empty item is probably a typing error: the seats would differ from those intended.
        joined, stripped = (BLANKS.sub(",", each) for each in (",".join(items), text.strip()))
        if joined != stripped or not items:
            raise UsageError(f"--against {redacted(text)}: name SPECs with commas between them")
        specs += items
    return specs
