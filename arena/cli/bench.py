"""`arena bench`: run a versioned suite, verify a submission, write a leaderboard."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.bench_run import SuiteRun
from arena.cli.completion import complete_spec
from arena.cli.experiment import MeasureFlags
from arena.cli.flags import Flag, JsonFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.play_flags import ExecutorFlags, ModelFlags
from arena.cli.terminal import consume, echo, print_grids, print_result, progress_bar, unused_path
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.core.text import percentage, pluralize
from arena.episodes.files import user_folder, write_whole

if TYPE_CHECKING:
    from arena.evaluation.benchmark import SubmissionCard
    from arena.evaluation.benchmark.power import KnownOrder
    from arena.evaluation.benchmark.submission import Submission
    from arena.evaluation.formatting import Grid

app = typer.Typer(help="Run a benchmark suite, verify it, rank players.", no_args_is_help=True)

SuiteFlag = Annotated[
    Path | None,
    Flag("--suite", help="Suite file (.json) that is not bundled. Default: the bundled one."),
]


@app.command("list", cls=ArenaCommand, short_help="List the suites and their hashes.")
def list_command(as_json: JsonFlag = False) -> int:
    """List the suites, their tasks and the hashes that fix them."""
    from arena.evaluation.benchmark import bundled_suites

    suites = bundled_suites()
    if as_json:
        documents = [{**each.model_dump(mode="json"), "sha256": each.sha256} for each in suites]
        print(json.dumps({"suites": documents}))
        return 0
    for suite in suites:
        echo(f"{suite.name} {suite.version}: {suite.about}", indent="  ")
        games = ", ".join(dict.fromkeys(task.game for task in suite.tasks))
        deals = sum(task.deals for task in suite.tasks)
        most = "up to " if any(task.target for task in suite.tasks) else ""
        tasks = pluralize(len(suite.tasks), "task")
        echo(f"  {tasks}, {most}{deals} deals; {', '.join(suite.skills)}; {games}", indent="  ")
        echo(f"  sha256 {suite.sha256}")
        later = sorted(version for version in suite.commitments if version > suite.version)
        for version in later:
            echo(f"  version {version} is committed: {suite.commitments[version]}")
            echo(f"  and waits for the {suite.beacons.get(version, 'reveal')}")
        echo()
    echo("arena bench run mini --player bot:detective --out FOLDER")
    return 0


@app.command("run", cls=ArenaCommand, short_help="Play a suite with one player.")
@flag_groups
def run_command(
    suite: Annotated[str, typer.Argument(help="NAME, NAME@VERSION, or a suite file (.json).")],
    player: Annotated[
        str,
        Flag(
            help="SPEC of the player; suite:baseline is the baseline of each task.",
            autocompletion=complete_spec,
        ),
    ],
    flags: MeasureFlags,
    model_flags: ModelFlags,
    name: Annotated[
        str | None, Flag(help="Name of the player on the leaderboard. Default: its SPEC.")
    ] = None,
    text_level: Annotated[
        str, Flag(help="Help in the text: events, notes or deductions.")
    ] = "notes",
    as_json: JsonFlag = False,
) -> int:
    """Play all tasks of a suite with one player; the folder is the submission."""
    from arena.evaluation.benchmark import find_suite

    chosen = find_suite(suite)
    folder = flags.out or unused_path(Path("runs/bench"), f"{chosen.name}-{chosen.version}")
    run = SuiteRun(
        chosen, player, name or redacted(player), text_level, folder, flags, model_flags, as_json
    )
    run.check()
    code = run.play()
    if code or flags.dry_run:
        return code
    card = run.write_card()
    if as_json:
        print(card.model_dump_json())
    else:
        print_grids([_card_grid(card)])
        echo(f"Submission: {folder}; check it with arena bench verify {folder}")
    usage = card.usage
    if usage.fallbacks and usage.fallbacks >= usage.decisions:
        raise ArenaError(f"{card.player} gave no legal reply: this is not a measurement of it")
    return 0


def _card_grid(card: SubmissionCard) -> Grid:
    from arena.evaluation.formatting import Grid, amount, percent

    headings = ("task", "deals", "result", "difference to baseline", "ahead of baseline")
    rows = [
        (
            task.task,
            str(task.deals),
            amount(task.result, task.scale),
            amount(task.difference, task.scale, signed=True),
            percent(task.ahead),
        )
        for task in card.tasks
    ]
    return Grid(f"{card.name} on {card.suite} {card.suite_version}", headings, rows)


@app.command("power", cls=ArenaCommand, short_help="Check that a suite separates known players.")
@flag_groups
def power_command(
    suite: Annotated[str, typer.Argument(help="NAME, NAME@VERSION, or a suite file (.json).")],
    flags: ExecutorFlags,
    deals: Annotated[int, Flag(min=10, max=10**5, help="Deals of the pilot.")] = 300,
    seed: Annotated[int, Flag(min=0, help="Random seed of the pilot's deals.")] = 1,
    as_json: JsonFlag = False,
) -> int:
    """Compute how surely each task shows the bots ahead that are known to be better.

    The exit code is 1 if one of them has a probability below 95 %.
    """
    from arena.evaluation.benchmark import find_suite
    from arena.evaluation.benchmark.power import KnownOrder, known_orders

    chosen, orders = find_suite(suite), list[KnownOrder]()
    tasks = sum(bool(task.known) for task in chosen.tasks)
    if not tasks:
        raise UsageError(f"{chosen.label} names no players whose order is known (`known`)")
    flags.check_executor()

    async def compute() -> None:
        async with flags.make_executor(2 * deals) as executor:
            found = known_orders(chosen, deals, seed, executor)
            await consume(found, orders.extend, tasks, f"tasks of {chosen.label}")

    asyncio.run(compute())
    if as_json:
        fields = {"suite": chosen.name, "version": chosen.version, "pilot": deals, "seed": seed}
        print(json.dumps(fields | {"orders": [each.model_dump(mode="json") for each in orders]}))
    else:
        print_grids([_power_grid(chosen.label, orders)])
    return 0 if all(each.is_enough for each in orders) else 1


def _power_grid(label: str, orders: Sequence[KnownOrder]) -> Grid:
    from arena.evaluation.formatting import Grid, percent

    headings = ("task", "better", "worse", "better ahead", "deals", "shown", "deals for 95 %")
    rows = [
        (
            each.task,
            each.better,
            each.worse,
            percent(each.ahead),
            str(each.deals),
            percentage(each.power),
            str(each.needed or "no number"),
        )
        for each in orders
    ]
    return Grid(f"Known orders in {label}", headings, rows)


@app.command("verify", cls=ArenaCommand, short_help="Play a submission again and compare.")
@flag_groups
def verify_command(
    folder: Annotated[Path, typer.Argument(help="A submission: --out of arena bench run.")],
    flags: ExecutorFlags,
    suite: SuiteFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Play all games of a submission again, and compare everything that is stored."""
    from arena.evaluation.benchmark import UNPROVEN

    flags.check_executor()
    submission = _verified(folder, suite, flags)
    games = sum(len(task.results) for task in submission.tasks)
    card = submission.card
    fields = {"suite": card.suite, "suite_version": card.suite_version, "player": card.player}
    proof = {"games": games, "verified": True, "unproven": UNPROVEN}
    verified = (
        f"Verified: {card.name} on {submission.suite.label}, {pluralize(games, 'game')}. The "
        "rules, the bots, the prompts, the reading of replies and the scoring give every "
        "stored move and number again."
    )
    print_result(as_json, {**fields, **proof}, f"{verified}\n{UNPROVEN}")
    return 0


def _read(folder: Path, suite: Path | None) -> Submission:
    """Return the submission in a folder, whose records fit together. Plays nothing."""
    from arena.evaluation.benchmark import read_suite
    from arena.evaluation.benchmark.submission import read_submission
    from arena.evaluation.benchmark.verification import check_records

    submission = read_submission(folder, read_suite(suite) if suite else None)
    check_records(submission)
    return submission


def _verified(
    folder: Path, suite: Path | None, flags: ExecutorFlags, again: bool = True
) -> Submission:
    """Return the submission in a folder. Raises ArenaError for the first fault.

    Its games are not played again if they were before, with the same files and the same code.
    """
    from arena.evaluation.benchmark.verification import fingerprint

    submission = _read(folder, suite)
    mark = user_folder() / "verified" / fingerprint(submission)
    if mark.exists() and not again:
        echo(f"{submission.card.name}: verified before", file=sys.stderr)
        return submission
    faults = asyncio.run(_faults(submission, flags))
    if faults:
        more = f" (and {len(faults) - 1} more games have faults)" if len(faults) > 1 else ""
        raise ArenaError(f"{folder}: {faults[0]}{more}")
    with suppress(OSError):  # The result counts also where nothing can be kept.
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return submission


async def _faults(submission: Submission, flags: ExecutorFlags) -> list[str]:
    from arena.evaluation.benchmark.verification import check_games

    games = sum(len(task.results) for task in submission.tasks)
    faults: list[str | None] = []
    async with flags.make_executor(games) as executor:
        checks = check_games(submission, executor)
        await consume(checks, faults.append, games, f"games of {submission.card.name}")
    return [fault for fault in faults if fault]


@app.command("compare", cls=ArenaCommand, short_help="Compare how two submissions talk.")
@flag_groups
def compare_command(
    first: Annotated[Path, typer.Argument(help="A submission.")],
    second: Annotated[Path, typer.Argument(help="Another submission to the same suite.")],
    suite: SuiteFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Compare the measures of talk of two submissions, paired by deal."""
    from arena.evaluation.benchmark import PROFILE
    from arena.evaluation.benchmark.submission import measure_changes
    from arena.evaluation.formatting import Grid, number

    submissions = [_read(folder, suite) for folder in (first, second)]
    changes = list(measure_changes(*submissions))
    if not changes:
        raise UsageError(f"{submissions[0].suite.label} has no games with talk")
    if as_json:
        rows = [
            {"task": task, "measure": name, **change.model_dump()} for task, name, change in changes
        ]
        print(json.dumps({"changes": rows}))
        return 0
    cells = [(task, PROFILE[name], number(each, 3, signed=True)) for task, name, each in changes]
    title = " to ".join(each.card.name for each in submissions)
    print_grids(
        [Grid(f"Change from {title}, paired by deal", ["task", "measure", "change"], cells)]
    )
    return 0


@app.command("reveal", cls=ArenaCommand, short_help="Write the next version of a suite.")
@flag_groups
def reveal_command(
    suite: Annotated[str, typer.Argument(help="NAME of a suite, or its newest file (.json).")],
    secret: Annotated[str, typer.Argument(help="Secret of the next version, 64 hex digits.")],
    beacon: Annotated[str, typer.Argument(help="Value of its beacon, 64 hex digits.")],
    next_beacon: Annotated[
        str, Flag(help="Public random value of the future, for the version after it.")
    ],
    out: Annotated[Path, Flag(help="Folder of both files.")] = Path(),
) -> int:
    """Write the next version of a suite, and a new secret for the version after it.

    Reveal: arena bench reveal mini SECRET VALUE --next-beacon "hash of Bitcoin block 1060000"
    """
    from arena.evaluation.benchmark import find_suite, reveal

    new_secret = secrets.token_hex(32)
    revealed = reveal(find_suite(suite), secret, beacon, new_secret, next_beacon)
    path = out / f"{revealed.name}-{revealed.version}.json"
    kept = out / f"{revealed.name}-{revealed.version + 1}.secret"
    for each in (path, kept):
        if each.exists():
            raise UsageError(f"{each} exists; choose another --out")
    try:
        kept.touch(mode=0o600)
        kept.write_text(f"{new_secret}\n", "utf-8")
        write_whole(path, revealed.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise ArenaError(f"cannot write into {out}: {error.strerror}") from error
    echo(f"{path}: {revealed.label}; publish it. Keep {kept} outside of every repository.")
    return 0


@app.command("site", cls=ArenaCommand, short_help="Write a leaderboard that opens from disk.")
@flag_groups
def site_command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER... OUT", help="Submissions, then the site's folder."),
    ],
    flags: ExecutorFlags,
    suite: SuiteFlag = None,
    verify: Annotated[
        bool, Flag("--verify/--no-verify", help="Play games again that were not verified before.")
    ] = True,
    as_json: JsonFlag = False,
) -> int:
    """Write a leaderboard of submissions: a static site that opens from disk."""
    from replays.leaderboard import require_site_packages, write_site

    if len(paths) < 2:
        raise UsageError("name at least one submission, then the folder of the site")
    *folders, out = paths
    require_site_packages()
    flags.check_executor()
    if any(folder.resolve() == out.resolve() for folder in folders):
        raise UsageError(f"{out} is a submission; name another folder for the site, at the end")
    submissions = [
        _verified(folder, suite, flags, again=False) if verify else _read(folder, suite)
        for folder in folders
    ]
    # Of each entry its page, two games and the reports; then the first page and the method.
    pages = 2 + sum(3 + len(each.tasks) for each in submissions)
    with progress_bar(transient=True) as progress:
        bar = progress.add_task("ratings", total=pages)
        numbers = write_site(
            submissions,
            out,
            folders if verify else (),
            lambda name: progress.update(bar, advance=1, description=name),
        )
    print_result(as_json, numbers, f"Leaderboard: {out / 'index.html'}; open it in any browser")
    return 0
