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
from arena.cli.play_flags import ModelFlags
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
    games: DealsFlag = None,
    until_ci: UntilFlag = None,
    seed: SeedFlag = None,
) -> int:
    """Measure a player: returns, wins, exact deduction metrics, the difference to a baseline."""
    from arena.evaluation.aggregation import EvaluationAggregator
    from arena.evaluation.schedule import SELF, evaluation_schedule

    the_game, tested = game_flags.make(game), _single(player)
    opponents = _opponents(the_game, against)
    if baseline == tested:
        raise UsageError(
            f"--baseline {redacted(baseline)}: it is the player itself; without --baseline, "
            "its opponents are those of --against, or else the game's default bot"
        )
    opponent_names = [redacted(spec) for spec in opponents]
    name, baseline_name = redacted(tested), baseline and redacted(baseline)
    others = [spec for spec in opponents if spec != SELF]
    specs = [tested, *others, *([baseline] if baseline else [])]
    settings: dict[str, JsonValue] = {
        "player": name,
        "baseline": baseline_name,
        "against": [*opponent_names],
    }
    run = ExperimentRun("eval", the_game, game_flags, model_flags, flags, specs, seed, settings)
    run.check()
    report_flags.check()
    deals = games or (MAX_DEALS if until_ci is not None else 100)
    evaluation = EvaluationAggregator(the_game, name, baseline_name, until_ci, opponent_names)

    def schedule(run_seed: int, _: Sequence[Slot]) -> list[Slot]:
        seats = the_game.num_players
        return list(evaluation_schedule(seats, tested, opponents, baseline, deals, run_seed))

    return run.conduct(schedule, evaluation, report_flags)


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
