"""Submissions: a folder with the results of one player in all tasks of a suite, and its card.

The card of a submission holds who played what, how and with which results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.outcome import ReturnScale
from arena.core.text import shorten
from arena.core.version import __version__
from arena.episodes.branch import MAX_SYSTEM_LENGTH
from arena.evaluation.aggregation import PAIRED_DESIGN, EvaluationAggregator, make_report
from arena.evaluation.benchmark import (
    FrozenModel,
    Identifier,
    Line,
    Suite,
    SuiteTask,
    bundled_suites,
    read_model,
    read_suite,
)
from arena.evaluation.records import (
    ANSWERED,
    DECISIONS,
    LEGAL_RATE,
    GameResult,
    Interval,
)
from arena.evaluation.report import Report
from arena.evaluation.scoring import PER_GAME, measures_of
from arena.evaluation.statistics.ratings import share_ahead
from arena.evaluation.store import Experiment, Results
from arena.evaluation.summary import Sample, compare

SUITE_FILE = "suite.json"
"""Name of the copy of the suite in a submission."""
CARD_FILE = "card.json"
UNPROVEN = (
    "Not proven: who gave the decisions and replies, the tokens, cost and times that a provider "
    "states, and that this was the only run."
)
"""Claims that no check of a folder can show."""
MOST_COST, MOST_TOKENS = 10_000, 10**9
"""US dollars and tokens of one seat in one game; larger numbers are forged."""
TOLERANCE = 1e-4
"""Difference of measures and intervals that another machine's rounding causes."""


class TaskResult(FrozenModel):
    """The result of one task."""

    task: Identifier
    skill: Line
    game: Line
    games: int = Field(ge=0)
    """Games of the player, and of the baseline on the same deals."""
    deals: int = Field(ge=0)
    scale: ReturnScale
    result: Interval
    """Mean return of the player."""
    difference: Interval
    """Difference from the baseline on the same deals; empty for the baseline itself."""
    any_time: bool
    """True if the run stopped by its results, so that the difference is a confidence sequence."""
    system: str | None = Field(None, max_length=MAX_SYSTEM_LENGTH)
    """System message that models got in place of the game's own."""
    ahead: Interval
    """Share of the deals on which the player is ahead of the baseline; equal scores count half."""


class CardUsage(FrozenModel):
    """Decisions of the player, tokens, cost and replies of its models, over all of its games."""

    games: int = Field(ge=0)
    decisions: int = Field(0, ge=0)
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    cost: float | None = Field(None, ge=0)
    """US dollars; None if no price is known."""
    replies: int = Field(ge=0)
    legal: int = Field(ge=0)
    fallbacks: int = Field(ge=0)
    """Moves that were played for the player."""
    fallback_games: int = Field(ge=0)
    """Games in which a move of any player was a fallback."""
    answered: tuple[Line, ...] = ()
    """Engines that gave the replies: the names of models, with provider and fingerprint where the
    replies have them."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class SubmissionCard(FrozenModel):
    """The card of one submission."""

    format: Literal[1] = 1
    suite: Identifier
    suite_version: int = Field(ge=1)
    name: Line
    """Name in tables; the SPEC unless the submitter chose another."""
    player: Line
    """SPEC without user and password of a URL."""
    text_level: Line
    chat: dict[str, JsonValue] | None
    """Options of models' chats beside the system messages; None if only bots played."""
    arena: Line
    """Version of arena that played the games."""
    created: datetime
    tasks: tuple[TaskResult, ...]
    usage: CardUsage

    @property
    def uses_models(self) -> bool:
        return self.chat is not None

    def models(self, task: str) -> dict[str, JsonValue] | None:
        """Return how models were asked in a task, as the headers of its replays have it."""
        system = next(each.system for each in self.tasks if each.task == task)
        return self.chat and self.chat | ({} if system is None else {"system": system})


@dataclass(frozen=True, slots=True)
class PlayedDeal:
    """The games of one deal."""

    seed: int
    player: GameResult
    baseline: GameResult | None
    """None for the baseline itself."""
    task: SuiteTask

    @property
    def rank(self) -> tuple[float, ...]:
        """The player's scores, higher for better, in order of importance."""
        return self.task.rank(self.player)

    @property
    def ahead(self) -> float:
        """1 if the player is ahead of the baseline, 1/2 if both are equal, 0 if it is behind."""
        if self.baseline is None:
            return 0.5
        own, other = self.rank, self.task.rank(self.baseline)
        return (1 + (own > other) - (own < other)) / 2


@dataclass(frozen=True, slots=True)
class PlayedTask:
    """A task that was played to its end."""

    task: SuiteTask
    game: Game
    folder: Path
    experiment: Experiment
    results: Sequence[GameResult]
    """The games that count, in the order of the schedule."""
    report: Report

    @property
    def deals(self) -> list[PlayedDeal]:
        """The deals that count, in order."""
        players = [result for result in self.results if result.slot.role == "player"]
        others = {r.slot.seed: r for r in self.results if r.slot.role == "baseline"}
        # Of a pair that was cut off, neither game counts.
        return [
            PlayedDeal(result.slot.seed, result, others.get(result.slot.seed), self.task)
            for result in players
            if not others or result.slot.seed in others
        ]

    def summary(self) -> TaskResult:
        """Return the result for the card."""
        report, player = self.report, self.report.players[0]
        return TaskResult(
            task=self.task.id,
            skill=self.task.skill,
            game=self.task.game,
            games=len(self.results),
            deals=len(self.deals),
            scale=report.scale,
            result=report.result(player),
            difference=report.difference,
            any_time=report.sequential is not None,
            system=_system_of(self.experiment),
            ahead=ahead_of_baseline([self]),
        )


def ahead_of_baseline(tasks: Sequence[PlayedTask]) -> Interval:
    """Return the share of all deals on which the player is ahead of the baseline.

    Equal scores count half, as do the deals of tasks of which the player is the baseline. Empty for
    the baseline of all tasks, which is 50 % by definition.
    """
    deals = [deal for task in tasks for deal in task.deals]
    if not any(deal.baseline for deal in deals):
        return Interval()
    return Interval.of(share_ahead([(deal.seed, deal.ahead) for deal in deals]))


@dataclass(frozen=True, slots=True)
class Submission:
    """A folder with its suite, its card and its games."""

    folder: Path
    suite: Suite
    card: SubmissionCard
    tasks: Sequence[PlayedTask]


def read_submission(folder: Path) -> Submission:
    """Read a submission and check that it is complete, and its card follows from its results.

    Raises ArenaError with the fault, in one line.
    """
    if not folder.is_dir():
        raise ArenaError(f"{folder}: there is no such folder; name one of arena bench run --out")
    suite = read_suite(folder / SUITE_FILE)
    if any(each.label == suite.label and each != suite for each in bundled_suites()):
        raise ArenaError(f"{folder}: its suite is not the {suite.label} of this version of arena")
    if not (folder / CARD_FILE).exists():
        raise ArenaError(
            f"{folder} has no {CARD_FILE}: the run is not finished; continue it with arena bench "
            f"run {suite.name} --resume --out {folder}"
        )
    card = read_model(folder / CARD_FILE, SubmissionCard, "model card")
    if (card.suite, card.suite_version) != (suite.name, suite.version):
        raise ArenaError(f"{folder / CARD_FILE}: it is for another suite than {SUITE_FILE}")
    tasks = [read_task(folder, task, card.player) for task in suite.tasks]
    for task in tasks:
        _check_version(folder / task.task.id, task.experiment.arena, card.arena)
    right = make_card(suite, tasks, card.player, card.name, card.text_level)
    for name in ("chat", "tasks", "usage", "arena"):
        found, expected = (each.model_dump(mode="json")[name] for each in (card, right))
        if not is_close(found, expected):
            raise ArenaError(
                f"{folder / CARD_FILE}: {name} differs from the results; arena bench run --resume "
                "writes the card again"
            )
    return Submission(folder, suite, card, tasks)


def read_task(folder: Path, task: SuiteTask, player: str) -> PlayedTask:
    """Read the results of a task. Raises ArenaError unless all of its games were played."""
    path, game = folder / task.id, task.make_game()
    compared = [spec for spec in (task.player_of(player), task.baseline_of(player)) if spec]
    aggregator = EvaluationAggregator(game, compared, task.target, task.against)
    with Results.read(path) as results:
        experiment, found = results.experiment, results.slots
        if found != task.schedule(player):
            raise ArenaError(
                f"{path}: its games are not those of task {task.id} with player {player}"
            )
        counted = []
        for result in results.leading_games(game):
            aggregator.add(result)
            counted.append(result)
            _check_amounts(f"{path}, game {result.slot.number}", game, result)
            # Games that were played at the same time as the last one that counts may follow.
            if aggregator.enough:
                break
    if len(counted) < len(found) and not aggregator.enough:
        raise ArenaError(
            f"{path}: {len(counted)} of {len(found)} games were played; arena bench run --resume "
            "plays the others"
        )
    return PlayedTask(task, game, path, experiment, counted, aggregator.report())


def _check_version(folder: Path, played: str, card: str) -> None:
    """Raise ArenaError for games of another version than the card's, or of a later one than this.

    Other rules of a game, or other bots, would make other games of the same deals.
    """
    if played != card:
        raise ArenaError(f"{folder} was played by arena {played}, and the card is of arena {card}")
    this, other = (re.findall(r"\d+", version) for version in (__version__, played))
    if not other or [*map(int, other[:3])] > [*map(int, this[:3])]:
        raise ArenaError(
            f"{folder} was played by arena {shorten(played, 40)}, which this arena "
            f"({__version__}) cannot check; install that version"
        )


def _check_amounts(place: str, game: Game, result: GameResult) -> None:
    """Raise ArenaError for measurements that no game can have, such as a negative cost."""
    for seat in result.seats:
        for measure in measures_of(game, seat.measurements):
            share = seat.measurements[measure.name]
            fault = measure.fault(share) or amount_fault(measure.name, share.total)
            if fault:
                raise ArenaError(f"{place}: {measure.title} of {seat.player}: {fault}")


def amount_fault(name: str, amount: float) -> str | None:
    """Return why a game, or a reply, cannot have these tokens or this cost; None if it can."""
    most = MOST_COST if name == "cost" else MOST_TOKENS
    if name not in PER_GAME or 0 <= amount <= most:
        return None
    return f"{amount:g} is not from 0 to {most:,}"


def task_reports(first: Submission, second: Submission) -> Iterator[Report]:
    """Yield for each task the report of the second submission's player, compared with the first's.

    Runs that stopped at different deals are compared on those that both have. Raises UsageError if
    the submissions are of different suites.
    """
    if first.suite != second.suite:
        raise UsageError(f"{second.folder} is of {second.suite.label}, not {first.suite.label}")
    for pair in zip(second.tasks, first.tasks, strict=True):
        deals = [{deal.seed: deal.player for deal in played.deals} for played in pair]
        common = [seed for seed in deals[0] if seed in deals[1]]
        names, task = (second.card.name, first.card.name), pair[0].task
        if names[0] == names[1]:
            names = (str(second.folder), str(first.folder))
        samples = [Sample(name) for name in names]
        for sample, games in zip(samples, deals, strict=True):
            for seed in common:
                sample.add_tested(games[seed], pair[0].game.return_scale)
        yield make_report(
            "eval",
            pair[0].game,
            2 * len(common),
            2 * len(common),
            samples,
            against=[*task.against],
            design=PAIRED_DESIGN,
            comparison=compare(pair[0].game, *samples),
            settings={"task": task.id},
        )


def _system_of(experiment: Experiment) -> str | None:
    models = experiment.settings.get("models")
    system = models.get("system") if isinstance(models, dict) else None
    return system if isinstance(system, str) else None


def make_card(
    suite: Suite, tasks: Sequence[PlayedTask], player: str, name: str, text_level: str
) -> SubmissionCard:
    """Return the card of the played tasks."""
    models = tasks[0].experiment.settings.get("models")
    # The system message depends on the game: each task has its own.
    chat = (
        {name: value for name, value in models.items() if name != "system"}
        if isinstance(models, dict)
        else None
    )
    return SubmissionCard(
        suite=suite.name,
        suite_version=suite.version,
        name=name,
        player=player,
        text_level=text_level,
        chat=chat,
        arena=tasks[0].experiment.arena,
        created=datetime.now(UTC).replace(microsecond=0),
        tasks=tuple(task.summary() for task in tasks),
        usage=usage_of(tasks),
    )


def usage_of(tasks: Sequence[PlayedTask]) -> CardUsage:
    """Add up decisions, replies, tokens and cost of all seats of the player."""
    games = [result for task in tasks for result in task.results if result.slot.role == "player"]
    seats = [seat for game in games for seat in game.own_seats]

    def total(name: str) -> float:
        return sum(seat.measurements[name].total for seat in seats if name in seat.measurements)

    replies = (seat.measurements.get(LEGAL_RATE) for seat in seats)
    names = {name for seat in seats for name in seat.measurements if name.startswith(ANSWERED)}
    has_cost = any("cost" in seat.measurements for seat in seats)
    return CardUsage(
        games=len(games),
        decisions=round(total(DECISIONS)),
        prompt_tokens=round(total("prompt_tokens")),
        completion_tokens=round(total("completion_tokens")),
        cost=round(total("cost"), 6) if has_cost else None,
        replies=round(sum(share.weight for share in replies if share)),
        legal=round(total(LEGAL_RATE)),
        fallbacks=sum(seat.fallbacks for seat in seats),
        fallback_games=sum(not game.no_fallback for game in games),
        answered=tuple(sorted(name.removeprefix(ANSWERED) for name in names)),
    )


def is_close(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two JSON values differ by no more than the rounding of another machine."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_close, one, other))
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return one == other
