"""Benchmark suites: versioned files that fix games, options, opponents, baselines and deals.

A run of a suite with one player is a folder, the submission; see `submission`.
"""

from __future__ import annotations

import math
from codecs import BOM_UTF8
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.text import did_you_mean, first_fault, pluralize, shorten, unique_json
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.plugins.catalog import make_game

SUITES = Path(__file__).parent / "suites"
LARGEST_FILE = 4 * 2**20
"""Bytes of a suite or a card; a larger file is not one."""
BASELINE = "suite:baseline"
"""SPEC of the player that is each task's own baseline."""
RETURN = "return"
"""Name of the score that is the return of the game."""
Identifier = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]{0,39}$")]
Line = Annotated[str, StringConstraints(pattern=r"^[^\p{Cc}\p{Cf}]{1,400}$")]
"""A text without control characters, and without those that change the direction of writing."""


class FrozenModel(BaseModel):
    """A record of a file of the benchmark: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=FrozenModel)


class SuiteTask(FrozenModel):
    """One evaluation of a suite."""

    id: Identifier
    """Name of its folder in a submission."""
    skill: Line
    """Main ability that it needs: deduction, bluffing, cooperation, talk, planning."""
    game: Line
    options: dict[str, JsonValue] = Field(default_factory=dict)
    against: tuple[Line, ...] = Field(min_length=1)
    """SPECs of the other seats, as in `arena eval --against`."""
    baseline: Line
    """SPEC that plays the same deals in the same seats."""
    seed: int = Field(ge=0, lt=2**53)
    """Seed from which `deal_seed` derives the deals."""
    deals: int = Field(ge=2, le=10**5)
    """Deals at most; all of them are played unless there is a `target`."""
    target: float | None = Field(None, gt=0)
    """Half width of the confidence sequence at which the task ends."""
    max_turns: int | None = Field(None, ge=1)
    scores: tuple[Line, ...] = Field((RETURN,), min_length=1)
    """Criteria of being ahead on a deal: `return`, or a measure of the game. The next one decides
    between games that are equal by those before it, so that a weak player is not at a floor."""

    def make_game(self) -> Game:
        """Make the game. Raises UsageError for a game or an option that does not exist."""
        return make_game(self.game, **self.options)

    def player_of(self, player: str) -> str:
        """Return the SPEC that plays this task, for the player of the suite."""
        return self.baseline if player == BASELINE else player

    def baseline_of(self, player: str) -> str | None:
        """Return the baseline's SPEC; None for the baseline itself, which plays each deal once."""
        return None if self.player_of(player) == self.baseline else self.baseline

    def schedule(self, player: str) -> list[Slot]:
        """Return all games with this player."""
        seats, baseline = self.make_game().num_players, self.baseline_of(player)
        tested = self.player_of(player)
        return list(
            evaluation_schedule(seats, tested, self.against, baseline, self.deals, self.seed)
        )

    @cached_property
    def _lower_is_better(self) -> set[str]:
        measures = self.make_game().analysis.measures
        return {measure.name for measure in measures if measure.better == "lower"}

    def rank(self, result: GameResult) -> tuple[float, ...]:
        """Return the scores of the seat under test, higher for better, in order of importance.

        A game without a measure comes after all that have it.
        """
        seat, found = result.tested, list[float]()
        for score in self.scores:
            weighted = seat.measurements.get(score, WeightedSum(0.0, 0.0))
            sign = -1 if score in self._lower_is_better else 1
            value = sign * weighted.total / weighted.weight if weighted.weight else -math.inf
            # Rounded, because the sums of another machine may differ in their last digits.
            found.append(seat.returns if score == RETURN else round(value, 6))
        return tuple(found)


class Suite(FrozenModel):
    """A version of a suite."""

    format: Literal[1]
    name: Identifier
    version: int = Field(ge=1, le=10**6)
    title: Line
    about: Line
    max_attempts: int = Field(ge=1, le=20)
    """Replies of a model per decision until the fallback."""
    tasks: tuple[SuiteTask, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _check(self) -> Self:
        ids = [task.id for task in self.tasks]
        if len(set(ids)) < len(ids):
            raise ValueError("two tasks have one id")
        return self

    @property
    def label(self) -> str:
        """Name and version: `mini 1`."""
        return f"{self.name} {self.version}"

    @property
    def skills(self) -> list[str]:
        """The skills of the tasks, in their order."""
        return list(dict.fromkeys(task.skill for task in self.tasks))


def read_model(path: Path, model: type[Model], noun: str) -> Model:
    """Read a JSON file into a model. Raises ArenaError with the place of the first fault."""
    try:
        if path.stat().st_size > LARGEST_FILE or not path.is_file():
            raise ArenaError(f"{path} is too large for a {noun}, or no regular file")
        return model.model_validate(unique_json(path.read_bytes().removeprefix(BOM_UTF8)))
    except OSError as error:
        raise ArenaError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        raise ArenaError(f"{path} is not a {noun}: {shorten(first_fault(error))}") from None
    except (ValueError, RecursionError) as error:
        raise ArenaError(f"{path} is not a {noun}: {shorten(str(error))}") from None


def read_suite(path: Path) -> Suite:
    """Read a suite file. Raises ArenaError, with the fault, for any other file."""
    return read_model(path, Suite, "suite")


@cache
def bundled_suites() -> tuple[Suite, ...]:
    """Return the suites of this version of arena, by name and version."""
    suites = [read_suite(path) for path in SUITES.glob("*.json")]
    return tuple(sorted(suites, key=lambda suite: (suite.name, suite.version)))


def find_suite(text: str) -> Suite:
    """Return the suite that `NAME`, `NAME@VERSION` or a path ending in .json names.

    A name alone means the newest version. Raises UsageError for an unknown suite or version.
    """
    if text.endswith(".json"):
        return read_suite(Path(text))
    name, at, version = text.partition("@")
    versions = {str(suite.version): suite for suite in bundled_suites() if suite.name == name}
    if not versions:
        names = list(dict.fromkeys(suite.name for suite in bundled_suites()))
        near, known = did_you_mean(name, names), ", ".join(names)
        raise UsageError(
            f"there is no suite '{shorten(name, 60)}'; {near}known: {known}, or a .json file"
        )
    if at and version not in versions:
        raise UsageError(
            f"{shorten(text, 60)}: there is no such version; "
            f"{pluralize(len(versions), 'version')} of {name}: {', '.join(versions)}"
        )
    return versions[version] if at else [*versions.values()][-1]
