"""Trajectories: what the learner did in its games, as turns with tokens, rewards and advantages.

A `Turn` is one answer of the learner. A `Trajectory` holds the turns of one seat in one game, a
`TrajectoryGroup` the games of one deal from one seat, whose mean reward is the baseline of GRPO.
All are immutable: `dataclasses.replace` makes changed copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pydantic import JsonValue

from arena.core.event import Decision
from arena.llm.backend import Message


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token as the sampler returned it; log-probabilities in nats."""

    id: int
    logprob: float
    """As it was drawn, with temperature and grammar."""
    policy_logprob: float
    """Under the model's own distribution."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Value of a decision by exact knowledge, see `DecisionKind`."""

    kind: str
    value: float


Judgements: TypeAlias = tuple[Judgement, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the learner whose tokens are known, and the chat before it.

    A decision has several turns if the first answers were not legal.
    """

    messages: tuple[Message, ...]
    """The messages since the answer before; the whole chat for a turn that starts one."""
    text: str
    """The answer as the chat repeats it."""
    tokens: tuple[SampledToken, ...]
    prompt_ids: tuple[int, ...] = ()
    """The whole prompt as the server read it; empty if it does not report it."""
    starts_chat: bool = False
    """The chat does not continue that of the turn before: it was restarted or shortened."""
    finish_reason: str = "stop"
    policy_version: int | None = None
    """Number of training steps of the weights that answered; None: not reported."""
    ply: int | None = None
    """The decision; None: unknown."""
    reward: float = 0.0
    """The part of the trajectory's reward that this turn earned."""
    advantage: float = 0.0
    """Of each of its tokens; 0 until credit is assigned."""
    is_legal: bool = True
    """It named a legal action, which was played."""
    judgements: Judgements = ()
    """Of its action, if the game values it."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The turns of one seat in one game."""

    turns: tuple[Turn, ...]
    """In the order of play. The first one starts a chat."""
    reward: float = 0.0
    """Of the whole game: the sum of the turns' rewards, if there are turns."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Reward terms by name, unweighted, and what a group scorer adds."""
    seed: int = 0
    """Of the deal."""
    seat: int = 0
    won: bool = False
    plies: int = 0
    """Length of the game."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further facts, for exports."""

    @property
    def versions(self) -> list[int]:
        """Return the known policy versions of its turns, ascending."""
        known = {turn.policy_version for turn in self.turns}
        return sorted(version for version in known if version is not None)

    def with_reward(self, reward: float) -> Trajectory:
        """Return a copy with another reward, which is known at the end: the last turn earns it."""
        turns = [replace(turn, reward=0.0) for turn in self.turns]
        if turns:
            turns[-1] = replace(turns[-1], reward=reward)
        return replace(self, turns=tuple(turns), reward=reward)

    def with_advantages(self, advantages: Iterable[float]) -> Trajectory:
        """Return a copy whose turns have these advantages, in their order."""
        pairs = zip(self.turns, advantages, strict=True)
        return replace(self, turns=tuple(replace(turn, advantage=a) for turn, a in pairs))

    def with_judgements(self, judgements: Mapping[int, Judgements]) -> Trajectory:
        """Return a copy whose legal turns have the judgements of their plies."""
        turns = (
            replace(turn, judgements=judgements.get(turn.ply, ()))
            if turn.ply is not None and turn.is_legal
            else turn
            for turn in self.turns
        )
        return replace(self, turns=tuple(turns))

    def chats(self) -> list[list[Turn]]:
        """Return the turns by chat: each list begins with a turn that starts one."""
        chats: list[list[Turn]] = []
        for turn in self.turns:
            if turn.starts_chat or not chats:
                chats.append([])
            chats[-1].append(turn)
        return chats


@dataclass(frozen=True, slots=True)
class TrajectoryGroup:
    """The trajectories of one seat in the games of one deal."""

    trajectories: tuple[Trajectory, ...]
    failures: tuple[str, ...] = ()
    """Reasons of the games that have no trajectory."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Facts about the deal, for exports."""

    @property
    def turns(self) -> list[Turn]:
        """Return the turns of all trajectories, in their order."""
        return [turn for trajectory in self.trajectories for turn in trajectory.turns]

    def with_trajectories(self, trajectories: Sequence[Trajectory]) -> TrajectoryGroup:
        """Return a copy with other trajectories."""
        return replace(self, trajectories=tuple(trajectories))


def recorded_attempts(decision: Decision) -> list[JsonValue]:
    """Return the requests to a model at a decision as JSON (`Attempt`); none of another agent."""
    # Details are JSON of any shape.
    attempts = decision.details.get("attempts")
    return attempts if isinstance(attempts, list) else []
