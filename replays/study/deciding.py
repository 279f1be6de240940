"""How a move came about: what a model was sent, what it answered, what was allowed.

The details of a decision are untrusted: whatever is not as `arena` writes it is handed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pydantic import ValidationError

from arena import CHANCE, Json, Message
from arena.attempt import Attempt
from replays.study.believing import compare_beliefs
from replays.study.documents import AttemptJson, DecisionJson, KnowledgeJson
from replays.study.numbers import finite, plain
from replays.study.played import Course
from replays.study.prompts import beside

MOST_LEGAL = 60


@dataclass(slots=True)
class Asked:
    """The attempts of one decision that could be read, and the others as they are."""

    attempts: list[Attempt] = field(default_factory=list)
    unread: list[Json] = field(default_factory=list)


def read_attempts(course: Course, seat: int) -> dict[int, Asked]:
    """All attempts of one seat, by the ply of their decision, in order."""
    return {
        each.ply.number: _read(each.ply.decision.details["attempts"])
        for each in course.plies
        if each.ply.player == seat and "attempts" in each.ply.decision.details
    }


def _read(noted: Json) -> Asked:
    asked = Asked()
    for raw in noted if isinstance(noted, list) else [noted]:
        try:
            asked.attempts.append(Attempt.model_validate(raw))
        except ValidationError:
            asked.unread.append(raw)
    return asked


def decision(
    course: Course, number: int, asked: Mapping[int, Asked], knowledge: KnowledgeJson | None
) -> DecisionJson | None:
    """The decision of this ply; `asked` are its player's, `knowledge` what that one could know."""
    played = course.plies[number]
    ply, made = played.ply, played.ply.decision
    if ply.player == CHANCE:
        return None
    other = {name: v for name, v in made.details.items() if name not in ("attempts", "beliefs")}
    if number in asked and asked[number].unread:
        other["attempts"] = asked[number].unread
    beliefs = compare_beliefs(made.details.get("beliefs"), knowledge, number)
    if beliefs.rest:
        other["beliefs"] = beliefs.rest
    return {
        "ply": number,
        "player": ply.player,
        "action": str(made.action),
        "failure": made.failure,
        "seconds": None if ply.seconds is None else finite(ply.seconds),
        "legal": [str(action) for action in islice(played.legal, MOST_LEGAL)],
        "more_legal": max(0, len(played.legal) - MOST_LEGAL),
        "attempts": list(_attempts(asked, number)),
        "beliefs": beliefs.rows,
        "other": plain(other),
    }


def _attempts(asked: Mapping[int, Asked], number: int) -> Iterator[AttemptJson]:
    """Each request of the decision in full, beside the seat's request before it."""
    sent = list[Message]()
    for ply, each in asked.items():
        for attempt in each.attempts if ply <= number else ():
            before = sent.copy() if ply == number else []
            # A request keeps the first messages of the one before it.
            sent[attempt.kept :] = [Message(m.role, m.content) for m in attempt.messages]
            if ply == number:
                yield _attempt(attempt, before, sent)


def _attempt(attempt: Attempt, before: list[Message], sent: list[Message]) -> AttemptJson:
    first = attempt.seconds_to_first_token
    return {
        "messages": beside(before, sent),
        "sampling": plain(attempt.sampling),
        "reply": attempt.reply,
        "reasoning": attempt.reasoning,
        "refusal": attempt.refusal,
        "finish_reason": attempt.finish_reason,
        "failure": attempt.failure,
        "excerpt": attempt.excerpt,
        "cause": attempt.cause,
        "model": attempt.model,
        "policy_version": attempt.policy_version,
        "prompt_tokens": attempt.prompt_tokens,
        "completion_tokens": attempt.completion_tokens,
        "cost": None if attempt.cost is None else finite(attempt.cost),
        "cached": attempt.cached,
        "seconds": finite(attempt.seconds),
        "seconds_to_first_token": None if first is None else finite(first),
        "tokens": [{"id": token[0], "logprob": finite(token[1])} for token in attempt.tokens],
    }
