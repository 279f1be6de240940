"""One run of a reproduction: its rows, and games whose results are kept as they are finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from arena.cli.terminal import progress_bar
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.episodes.executors import Executor
from arena.episodes.job import FinishedJob, GameJob, run_job, run_jobs
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.evaluation.records import Estimate, Interval, ReportPart
from arena.evaluation.schedule import deal_seed
from arena.evaluation.statistics import clustered_mean, rate
from games.hidden_roles.game import DealRoles, HiddenRolesGame

Numbers = tuple[float, ...]
"""What is measured of one game."""


class Row(ReportPart):
    """A published number beside ours."""

    quantity: str
    published: str = ""
    """As the source prints it; "" for a number that has no published counterpart."""
    source: str = ""
    measured: Interval
    """Ours, with its 95 % interval; an exact number has the interval of rounding, or none."""
    unit: str = ""
    """`%` for a share, else the unit of the numbers."""
    digits: int = 2
    note: str = ""
    """What differs from the source, and why."""

    @property
    def text(self) -> str:
        """Our number with its interval, for people."""
        factor, unit = 100.0 if self.unit == "%" else 1.0, f" {self.unit}".rstrip()

        def number(value: float | None) -> str:
            return "?" if value is None else f"{factor * value:,.{self.digits}f}".replace("-", "−")

        value, low, high = map(number, (self.measured.value, self.measured.low, self.measured.high))
        known = self.measured.low is not None and self.measured.high is not None
        return f"{value}{unit}" + (f" [{low}, {high}]" if known else "")


def exact(value: float) -> Interval:
    """Return the interval of a number that is computed, not sampled."""
    return Interval(value=value)


def share(results: Sequence[bool | float]) -> Interval:
    """Return a share of games with its interval."""
    return Interval.of(rate(sum(map(bool, results)), len(results)))


def mean(values: Sequence[float]) -> Interval:
    """Return a mean of independent games with its interval."""
    return Interval.of(clustered_mean(values, range(len(values))))


def times(interval: Interval, factor: float) -> Interval:
    """Return an interval that is scaled by a positive factor."""
    value, low, high = (
        None if x is None else x * factor for x in (interval.value, interval.low, interval.high)
    )
    return Interval(value=value, low=low, high=high, n=interval.n)


def bracket(estimate: Estimate) -> Interval:
    """Return an estimate with exact bounds, without rounding."""
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high, n=estimate.n)


@dataclass
class ReproductionRun:
    """What the rows of a reproduction are computed with.

    `games` is their number for each setting; None: as many as the reproduction needs. `file` has
    the results of finished games, a line of JSON for each; a later run plays the others. A new
    version of a bot needs a new file.
    """

    name: str
    seed: int
    games: int | None
    file: Path
    executor: Executor
    played: int = 0
    """Games that were played now."""
    kept: int = 0
    """Games of an earlier run."""
    _known: dict[str, Numbers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.file.exists():
            return
        try:
            for line in self.file.read_text("utf-8").splitlines():
                # The last line may be cut off, if an earlier run was killed.
                if line.endswith("]}"):
                    entry = json.loads(line)
                    self._known[entry["game"]] = tuple(entry["numbers"])
        except (ValueError, KeyError, TypeError) as error:
            raise ArenaError(f"{self.file} is damaged ({error}); delete it") from error

    def seeds(self, games: int) -> Iterator[int]:
        """Yield the seeds of the deals of a setting: `games` unless the user gave a number."""
        return (deal_seed(self.seed, number) for number in range(self.games or games))

    async def play(
        self,
        title: str,
        game: Game,
        tables: Callable[[int], Sequence[str]] | Sequence[str],
        measure: Callable[[Game, Episode], Numbers],
        games: int,
    ) -> list[Numbers]:
        """Play games of a setting and return what is measured of each, in the order of the deals.

        `tables` are the SPECs of the seats, or a function that returns them for a seed. `measure`
        must be picklable.
        """
        jobs = []
        for seed in self.seeds(games):
            specs = tables(seed) if callable(tables) else tables
            # The SPECs and the options are in the key: a changed setting is another game.
            key = f"{title}: {game!r} {' '.join(specs)} {seed}"
            jobs.append(
                GameJob(key, Match(game, tuple(specs), seed), partial(_keyed, key, measure))
            )
        missing = [job for job in jobs if job.key not in self._known]
        self.kept += len(jobs) - len(missing)
        with progress_bar(transient=True) as progress:
            bar = progress.add_task(title, total=len(missing))
            play = partial(run_job, executor=self.executor)
            finished = run_jobs(missing, play, 4 * self.executor.workers, store=self._store)
            async with aclosing(finished):
                async for _ in finished:
                    progress.advance(bar)
        return [self._known[job.key] for job in jobs]

    def _store(self, results: Sequence[FinishedJob[tuple[str, Numbers]]]) -> None:
        """Append finished games to the file."""
        lines = []
        for key, numbers in (result.value for result in results):
            self._known[key] = numbers
            lines.append(json.dumps({"game": key, "numbers": numbers}) + "\n")
        self.played += len(results)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write("".join(lines))


def _keyed(
    key: str, measure: Callable[[Game, Episode], Numbers], game: Game, episode: Episode
) -> tuple[str, Numbers]:
    """Return what is measured with the key of the game. Raises ArenaError if a bot failed."""
    if episode.failures:
        raise ArenaError(f"a bot failed in {key}: {episode.failures[0]}")
    return key, measure(game, episode)


def by_team(
    game: Game, majority: str, minority: str, first: str = ""
) -> Callable[[int], Sequence[str]]:
    """Return the function that seats one bot for each team of hidden roles, by the deal of a seed.

    `first`: another bot in the first seat of the majority.
    """

    def seated(seed: int) -> Sequence[str]:
        deal = game.initial_state().sample_chance(stream(seed, "chance"))
        assert isinstance(deal, DealRoles) and isinstance(game, HiddenRolesGame)
        teams = [game.team_of(role) for role in deal.roles]
        specs = [f"bot:{minority if team else majority}" for team in teams]
        if first:
            specs[teams.index(0)] = f"bot:{first}"
        return specs

    return seated


def returns(_: Game, episode: Episode) -> Numbers:
    """Measure the return of each seat."""
    return tuple(map(float, episode.outcome.returns))
