"""The record of one game, and its form on disk: a replay.

A replay is JSON lines, written as the game goes: a header with everything needed to play it
again, a line per move of a player (`decision`) or of chance (`chance`), a line per event, and an
outcome. A game that was cut off leaves a replay that opens up to its last whole line.

A replay is untrusted input: every line is validated, and nothing in it is executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from arena.agents.prompt import ChatOptions
from arena.core.action import CHANCE
from arena.core.errors import ArenaError
from arena.core.game import Game, State
from arena.core.json import Json
from arena.core.observation import TextLevel
from arena.core.outcome import Outcome
from arena.core.ply import Ply
from arena.core.version import __version__
from arena.episodes.files import mark_as_written

SCHEMA_VERSION = 1


Printable = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Text without control characters: it is shown in terminals."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Branch(BaseModel):
    """Where a game left another one, to be played on from there by others.

    The plies before `ply` are the parent's. From there on chance, agents and fallback moves draw
    from `seed`, each from a stream that begins there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent: Printable = Field(description="The name of the parent's file.")
    parent_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="Of the bytes of that file.")
    ply: int = Field(ge=0, description="The first ply of its own: so many are the parent's.")
    seed: int = Field(ge=-(2**63), lt=2**63)
    players: tuple[Printable, ...] = Field(description="The SPEC of each seat until there.")


class Header(_Line):
    """The first line: what is needed to play the game again."""

    type: Literal["header"] = "header"
    schema_version: int = SCHEMA_VERSION
    arena: str = __version__
    game: str
    options: dict[str, Json]
    seed: int = Field(
        ge=-(2**63), lt=2**63, description="Seeds chance, the bots and the fallback moves."
    )
    players: tuple[Printable, ...] = Field(description="The SPEC of each seat.")
    text_level: TextLevel = Field(description="How much help the agents' texts gave.")
    models: dict[str, Json] | None = Field(None, description="How models were asked, if any were.")
    max_turns: int | None = Field(description="Turns after which the game is cut off.")
    created: datetime = Field(description="When the game began; one of the two kinds of times.")
    branches: tuple[Branch, ...] = Field(
        (), description="Where this game left another, oldest first; most games left none."
    )

    @staticmethod
    def of(
        game: Game,
        seed: int,
        players: Sequence[str],
        max_turns: int | None,
        text_level: TextLevel = "notes",
        models: ChatOptions | None = None,
        start: Position | None = None,
    ) -> Header:
        """The header of a game that is played with `seed`, from its beginning or from `start`."""
        return Header(
            game=game.name,
            options=game.options.model_dump(mode="json"),
            seed=start.header.seed if start else seed,
            players=tuple(players),
            text_level=text_level,
            models=models.to_json() if models else None,
            max_turns=max_turns,
            created=datetime.now(UTC),
            branches=start.branches(seed) if start else (),
        )

    def to_json(self) -> dict[str, Json]:
        """The line, without `branches` where there are none: older versions do not know them."""
        return self.model_dump(mode="json", exclude=None if self.branches else {"branches"})

    @property
    def played_with(self) -> int:
        """The seed of the plies that are this game's own."""
        return self.branches[-1].seed if self.branches else self.seed

    @property
    def first_own_ply(self) -> int:
        """The first ply that is not a parent's; 0 for a game from its beginning."""
        return self.branches[-1].ply if self.branches else 0

    def chance_seeds(self) -> dict[int, int]:
        """By the ply at which each stream of chance begins, its seed.

        A ply is the youngest branch's that begins at it or before, so an older branch that begins
        later than a younger one has left nothing.
        """
        seeds, earliest = dict[int, int](), math.inf
        for branch in reversed(self.branches):
            if branch.ply < earliest:
                seeds[branch.ply], earliest = branch.seed, branch.ply
        return {0: self.seed, **seeds}


class DecisionLine(_Line):
    """A player's move."""

    type: Literal["decision"] = "decision"
    ply: int
    player: int = Field(ge=0)
    action: str
    failure: str | None = Field(None, description="Why a fallback was played, if one was.")
    details: dict[str, Json] = Field(default_factory=dict)
    seconds: float = Field(description="Time to decide; one of the two kinds of times.")


class ChanceLine(_Line):
    """A deal or a throw of dice."""

    type: Literal["chance"] = "chance"
    ply: int
    action: str


class EventLine(_Line):
    """Something that happened in this ply; its own fields stand beside these."""

    model_config = ConfigDict(frozen=True, extra="allow")
    type: Literal["event"] = "event"
    ply: int
    event: str
    audience: tuple[int, ...] | None = Field(description="The seats that saw it; null for all.")


class OutcomeLine(_Line):
    """The last line of a finished game."""

    type: Literal["outcome"] = "outcome"
    status: Literal["terminated", "truncated"]
    reason: Printable
    returns: tuple[float, ...]
    winner: int | None
    turns: int
    decisions: int


ReplayLine = Annotated[
    Header | DecisionLine | ChanceLine | EventLine | OutcomeLine, Field(discriminator="type")
]
LINE: TypeAdapter[ReplayLine] = TypeAdapter(ReplayLine)


def replay_json_schema() -> dict[str, Json]:
    """The JSON Schema of one line of a replay."""
    schema = LINE.json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of an arena replay, schema version {SCHEMA_VERSION}",
        **schema,
    }


@dataclass(frozen=True, slots=True)
class Position:
    """A position of a recorded game, from which others may play on."""

    parent: str
    """The name of the game's file."""
    sha256: str
    """Of its bytes."""
    header: Header
    plies: tuple[Ply, ...]
    """All from the beginning to this position."""

    def branches(self, seed: int) -> tuple[Branch, ...]:
        """What the header of a game that plays on from here with `seed` says of its origin."""
        own = Branch(
            parent=self.parent,
            parent_sha256=self.sha256,
            ply=len(self.plies),
            seed=seed,
            players=self.header.players,
        )
        return (*self.header.branches, own)


@dataclass(frozen=True, slots=True)
class Failure:
    """A seat's agent gave no legal answer."""

    player: int
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """The whole record of one game."""

    header: Header
    plies: tuple[Ply, ...]
    outcome: Outcome
    turns: int

    @property
    def failures(self) -> list[Failure]:
        """The decisions that an agent failed to make, so that a fallback was played.

        Of a branch only those since it began: others sat there before.
        """
        own = self.plies[self.header.first_own_ply :]
        return [Failure(ply.player, ply.decision.failure) for ply in own if ply.decision.failure]

    @property
    def decisions(self) -> int:
        """How many times a player chose."""
        return sum(ply.player != CHANCE for ply in self.plies)


def turns_played(state: State, max_turns: int | None) -> int:
    """Turns that players have had; one that began at the limit is not counted."""
    return state.turn if max_turns is None else min(state.turn, max_turns)


def dump(line: dict[str, Json]) -> str:
    return json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"


class ReplayWriter:
    """A watcher that writes the replay, line by line and flushed.

    The file is called `NAME.jsonl.part` until its outcome is written, then `NAME.jsonl`; `path`
    says what it is called now. An existing file is never overwritten: the name gets a number.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder = folder
        self._stem = stem
        self._final = self.path = folder / f"{stem}.jsonl"
        self._file: IO[str] | None = None
        self._turns = self._decisions = 0
        self._max_turns: int | None = None

    def begin(self, header: Header, state: State) -> None:
        self._max_turns = header.max_turns
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._claim()
        except OSError as error:
            raise ArenaError(f"cannot write {self.path}: {error.strerror}") from error
        self._write([header.to_json()])

    def ply(self, ply: Ply, state: State) -> None:
        self._turns = turns_played(state, self._max_turns)
        self._decisions += ply.player != CHANCE
        self._write(ply.lines())

    def end(self, outcome: Outcome) -> None:
        line = OutcomeLine(
            status=outcome.status,
            reason=outcome.reason,
            returns=outcome.returns,
            winner=outcome.winner,
            turns=self._turns,
            decisions=self._decisions,
        )
        self._write([line.model_dump(mode="json")])
        self.close()
        try:
            self.path = self.path.rename(self._final)
        except OSError as error:
            raise ArenaError(f"cannot write {self._final}: {error.strerror}") from error

    def _claim(self) -> None:
        """Open the first of `stem.jsonl`, `stem-2.jsonl`, … that nobody else has or is writing."""
        for number in count(1):
            name = self._stem if number == 1 else f"{self._stem}-{number}"
            self._final = self._folder / f"{name}.jsonl"
            self.path = self._folder / f"{name}.jsonl.part"
            with suppress(FileExistsError):
                self._file = self.path.open("x", encoding="utf-8")
                mark_as_written(self._file)
                if not self._final.exists():
                    return
                self.close()
                self.path.unlink()

    @property
    def unfinished(self) -> bool:
        """Whether a part of the game has been written, but not its outcome."""
        return self.path != self._final and self.path.exists()

    def close(self) -> None:
        if self._file:
            # Everything was flushed; what a full disk refused has been reported already.
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, lines: Iterator[dict[str, Json]] | list[dict[str, Json]]) -> None:
        assert self._file is not None
        try:
            self._file.write("".join(map(dump, lines)))
            self._file.flush()
        except OSError as error:
            raise ArenaError(
                f"cannot write {self.path}: {error.strerror}; what was written so far is kept"
            ) from error
