"""Benchmark suites: versioned files that fix games, options, opponents, baselines and deals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.text import did_you_mean, first_fault, shorten, unique_json
from arena.episodes.files import check_exists
from arena.evaluation.records import Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.plugins.catalog import make_game

LARGEST_FILE = 2**20
"""Bytes of a suite, at most."""
Identifier = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]{0,39}$")]
Line = Annotated[str, StringConstraints(pattern=r"^[^\p{Cc}\p{Cf}]{1,400}$")]
"""A text without control characters, and without those that change the direction of writing."""


class SuiteTask(BaseModel):
    """One evaluation of a suite."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Identifier
    """Name of its folder in the folder of the run."""
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

    def make_game(self) -> Game:
        """Make the game. Raises UsageError for a game or an option that does not exist."""
        return make_game(self.game, **self.options)

    def baseline_of(self, player: str) -> str | None:
        """Return the baseline's SPEC; None for the baseline itself, which plays each deal once."""
        return None if player == self.baseline else self.baseline

    def schedule(self, player: str) -> Iterator[Slot]:
        """Yield all games with this player."""
        seats, baseline = self.make_game().num_players, self.baseline_of(player)
        return evaluation_schedule(seats, player, self.against, baseline, self.deals, self.seed)


class Suite(BaseModel):
    """A version of a suite."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Identifier
    version: int = Field(ge=1, le=10**6)
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
        """Name and version: `mini 2`."""
        return f"{self.name} {self.version}"


def read_suite(path: Path) -> Suite:
    """Read a suite file. Raises ArenaError, with the first fault, for any other file."""
    check_exists(path)
    try:
        if path.stat().st_size > LARGEST_FILE or not path.is_file():
            raise ArenaError(f"{path} is too large for a suite, or no regular file")
        return Suite.model_validate(unique_json(path.read_bytes()))
    except OSError as error:
        raise ArenaError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        raise ArenaError(f"{path} is not a suite: {shorten(first_fault(error))}") from None
    except (ValueError, RecursionError) as error:
        raise ArenaError(f"{path} is not a suite: {shorten(str(error))}") from None


@cache
def bundled_suites() -> dict[str, Suite]:
    """Return the suites of this version of arena by name."""
    suites = map(read_suite, sorted(Path(__file__).parent.glob("*.json")))
    return {suite.name: suite for suite in suites}


def find_suite(text: str) -> Suite:
    """Return the suite of this name, or that of a path ending in .json. Raises UsageError."""
    if text.endswith(".json"):
        return read_suite(Path(text))
    known = bundled_suites()
    if text not in known:
        near = did_you_mean(text, known)
        raise UsageError(
            f"there is no suite '{shorten(text, 60)}'; {near}known: {', '.join(known)}, or a .json "
            "file"
        )
    return known[text]
