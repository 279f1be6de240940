"""`arena eval`: measure a player, compare it with a baseline, or measure finished games."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.agents.seating import default_opponent
from arena.cli.experiment import ExperimentOptions, ExperimentRun, ReportOptions
from arena.cli.options import ExecutorOptions
from arena.cli.terminal import consume, echo, print_copies
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.spec import redacted, split_specs
from arena.core.text import pluralize, printable
from arena.evaluation.records import Slot
from arena.llm.config import argument, setting

if TYPE_CHECKING:
    from arena.evaluation.analysis import GroupedAnalyses
    from arena.evaluation.report import Report

BLANKS = re.compile(r"\s*,\s*")
MAX_DEALS = 10_000
"""Deals after which --until-ci stops, unless --games sets another number."""


class EvalOptions(ExperimentOptions):
    """Options of `arena eval`."""

    short_help = (
        "player against baseline finished players option text_level games seed out resume max_cost"
    )
    help_examples = (
        "arena eval cluedo --player bot:oracle --baseline bot:detective --games 200",
        "arena eval --from runs/play --csv out.csv",
    )

    game: str = argument("")
    """The game; 'arena list games' lists them."""
    player: list[str] = setting([])
    """SPEC of the player that is measured."""
    finished: list[Path] = setting([], flag="--from")
    """Measure finished games instead: replays, folders, runs."""
    against: list[str] = setting([])
    """SPEC[,SPEC…] of the other seats. Too few are repeated; from too many, a random subset is
    drawn per deal. 'self' is the player under test. Default: the game's default opponent."""
    baseline: str | None = setting(None)
    """SPEC to compare with, on the same deals in the same seats."""
    games: int | None = setting(None, ge=1, le=10**5)
    """Deals. Default: 100."""
    until_ci: float | None = setting(None, ge=0)
    """Play until the 95 % half-width is below this, in units of the return (win rate 0.03: about
    3,000 deals), at most --games (10,000) deals."""


FROM_OPTIONS = {"finished", "scored", *ExecutorOptions.model_fields, *ReportOptions.model_fields}
"""Options that go with --from."""


def evaluate(options: EvalOptions) -> int:
    """Measure a player: returns, wins, exact deduction metrics, the difference to a baseline."""
    if options.finished:
        for name in sorted(options.given_by("flag") - FROM_OPTIONS):
            raise UsageError(f"--from measures games that were played before: leave out {name}")
        return _measure_finished(options)
    if not options.game or not options.player:
        raise UsageError("name GAME and --player, or finished games with --from")
    from arena.evaluation.schedule import SELF, evaluation_schedule

    game, tested = options.make_game(), _single(options.player)
    opponents = _opponents(game, options.against)
    baseline = options.baseline
    _check_baseline(baseline, tested)
    compared = [tested, *([baseline] if baseline else [])]
    specs = [*compared, *(spec for spec in opponents if spec != SELF)]
    settings: dict[str, JsonValue] = {
        "player": redacted(tested),
        "baseline": baseline and redacted(baseline),
        "against": [redacted(spec) for spec in opponents],
    }
    run = ExperimentRun("eval", game, options, specs, settings, options.until_ci)
    run.check()
    options.check_files()
    deals = options.games or (MAX_DEALS if options.until_ci is not None else 100)

    def schedule(run_seed: int, _: Sequence[Slot]) -> list[Slot]:
        seats = game.num_players
        slots = evaluation_schedule(seats, tested, opponents, baseline, deals, run_seed)
        return list(slots)

    return run.conduct(schedule)


def _check_baseline(baseline: str | None, player: str) -> None:
    if baseline == player:
        raise UsageError(
            f"--baseline {redacted(baseline)}: it is the player itself; without --baseline, "
            "its opponents are those of --against, or else the game's default bot"
        )


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


def _measure_finished(options: EvalOptions) -> int:
    """Report games that were played earlier, by player and role; `scored=0` skips the posterior."""
    from arena.evaluation.analysis import GroupedAnalyses, analyze, find_files

    options.check_files()
    options.check_executor()
    files, analyses = find_files(options.finished), GroupedAnalyses()

    async def measure() -> None:
        async with options.make_executor(len(files)) as executor:
            games = analyze(files, executor, options.scored > 0)
            await consume(games, analyses.add, len(files), "games")

    try:
        asyncio.run(measure())
    except KeyboardInterrupt:
        echo("interrupted; this is the result of the games read so far", file=sys.stderr)
        _output(analyses, options)
        return 130
    for skipped in analyses.skipped:
        echo(printable(f"skipped {skipped.path}: {skipped.reason}"), file=sys.stderr)
    print_copies(analyses.copies)
    _output(analyses, options)
    return 0


def heading(report: Report) -> str:
    """Return the game, its options, the text level and the number of games."""
    from arena.evaluation.document import options_in_words

    level = report.settings["text_level"] or "only bots played"
    words = [report.game, *options_in_words(report.options), f"text level: {level}"]
    return ", ".join([*words, pluralize(report.games or 0, "game")])


def _output(analyses: GroupedAnalyses, options: ReportOptions) -> None:
    reports = analyses.reports()
    if not reports:
        number = len(analyses.skipped)
        files = "the file is not a" if number == 1 else f"none of the {number} files is a"
        raise ArenaError(f"{files} finished game")
    skipped: list[JsonValue] = [
        {"path": str(each.path), "reason": each.reason} for each in analyses.skipped
    ]
    titles = list(map(heading, reports)) if len(reports) > 1 else [""]
    title = "Earlier games" if len(reports) > 1 else ""
    options.output_all(reports, titles, title, skipped=skipped)
