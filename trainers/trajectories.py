"""From a finished game to ART's trajectory of one seat: what it read, and what it sampled.

Trained are the tokens of `Choice`s with log-probabilities; everything else, the other players'
words included, is context. A chat that was told anew begins another history of the trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from arena.agents.model_call import Attempt, ChatLine
from arena.core.action import CHANCE
from arena.core.errors import UsageError
from arena.episodes.record import Episode
from trainers.hosts.art import Choice, History, Trajectory


@dataclass(slots=True)
class Told:
    """One history in the making."""

    items: list[Any] = field(default_factory=list)
    lines: list[ChatLine] = field(default_factory=list)
    """The messages of the last request."""
    pending: Attempt | None = None
    """Its answer, whose words in the chat the next request shows."""

    def settle(self, said: str | None = None) -> None:
        """Take the answer down, in the words that stand in the chat."""
        if self.pending is not None:
            self.items.append(choice_of(self.pending, self.pending.reply if said is None else said))
            self.pending = None


def attempts_of(episode: Episode, seat: int) -> Iterator[Attempt]:
    """Every time the seat's model was asked for a move, in order."""
    for ply in episode.plies:
        if ply.player == seat and ply.player != CHANCE:
            attempts = ply.decision.details.get("attempts")
            for raw in attempts if isinstance(attempts, list) else ():
                yield Attempt.model_validate(raw)


def belief_failures(episode: Episode, seat: int) -> Iterator[str]:
    """Why the seat's provider gave no answer when it was asked what it believes."""
    for ply in episode.plies:
        stated = ply.decision.details.get("beliefs") if ply.player == seat else None
        if isinstance(stated, dict) and stated.get("failure") == "provider_error":
            yield str(stated.get("cause"))


@dataclass(frozen=True, slots=True)
class Ending:
    """How asking a model for one decision ended."""

    unanswered: bool
    """Its provider did not answer: what was played then is nobody's move."""
    overflowed: bool
    """The chat was too long, however much of it was left out: that is the model's own fault."""


def endings_of(episode: Episode, seat: int) -> Iterator[Ending]:
    """Of each decision for which the seat's model was asked."""
    for ply in episode.plies:
        attempts = ply.decision.details.get("attempts") if ply.player == seat else None
        if ply.player != CHANCE and isinstance(attempts, list) and attempts:
            last = Attempt.model_validate(attempts[-1])
            failed, too_long = last.failure == "provider_error", last.cause == "context_length"
            yield Ending(failed and not too_long, failed and too_long)


def demand_room(asked: int, overflowed: int) -> None:
    """Raises UsageError if not one of the decisions that were asked for fits into the model."""
    if asked and overflowed == asked:
        raise UsageError(
            "not even the first prompt of a game fits into the model's context: allow more with "
            "--max-context-tokens, or make it shorter with another --text-level or --prompt brief"
        )


def trajectory_of(episode: Episode, seat: int) -> Trajectory:
    """The seat's share of a game that was played with `logprobs`; reward 0, to be set."""
    told = [
        history.items for history in _histories(attempts_of(episode, seat)) if len(history.items)
    ]
    first, *others = told or [[]]
    return Trajectory(
        messages_and_choices=first,
        additional_histories=[History(messages_and_choices=items) for items in others],
    )


def _histories(attempts: Iterator[Attempt]) -> Iterator[Told]:
    lines: list[ChatLine] = []
    current = Told()
    for attempt in attempts:
        lines = [*lines[: attempt.kept], *attempt.messages]
        if not attempt.tokens:
            continue  # Nobody answered, or nobody knows with which tokens.
        before = current.lines
        goes_on = len(lines) > len(before) and lines[: len(before)] == before
        if goes_on and current.pending and lines[len(before)].role == "assistant":
            current.settle(lines[len(before)].content)
            new = lines[len(before) + 1 :]
        else:
            current.settle()
            yield current
            current, new = Told(), lines
        current.items += [{"role": line.role, "content": line.content} for line in new]
        current.lines, current.pending = lines, attempt
    current.settle()
    yield current


def choice_of(attempt: Attempt, said: str) -> Choice:
    """The answer as OpenAI's class, with what was served and what was sampled as ids.

    A token's log-probability is the one it was drawn with, temperature and guide included, which
    importance ratios need; `policy_logprob`, of the model's own distribution, stands beside it.
    """
    tokens: Sequence[dict[str, Any]] = [
        {
            "token": f"token_id:{number}",
            "logprob": _as_drawn(logprob, sampled),
            "bytes": None,
            "top_logprobs": [],
            "policy_logprob": logprob,
        }
        for number, logprob, sampled in attempt.tokens
    ]
    finish = attempt.finish_reason if attempt.finish_reason in _KNOWN else "stop"
    return Choice.model_validate(
        {
            "index": 0,
            "finish_reason": finish,
            "message": {"role": "assistant", "content": said},
            "logprobs": {"content": tokens},
            "prompt_token_ids": list(attempt.prompt_token_ids),
        }
    )


def _as_drawn(logprob: float, sampled: float | None) -> float:
    """Where both are the same but for rounding, the model's own."""
    same = sampled is None or math.isclose(logprob, sampled, rel_tol=0, abs_tol=1e-9)
    return logprob if same or sampled is None else sampled


_KNOWN = frozenset({"stop", "length", "content_filter", "tool_calls"})
"""Finish reasons of OpenAI's API."""
