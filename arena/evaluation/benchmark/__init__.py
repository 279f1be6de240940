"""Benchmark suites: versioned files with evaluations; and model cards of submissions to them.

A suite fixes games, options, opponents, baselines, numbers of deals and the deals themselves. All
deals follow from a secret and, from the second version on, from a public random value (a beacon).
Each file publishes the SHA-256 hash of the secret of the next version, and names a beacon that does
not exist yet. So the holder of the secret knows the deals no earlier than everyone knows the
beacon, and no one can choose them.

The card of a submission holds who played what, how and with which results, as JSON and Markdown.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from datetime import datetime
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
from arena.core.outcome import ReturnScale
from arena.core.text import UNKNOWN, decimal, first_fault, percentage, pluralize, shorten
from arena.evaluation.formatting import amount, escape_markdown, number, percent
from arena.evaluation.records import GameResult, Interval, Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.plugins.loader import make_game

SUITE_FILE = "suite.json"
"""Name of the copy of the suite in a submission."""
SUITES = Path(__file__).parent / "suites"
LARGEST_FILE = 4 * 2**20
"""Bytes of a suite or a card; a larger file is not one."""
LARGEST_TASK_SEED = 2**53
BASELINE, BETTER = "suite:baseline", "suite:better"
"""SPECs of the player that is each task's own baseline, and of the one known to be better."""
RETURN = "return"
"""Name of the score that is the return of the game."""
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
    scores: tuple[Line, ...] = Field((RETURN,), min_length=1, exclude_if=lambda v: v == (RETURN,))
    """What decides who is ahead on a deal: `return`, or a measure of the game. The next one decides
    between games that are equal by those before it, so that a weak player is not at a floor."""
    known: tuple[tuple[Line, Line], ...] = Field((), exclude_if=lambda value: not value)
    """Pairs of SPECs, the one that is known to be better first; the deals show each order with a
    probability of 95 % (`arena bench power`). The better one of the first is `suite:better`."""

    def make_game(self) -> Game:
        """Make the game. Raises UsageError for a game or an option that does not exist."""
        return make_game(self.game, **self.options)

    def player_of(self, player: str) -> str:
        """Return the SPEC that plays this task, for the player of the suite.

        Raises UsageError for `suite:better` in a task that names no known pair.
        """
        if player == BETTER and not self.known:
            raise UsageError(f"{BETTER}: task {self.id} names no player that is known to be better")
        named = {BASELINE: self.baseline, BETTER: self.known[0][0] if self.known else ""}
        return named.get(player, player)

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
    beacons: dict[int, Line] = Field(default_factory=dict)
    """Public random value that is mixed into the seeds of a version, named before it exists."""
    beacon: Digest | None = None
    """The value of this version's; None for a first version, which has no commitment before it."""
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
        if (self.beacon is None) != (self.version not in self.beacons):
            raise ValueError("a version has a beacon if, and only if, an earlier one has named it")
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

        It is SHA-256(secret/name/version/id) mod 2^53, with secret/beacon for a secret if there is
        a beacon, so tasks and versions share no deals.
        """
        secret = "/".join(filter(None, (self.secret, self.beacon)))
        text = f"{secret}/{self.name}/{self.version}/{task.id}"
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


def reveal(suite: Suite, secret: str, beacon: str, next_secret: str, next_beacon: str) -> Suite:
    """Return the next version of a suite: the same tasks on new deals.

    `suite` is the newest version, which has the commitment to the secret and names the beacon. Only
    the hash of `next_secret` is in the result; `next_beacon` names a beacon that must not exist
    yet.

    Raises UsageError if the commitment is not that of the secret, or a value is not of 64 hex
    digits.
    """
    version, after = suite.version + 1, suite.version + 2
    if suite.commitments.get(version) != commitment(suite.name, version, secret):
        raise UsageError(f"the secret is not the one that {suite.label} has committed itself to")
    later = {version: suite.commitments[version], after: commitment(suite.name, after, next_secret)}
    fields = suite.model_dump() | {
        "version": version,
        "secret": secret,
        "beacon": beacon,
        "commitments": later,
        "beacons": {version: suite.beacons.get(version), after: next_beacon},
    }
    try:
        return Suite.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{suite.name} {version}: {first_fault(error)}") from None


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
        raise ArenaError(f"{path} is not a {noun}: {shorten(first_fault(error))}") from None


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


CARD_FILE, CARD_TEXT = "card.json", "README.md"

UNPROVEN = (
    "Not proven: which model gave the replies and that it had no help, the tokens, cost and times "
    "that its provider states, and that this was its only run."
)
"""What no check of a folder can show."""

DECEPTION = "deception"
"""Skill of the tasks whose card has a profile of talk."""
PROFILE = {
    "lies": "lies",
    "bluffs": "bluffs",
    "honest": "honest claims",
    "literal_bits": "effect on literal listeners (bits)",
    "level1_bits": "effect on cautious listeners (bits)",
    "detection": "votes that hit the minority",
    "suspicion_score": "score of stated suspicions (bits)",
    "intentions_kept": "announced moves that were made",
    "promises_kept": "promises kept",
    "contradictions": "contradictions",
    "unread": "unread speech",
}
"""Measures of a profile of talk, with their names on the card."""
PROFILE_WIDTH = 0.05
"""Half width of an interval for which the card states how many deals it needs."""


class TaskResult(FrozenModel):
    """The result of one task."""

    task: Identifier
    skill: Line
    game: Line
    games: int = Field(ge=0)
    """Of the player, and of the baseline on the same deals."""
    deals: int = Field(ge=0)
    scale: ReturnScale
    result: Interval
    """Mean return of the player."""
    difference: Interval
    """From the baseline on the same deals; empty for the baseline itself."""
    any_time: bool
    """Whether the run stopped by its results, so that the difference is a confidence sequence."""
    games_needed: int | None
    """Pairs of games that show this difference with 80 % power; None if no number does."""
    measures: dict[Line, Interval] = Field(default_factory=dict)
    """Of the player: the scores beside the return and, in tasks of the skill `deception`, the
    measures of talk (`PROFILE`)."""
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
    suite_sha256: Digest
    name: Line
    """Name in tables; the SPEC unless the submitter chose another."""
    player: Line
    """SPEC without user and password of a URL."""
    text_level: Line
    chat: dict[str, JsonValue] | None
    """How models were asked; None if only bots played."""
    arena: Line
    created: datetime
    tasks: tuple[TaskResult, ...]
    usage: CardUsage

    @property
    def uses_models(self) -> bool:
        return self.chat is not None


def card_markdown(card: SubmissionCard) -> str:
    """Return the card as Markdown."""
    parts = (*_head(card), *_results(card), *_profile(card), *_usage(card), *_check(card))
    return "\n".join([*parts, ""])


def _head(card: SubmissionCard) -> Iterator[str]:
    yield f"# {escape_markdown(card.name)} on {card.suite} {card.suite_version}\n"
    facts = {
        "Player": card.player,
        "Text level": card.text_level if card.uses_models else "none, only bots played",
        "Suite": f"{card.suite} {card.suite_version}, SHA-256 {card.suite_sha256}",
        "Arena": card.arena,
        "Date": card.created.date().isoformat(),
    }
    yield from (f"- {name}: {escape_markdown(value)}" for name, value in facts.items())


def _results(card: SubmissionCard) -> Iterator[str]:
    yield "\n## Results\n"
    yield "Brackets are 95 % intervals. The baseline played the same deals in the same seats.\n"
    yield "| task | skill | deals | result | difference to the baseline | ahead of the baseline |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for task in card.tasks:
        cells = (
            task.task,
            escape_markdown(task.skill),
            str(task.deals),
            amount(task.result, task.scale),
            amount(task.difference, task.scale, signed=True),
            percent(task.ahead),
        )
        yield f"| {' | '.join(cells)} |"


def _profile(card: SubmissionCard) -> Iterator[str]:
    rows = [(task, name, task.measures[name]) for task in card.tasks for name in task.measures]
    if not rows:
        return
    yield "\n## Measures\n"
    yield (
        "Of the player's seats, by exact knowledge; brackets are 95 % intervals. The last column: "
        f"deals that an interval of ± {PROFILE_WIDTH:g} needs, by the width of this one.\n"
    )
    yield "| task | measure | value | deals for ± 0.05 |"
    yield "| --- | --- | ---: | ---: |"
    for task, name, found in rows:
        needed = ""
        # The width falls with the square root of the number of deals.
        if found.low is not None and found.high is not None and found.high > found.low:
            width = (found.high - found.low) / 2
            needed = f"{math.ceil(task.deals * (width / PROFILE_WIDTH) ** 2):,}"
        title = PROFILE.get(name, name.replace("_", " "))
        yield f"| {task.task} | {title} | {number(found, 3)} | {needed} |"


def _usage(card: SubmissionCard) -> Iterator[str]:
    usage = card.usage
    yield "\n## Replies and cost\n"
    yield f"- Games: {usage.games}, {usage.fallback_games} of them with a fallback move"
    if not card.uses_models:
        yield "- Models: none, so there are no tokens and no cost"
        return
    games = max(1, usage.games)
    cost = UNKNOWN if usage.cost is None else f"${usage.cost / games:.4f}"
    yield f"- Legal replies: {percentage(usage.legal / max(1, usage.replies))} of {usage.replies}"
    yield f"- Tokens per game: {decimal(usage.prompt_tokens / games, 0)} in prompts, "
    yield f"  {decimal(usage.completion_tokens / games, 0)} in replies"
    yield f"- Cost per game: {cost}"


def _check(card: SubmissionCard) -> Iterator[str]:
    yield "\n## Check\n"
    yield (
        f"`arena bench verify FOLDER` plays every game of this folder again and compares "
        f"`{CARD_FILE}` with the replays; this text is generated from that file.\n\n{UNPROVEN}"
    )
