"""The record of one game, and the lines of its replay.

A replay is JSON lines, written during the game: a header with everything needed to play it again, a
line for each move of a player (`decision`) or of chance (`chance`), a line for each event, and an
outcome. An interrupted game leaves a replay that can be read up to its last whole line.

A replay is untrusted input: every line is validated, and nothing in it is executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from arena.agents.chat import ChatOptions
from arena.core.action import CHANCE
from arena.core.event import Outcome, Ply
from arena.core.game import Game, State
from arena.core.observation import TextLevel
from arena.core.version import __version__

SCHEMA_VERSION = 1


Printable = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Text without control characters: it is shown in terminals."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Branch(_Strict):
    """Origin of a game that goes on from a position of another game, its parent.

    The plies before `ply` are the parent's. From there on, chance, agents and fallback moves draw
    from `seed`, each from a stream that starts there.
    """

    parent: Printable = Field(description="The name of the parent's file.")
    parent_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="Of the bytes of that file.")
    ply: int = Field(ge=0, description="Number of plies that are the parent's.")
    seed: int = Field(ge=-(2**63), lt=2**63)
    players: tuple[Printable, ...] = Field(description="The SPEC of each seat of the parent.")


class Header(_Strict):
    """First line of a replay: everything needed to play the game again."""

    type: Literal["header"] = "header"
    schema_version: int = SCHEMA_VERSION
    arena: str = __version__
    game: str
    options: dict[str, JsonValue]
    seed: int = Field(
        ge=-(2**63), lt=2**63, description="Seeds chance, the bots and the fallback moves."
    )
    players: tuple[Printable, ...] = Field(description="The SPEC of each seat.")
    text_level: TextLevel = Field(description="Level of help in the agents' texts.")
    models: dict[str, JsonValue] | None = Field(None, description="Chat options, if models played.")
    max_turns: int | None = Field(description="Turns after which the game is cut off.")
    agents_seed: int | None = Field(
        None, ge=-(2**63), lt=2**63, description="Seeds the agents instead, if it differs."
    )
    created: datetime = Field(description="Start; this and `seconds` are the only times.")
    branches: tuple[Branch, ...] = Field(
        (), description="Origins of a branch, oldest first; empty for most games."
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
        agents_seed: int | None = None,
    ) -> Header:
        """Return the header of a game with `seed`, from its first ply or from `start`."""
        return Header(
            game=game.name,
            options=game.options.model_dump(mode="json"),
            # The header keeps the parent's seed: it gives the deal. The seed of a branch is in
            # `branches`.
            seed=start.header.seed if start else seed,
            players=tuple(players),
            text_level=text_level,
            models=models.to_json() if models else None,
            max_turns=max_turns,
            agents_seed=agents_seed,
            created=datetime.now(UTC),
            branches=start.branches(seed) if start else (),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the line. Fields that few games have are omitted in the others."""
        rare = ("branches", "agents_seed")
        absent = {name for name in rare if getattr(self, name) in (None, ())}
        return self.model_dump(mode="json", exclude=absent)

    @property
    def first_own_ply(self) -> int:
        """First ply that is not a parent's; 0 for a game without a parent."""
        return self.branches[-1].ply if self.branches else 0

    def chance_seeds(self) -> dict[int, int]:
        """Return the seed of each stream of chance, by the ply at which the stream starts.

        A ply belongs to the youngest branch that starts at or before it. So an older branch that
        starts later than a younger one has no plies left.
        """
        seeds, earliest = dict[int, int](), math.inf
        # From the youngest on. `earliest` is the first ply that a younger branch has taken.
        for branch in reversed(self.branches):
            if branch.ply < earliest:
                seeds[branch.ply], earliest = branch.seed, branch.ply
        return {0: self.seed, **seeds}


class DecisionLine(_Strict):
    """Line of a player's move."""

    type: Literal["decision"] = "decision"
    ply: int
    player: int = Field(ge=0)
    action: str
    failure: str | None = Field(None, description="Why a fallback was played, if one was.")
    details: dict[str, JsonValue] = Field(default_factory=dict)
    seconds: float = Field(description="Time to decide; one of the two kinds of times.")


class ChanceLine(_Strict):
    """Line of a chance move: a deal, a throw of dice."""

    type: Literal["chance"] = "chance"
    ply: int
    action: str


class EventLine(_Strict):
    """Line of an event of this ply; the fields of the event are added to these."""

    model_config = ConfigDict(frozen=True, extra="allow")
    type: Literal["event"] = "event"
    ply: int
    event: str
    audience: tuple[int, ...] | None = Field(description="The seats that saw it; null for all.")


class OutcomeLine(_Strict):
    """Last line of a finished game."""

    type: Literal["outcome"] = "outcome"
    status: Literal["terminated", "truncated"]
    reason: Printable
    returns: tuple[float, ...]
    winner: int | None
    turns: int
    decisions: int
    roles: tuple[Printable, ...] = Field(
        default=(), description="Role of each seat, if the game has any."
    )
    teams: tuple[int, ...] = Field(
        default=(), description="Team of each seat, if the game has any."
    )

    @classmethod
    def of(cls, outcome: Outcome, turns: int, decisions: int) -> OutcomeLine:
        """Return the line of a game that has ended like this."""
        facts = asdict(outcome)
        return cls(**facts, winner=outcome.winner, turns=turns, decisions=decisions)

    @property
    def outcome(self) -> Outcome:
        """The outcome that the line records."""
        return Outcome(self.status, self.reason, self.returns, self.roles, self.teams)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields; roles and teams only if the game has them."""
        absent = {name for name in ("roles", "teams") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=absent)


ReplayLine = Annotated[
    Header | DecisionLine | ChanceLine | EventLine | OutcomeLine, Field(discriminator="type")
]
LINE: TypeAdapter[ReplayLine] = TypeAdapter(ReplayLine)


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a recorded game, as the start of another game."""

    parent: str
    """Name of the file of the game."""
    sha256: str
    """SHA-256 of the bytes of that file."""
    header: Header
    plies: tuple[Ply, ...]
    """All plies up to this position."""

    def branches(self, seed: int) -> tuple[Branch, ...]:
        """Return the `branches` of the header of a game that goes on from here with `seed`."""
        own = Branch(
            parent=self.parent,
            parent_sha256=self.sha256,
            ply=len(self.plies),
            seed=seed,
            players=self.header.players,
        )
        return (*self.header.branches, own)

    def played_since(self, seat: int, spec: str) -> int:
        """Return the ply since which `spec` has played the seat; len(plies) if another played."""
        first, players = len(self.plies), self.header.players
        for branch in reversed(self.header.branches):
            if branch.ply < first:  # Otherwise these players made no ply that is left.
                if players[seat] != spec:
                    return first
                first = branch.ply
            players = branch.players
        return 0 if players[seat] == spec else first


@dataclass(frozen=True, slots=True)
class Failure:
    """Decision for which an agent gave no legal action."""

    player: int
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """Record of one game."""

    header: Header
    plies: tuple[Ply, ...]
    outcome: Outcome
    turns: int

    @property
    def failures(self) -> list[Failure]:
        """Decisions with a fallback move; of a branch, only those after its start."""
        # Failures before the start of a branch belong to the parent's agents.
        own = self.plies[self.header.first_own_ply :]
        return [Failure(ply.player, ply.decision.failure) for ply in own if ply.decision.failure]

    @property
    def decisions(self) -> int:
        """Number of decisions of players."""
        return sum(ply.player != CHANCE for ply in self.plies)


def turns_played(state: State, max_turns: int | None) -> int:
    """Return the number of turns played; a turn that starts after the limit does not count."""
    # A truncated game has started one turn more than the limit.
    return state.turn if max_turns is None else min(state.turn, max_turns)


def dump(line: dict[str, JsonValue]) -> str:
    # NaN and Infinity are not JSON, and other readers would refuse the line.
    return json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"
