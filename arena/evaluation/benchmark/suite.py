"""Suites: versioned files with the evaluations of a benchmark.

A suite fixes games, options, opponents, baselines, numbers of deals and the deals themselves. All
deals follow from one secret. Each file publishes the SHA-256 hash of the secret of its own version
and of the next one, which is revealed when that version appears: so no one, not even the authors,
can choose the deals of a later version by their results.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
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

from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.text import pluralize, shorten
from arena.evaluation.records import Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.plugins.loader import make_game

SUITE_FILE = "suite.json"
"""Name of the copy of the suite in a submission."""
SUITES = Path(__file__).parent / "suites"
LARGEST_FILE = 4 * 2**20
"""Bytes of a suite or a card; a larger file is not one."""
LARGEST_TASK_SEED = 2**53
BASELINE = "suite:baseline"
"""SPEC of the player that is each task's own baseline."""
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Identifier = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]{0,39}$")]
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,400}$")]


class FrozenModel(BaseModel):
    """A record of a file of the benchmark: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=FrozenModel)


class SuiteTask(FrozenModel):
    """One evaluation of a suite."""

    id: Identifier
    """Name of its folder in a submission."""
    skill: Line
    """What it mainly needs: deduction, bluffing, cooperation, talk, planning."""
    game: Line
    options: dict[str, JsonValue] = Field(default_factory=dict)
    against: tuple[Line, ...] = Field(min_length=1)
    """SPECs of the other seats, as in `arena eval --against`."""
    baseline: Line
    """SPEC that plays the same deals in the same seats."""
    deals: int = Field(ge=2, le=10**5)
    """Deals at most; all of them are played unless there is a `target`."""
    target: float | None = Field(None, gt=0)
    """Half width of the confidence sequence at which the task ends."""
    max_turns: int | None = Field(None, ge=1)

    def make_game(self) -> Game:
        """Make the game. Raises UsageError for a game or an option that does not exist."""
        return make_game(self.game, **self.options)

    def player_of(self, player: str) -> str:
        """Return the SPEC that plays this task, for the player of the suite."""
        return self.baseline if player == BASELINE else player

    def baseline_of(self, player: str) -> str | None:
        """Return the baseline's SPEC; None for the baseline itself, which plays each deal once."""
        return None if self.player_of(player) == self.baseline else self.baseline


class Suite(FrozenModel):
    """A version of a suite."""

    format: Literal[1]
    name: Identifier
    version: int = Field(ge=1, le=10**6)
    title: Line
    about: Line
    secret: Digest
    """Fixes all deals of this version."""
    commitments: dict[int, Digest]
    """Hash of the secret of this version, and of later ones, by version."""
    max_attempts: int = Field(ge=1, le=20)
    """Replies of a model per decision until the fallback."""
    tasks: tuple[SuiteTask, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _check(self) -> Self:
        ids = [task.id for task in self.tasks]
        if len(set(ids)) < len(ids):
            raise ValueError("two tasks have one id")
        if self.commitments.get(self.version) != commitment(self.name, self.version, self.secret):
            raise ValueError("the secret is not the one that the commitment of its version names")
        return self

    @property
    def label(self) -> str:
        """Name and version: `mini 1`."""
        return f"{self.name} {self.version}"

    @property
    def sha256(self) -> str:
        """Hash of the content, whatever the layout of the file."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def skills(self) -> list[str]:
        """The skills of the tasks, in their order."""
        return list(dict.fromkeys(task.skill for task in self.tasks))

    def seed(self, task: SuiteTask) -> int:
        """Return the seed of a task, from which `deal_seed` derives its deals.

        It is SHA-256(secret/name/version/id) mod 2^53, so tasks and versions share no deals.
        """
        text = f"{self.secret}/{self.name}/{self.version}/{task.id}"
        digest = hashlib.sha256(text.encode()).digest()
        return int.from_bytes(digest, "big") % LARGEST_TASK_SEED

    def schedule(self, task: SuiteTask, player: str) -> list[Slot]:
        """Return all games of a task with this player."""
        seats, baseline = task.make_game().num_players, task.baseline_of(player)
        seed, tested = self.seed(task), task.player_of(player)
        return list(
            evaluation_schedule(seats, tested, task.against, baseline, task.deals, seed, "hashed")
        )

    def settings(self, task: SuiteTask) -> dict[str, JsonValue]:
        """Return the settings in the results file that name the suite and the task."""
        return {
            "suite": self.name,
            "suite_version": self.version,
            "suite_sha256": self.sha256,
            "task": task.id,
        }


def commitment(name: str, version: int, secret: str) -> str:
    """Return the published hash of a secret: SHA-256(name/version/secret)."""
    return hashlib.sha256(f"{name}/{version}/{secret}".encode()).hexdigest()


def read_suite(path: Path) -> Suite:
    """Read a suite file. Raises ArenaError, with the fault, for any other file."""
    return read_model(path, Suite, "suite")


def read_model(path: Path, model: type[Model], noun: str) -> Model:
    """Read a JSON file into a model. Raises ArenaError with the place of the first fault."""
    try:
        if path.is_file() and path.stat().st_size > LARGEST_FILE:
            raise ArenaError(f"{path} is too large for a {noun}")
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ArenaError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        message = shorten(f"{place}: {fault['msg']}" if place else fault["msg"])
        raise ArenaError(f"{path} is not a {noun}: {message}") from None


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
    versions = [suite for suite in bundled_suites() if suite.name == name]
    if not versions:
        known = ", ".join(dict.fromkeys(suite.name for suite in bundled_suites()))
        raise UsageError(
            f"there is no suite '{shorten(name, 60)}'; known: {known}, or a .json file"
        )
    if not at:
        return versions[-1]
    for suite in versions:
        if str(suite.version) == version:
            return suite
    committed = any(str(number) == version for number in versions[-1].commitments)
    reason = "its secret is not revealed yet" if committed else "there is no such version"
    playable = ", ".join(str(suite.version) for suite in versions)
    raise UsageError(
        f"{shorten(text, 60)}: {reason}; {pluralize(len(versions), 'version')} "
        f"of {name}: {playable}"
    )


def published(suite: Suite) -> Suite | None:
    """Return the bundled suite of this name and version; None if there is none."""
    same = (each for each in bundled_suites() if each.label == suite.label)
    return next(same, None)
