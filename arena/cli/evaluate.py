"""`arena eval`: how good is a player, and is it better than another?"""

from __future__ import annotations

import re
from typing import Annotated

from arena.cli.common import models
from arena.cli.common.experiment import Run, RunFlags
from arena.cli.common.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.common.report import ReportFlags
from arena.core.errors import UsageError

BETWEEN_SPECS = r",(?=\s*(?:\w+(?::|\s*,|\s*$)|,|$))"
"""A comma that another SPEC follows, or nothing; one within a URL's password is part of it."""
MOST = 10_000
"""Deals that --until-ci may take, unless --games says otherwise."""


@flag_groups
def eval_command(
    game: GameName,
    which: GameFlags,
    player: Annotated[list[str], Flag(help="SPEC of the player to be measured.")],
    against: Annotated[
        list[str],
        Flag(
            help="SPEC[,SPEC…] of the other seats; fewer take several seats, of more each deal "
            "draws some. Default: bot:novice, or bot:random."
        ),
    ] = [],  # noqa: B006
    baseline: Annotated[
        str | None, Flag(help="SPEC to compare with, on the same deals in the same seats.")
    ] = None,
    games: Annotated[
        int | None, Flag(min=1, max=10**5, help="Deals. Default: 100.", show_default=False)
    ] = None,
    until_ci: Annotated[
        float | None,
        Flag(
            min=0.001,
            max=0.5,
            help="Play until the interval is as narrow as ± this (0.03: some 3,000 deals), or "
            "--games (10,000) are played.",
        ),
    ] = None,
    seed: SeedFlag = None,
    flags: RunFlags = RunFlags(),  # noqa: B008 - frozen.
    report: ReportFlags = ReportFlags(),  # noqa: B008
    asking: models.ModelFlags = models.ModelFlags(),  # noqa: B008
) -> int:
    """Measure a player: win rate, exact deduction metrics, and the difference to a baseline."""
    from arena.core.spec import shown
    from arena.evaluation.aggregation import Evaluation
    from arena.evaluation.schedule import evaluation_schedule

    the_game, tested = which.make(game), _only(player)
    opponents = _opponents(the_game.name, against)
    if baseline == tested:
        raise UsageError(f"--baseline {shown(baseline)}: that is the player itself")
    against_shown = [shown(spec) for spec in opponents]
    name, other = shown(tested), baseline and shown(baseline)
    specs = [tested, *opponents, *([baseline] if baseline else [])]
    settings = {"player": name, "baseline": other, "against": against_shown}
    run = Run("eval", the_game, which, asking, flags, specs, seed, settings)
    run.check()
    report.check()
    deals = games or (MOST if until_ci else 100)
    findings = Evaluation(the_game, name, other, until_ci, against_shown)
    with run.open_results() as results:
        slots = list(
            evaluation_schedule(
                the_game.num_players, tested, opponents, baseline, deals, run.first_seed
            )
        )
        return run.conduct(results, slots, findings, report)


def _only(player: list[str]) -> str:
    from arena.core.spec import shown

    if len(player) > 1:
        raise UsageError(
            f"--player {shown(player[1])}: one player is measured here; compare two with "
            "--baseline, or more with arena tournament"
        )
    return player[0]


def _opponents(game: str, against: list[str]) -> list[str]:
    """The SPECs of --against; by default the game's second bot, or its only one."""
    from arena.agents.seating import default_opponent
    from arena.core.spec import shown

    if not against:
        return [default_opponent(game)]
    specs = [spec.strip() for given in against for spec in re.split(BETWEEN_SPECS, given)]
    if not all(specs):
        raise UsageError(f"--against {shown(against[0])}: name SPECs with commas between them")
    return specs
