"""`arena eval`: how good is a player, and is it better than another?"""

from __future__ import annotations

from typing import Annotated

from arena.cli import models
from arena.cli.experiment import Run, RunFlags
from arena.cli.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.report import ReportFlags
from arena.errors import UsageError

MOST = 10_000
"""Deals that --until-ci may take, unless --games says otherwise."""


@flag_groups
def eval_command(
    game: GameName,
    which: GameFlags,
    player: Annotated[str, Flag(help="SPEC of the player to be measured.")],
    against: Annotated[
        str | None,
        Flag(help="SPEC[,SPEC…] of the other seats. Default: bot:novice, or bot:random."),
    ] = None,
    baseline: Annotated[
        str | None, Flag(help="SPEC to compare with, on the same deals in the same seats.")
    ] = None,
    games: Annotated[
        int | None, Flag(min=1, max=10**7, help="Deals. Default: 100.", show_default=False)
    ] = None,
    until_ci: Annotated[
        float | None,
        Flag(
            min=0.001,
            max=0.5,
            help="Play until the interval is ± this, e.g. 0.03, or --games (10,000) are played.",
        ),
    ] = None,
    seed: SeedFlag = None,
    run: RunFlags = RunFlags(),  # noqa: B008 - frozen.
    report: ReportFlags = ReportFlags(),  # noqa: B008
    asking: models.ModelFlags = models.ModelFlags(),  # noqa: B008
) -> int:
    """Measure a player: win rate, exact deduction metrics, and the difference to a baseline."""
    from arena.agent import shown
    from arena.evaluation.design import evaluation_schedule
    from arena.evaluation.summary import Evaluation

    the_game = which.make(game)
    opponents = _opponents(the_game.name, against)
    if baseline == player:
        raise UsageError(f"--baseline {shown(player)}: that is the player itself")
    settings = {
        "player": shown(player),
        "against": [shown(spec) for spec in opponents],
        "baseline": baseline and shown(baseline),
    }
    specs = [player, *opponents, *([baseline] if baseline else [])]
    experiment = Run("eval", the_game, which, asking, run, specs, seed, settings)
    experiment.check()
    report.check()
    deals = games or (MOST if until_ci else 100)
    findings = Evaluation(the_game, shown(player), baseline and shown(baseline), until_ci)
    with experiment.open_results() as results:
        slots = list(
            evaluation_schedule(
                the_game.num_players, player, opponents, baseline, deals, experiment.first_seed
            )
        )
        scored = run.scored * (2 if baseline else 1)
        return experiment.conduct(results, slots, scored, findings, report)


def _opponents(game: str, against: str | None) -> list[str]:
    """The SPECs of --against; the game's second bot, which is its first that tries, by default."""
    from arena.agent import bot_names

    if against is None:
        bots = bot_names(game)
        return ["bot:novice" if "novice" in bots else f"bot:{bots[0]}"]
    specs = [spec.strip() for spec in against.split(",")]
    if not all(specs):
        raise UsageError(f"--against {against!r}: name SPECs with commas between them")
    return specs
