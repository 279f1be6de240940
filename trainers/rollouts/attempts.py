"""Attempts of models in finished games: their requests, answers and failures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from arena.agents.chat import Attempt
from arena.core.action import CHANCE
from arena.core.errors import UsageError
from arena.episodes.record import Episode


def decided_attempts(episode: Episode, seat: int) -> Iterator[tuple[int, Attempt]]:
    """Yield each request for a move of the seat's model, in order, with the number of the ply."""
    for ply in episode.plies:
        if ply.player == seat and ply.player != CHANCE:
            # Details are JSON of any shape: an agent that is no model has no list of attempts.
            attempts = ply.decision.details.get("attempts")
            for raw in attempts if isinstance(attempts, list) else ():
                yield ply.number, Attempt.model_validate(raw)


def attempts_of(episode: Episode, seat: int) -> Iterator[Attempt]:
    """Yield each request for a move of the seat's model, with its answer, in order."""
    return (attempt for _, attempt in decided_attempts(episode, seat))


def belief_failures(episode: Episode, seat: int) -> Iterator[str]:
    """Yield the causes for which the seat's provider gave no answer to a belief question."""
    for ply in episode.plies:
        stated = ply.decision.details.get("beliefs") if ply.player == seat else None
        if isinstance(stated, dict) and stated.get("failure") == "provider_error":
            yield str(stated.get("cause"))


@dataclass(frozen=True, slots=True)
class DecisionStatus:
    """Result of asking a model for one decision."""

    unanswered: bool
    """The provider did not answer, so the move is not the model's."""
    context_overflow: bool
    """The chat was too long even after shortening. This is the model's own fault."""


def decision_statuses(episode: Episode, seat: int) -> Iterator[DecisionStatus]:
    """Yield the status of each decision for which the seat's model was asked."""
    for ply in episode.plies:
        attempts = ply.decision.details.get("attempts") if ply.player == seat else None
        if ply.player != CHANCE and isinstance(attempts, list) and attempts:
            last = Attempt.model_validate(attempts[-1])
            # Only the last attempt counts: after earlier failures the chat was shortened or
            # repeated.
            failed, too_long = last.failure == "provider_error", last.cause == "context_length"
            yield DecisionStatus(failed and not too_long, failed and too_long)


def check_context(decisions: int, overflows: int) -> None:
    """Raise UsageError if the chat of every decision exceeded the model's context."""
    if decisions and overflows == decisions:
        raise UsageError(
            "not even the first prompt of a game fits into the model's context: allow more with "
            "max_context_tokens, or make it shorter with another --text-level or --prompt brief"
        )


def sampling_logprob(logprob: float, sampled: float | None) -> float:
    """Return the log-probability of sampling; the model's own one if they differ by rounding."""
    # Equal numbers keep the two distributions the same for plain sampling at temperature 1.
    if sampled is None or math.isclose(logprob, sampled, rel_tol=0, abs_tol=1e-9):
        return logprob
    return sampled
