"""Submissions: a folder with the results of one player in all tasks of a suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.version import __version__
from arena.evaluation.aggregation import EvaluationAggregator
from arena.evaluation.benchmark import (
    CARD_FILE,
    DECEPTION,
    PROFILE,
    SUITE_FILE,
    CardUsage,
    SubmissionCard,
    Suite,
    SuiteTask,
    TaskResult,
    published,
    read_model,
    read_suite,
)
from arena.evaluation.paired import compare, leading_games
from arena.evaluation.records import ANSWERED, DECISIONS, LEGAL_RATE, RESULTS, GameResult, Interval
from arena.evaluation.report import Report
from arena.evaluation.statistics.ratings import share_ahead
from arena.evaluation.store import Results
from arena.evaluation.store.schema import Experiment
from arena.evaluation.summary import Sample


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
    def returns(self) -> float:
        """The player's return."""
        return self.player.tested.returns

    @property
    def gain(self) -> float:
        """The player's return minus the baseline's; 0 for the baseline itself."""
        return self.returns - self.baseline.tested.returns if self.baseline else 0.0

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
        report, comparison = self.report, self.report.comparison
        player = report.players[0]
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
            games_needed=comparison.games_needed if comparison else None,
            measures=self._profile(player.measures),
            ahead=ahead_of_baseline([self]),
        )

    def _profile(self, measures: Mapping[str, Interval]) -> dict[str, Interval]:
        """Return the measures that the card of this task has."""
        names = [*self.task.scores, *(PROFILE if self.task.skill == DECEPTION else ())]
        return {name: measures[name] for name in names if name in measures}


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


def read_submission(folder: Path, suite: Suite | None = None) -> Submission:
    """Read a submission and check that it belongs to the suite and is complete.

    Nothing is played again; `verify_submission` does that. The default is the bundled suite of its
    name and version. Raises ArenaError with the fault, in one line.
    """
    if not folder.is_dir():
        raise ArenaError(f"{folder}: there is no such folder; name one of arena bench run --out")
    own = read_suite(folder / SUITE_FILE)
    official = suite or published(own)
    if official is None:
        raise ArenaError(
            f"{folder}: its suite {own.label} is not one of this version of arena; name the "
            "suite's file with --suite"
        )
    if own.sha256 != official.sha256:
        raise ArenaError(
            f"{folder}: its suite {own.label} ({own.sha256[:12]}…) is not the published "
            f"{official.label} ({official.sha256[:12]}…)"
        )
    if not (folder / CARD_FILE).exists():
        raise ArenaError(
            f"{folder} has no {CARD_FILE}: the run is not finished; continue it with arena bench "
            f"run {own.name} --resume --out {folder}"
        )
    card = read_model(folder / CARD_FILE, SubmissionCard, "model card")
    if (card.suite, card.suite_version, card.suite_sha256) != (
        official.name,
        official.version,
        official.sha256,
    ):
        raise ArenaError(f"{folder / CARD_FILE}: it is for another suite than {SUITE_FILE}")
    tasks = [read_task(folder, official, task, card.player) for task in official.tasks]
    return Submission(folder, official, card, tasks)


def read_task(folder: Path, suite: Suite, task: SuiteTask, player: str) -> PlayedTask:
    """Read the results of a task. Raises ArenaError unless all of its games were played."""
    path, game = folder / task.id / RESULTS, task.make_game()
    baseline = task.baseline_of(player)
    tested = task.player_of(player)
    aggregator = EvaluationAggregator(game, tested, baseline, task.target, task.against)
    with Results.read(path) as results:
        experiment, found = results.experiment, results.schedule()
        if found != suite.schedule(task, player):
            raise ArenaError(
                f"{path}: its games are not those of task {task.id} of {suite.label} with "
                f"player {player}"
            )
        results.check_tables()
        counted = []
        for result in leading_games(results, game):
            aggregator.add(result)
            counted.append(result)
            # Games that were played at the same time as the last one that counts may follow.
            if aggregator.enough:
                break
    if len(counted) < len(found) and not aggregator.enough:
        raise ArenaError(
            f"{path}: {len(counted)} of {len(found)} games were played; arena bench run --resume "
            "plays the others"
        )
    return PlayedTask(task, game, folder / task.id, experiment, counted, aggregator.report())


def measure_changes(first: Submission, second: Submission) -> Iterator[tuple[str, str, Interval]]:
    """Yield task, measure and change from the first to the second submission, paired by deal.

    Of the measures of talk. Runs that stopped at different deals are compared on those that both
    have. Raises UsageError if they are of different suites.
    """
    if first.suite.sha256 != second.suite.sha256:
        raise UsageError(f"{second.folder} is of {second.suite.label}, not {first.suite.label}")
    for pair in zip(first.tasks, second.tasks, strict=True):
        before, after = (Sample(each.folder.name) for each in pair)
        one, other = ({deal.seed for deal in played.deals} for played in pair)
        for played, sample in zip(pair, (before, after), strict=True):
            for deal in played.deals:
                if deal.seed in one & other:
                    sample.add_tested(deal.player, played.game.return_scale)
        changes = compare(pair[0].game, after, before).measures
        yield from ((pair[0].task.id, name, changes[name]) for name in PROFILE if name in changes)


def make_card(
    suite: Suite, tasks: Sequence[PlayedTask], player: str, name: str, text_level: str
) -> SubmissionCard:
    """Return the card of the played tasks."""
    return SubmissionCard(
        suite=suite.name,
        suite_version=suite.version,
        suite_sha256=suite.sha256,
        name=name,
        player=player,
        text_level=text_level,
        chat=chat_options(tasks[0].experiment.settings.get("models")),
        arena=__version__,
        created=datetime.now(UTC).replace(microsecond=0),
        tasks=tuple(task.summary() for task in tasks),
        usage=usage_of(tasks),
    )


def chat_options(models: JsonValue) -> dict[str, JsonValue] | None:
    """Return how models were asked, without the system message, which depends on the game."""
    if not isinstance(models, dict):
        return None
    return {name: value for name, value in models.items() if name != "system"}


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
