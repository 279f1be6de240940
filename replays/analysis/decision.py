"""How a move came about: what a model was sent, what it answered, what was allowed.

The details of a decision are untrusted: whatever is not as `arena` writes it is handed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pydantic import ValidationError

from arena import CHANCE, Json, Message
from arena.agents.model_call import Attempt
from replays.analysis.beliefs import compare_beliefs
from replays.analysis.documents import AttemptJson, DecisionJson, KnowledgeJson, MessageJson
from replays.analysis.numbers import finite, plain
from replays.analysis.prompts import beside, same_beginning
from replays.analysis.size_limit import Room
from replays.analysis.timeline import Course

MOST_LEGAL = 60
MOST_ATTEMPTS = 20
LONGEST_AGAIN = 50_000
"""Characters that were sent before and are told again, once per decision: a prompt is read as a
whole, but a chat's is as long as all that was said in it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: what it keeps of the seat's last one, and what comes after that."""

    kept: int
    messages: tuple[Message, ...]


@dataclass(slots=True)
class Asked:
    """The attempts of one decision: the first in full, and of all what was sent."""

    attempts: list[Attempt] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    unread: list[Json] = field(default_factory=list)
    """The first of those that could not be read, as they are."""


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
            attempt = Attempt.model_validate(raw)
        except ValidationError:
            if len(asked.unread) < MOST_ATTEMPTS:
                asked.unread.append(raw)
            continue
        if len(asked.attempts) < MOST_ATTEMPTS:
            asked.attempts.append(attempt)
        messages = tuple(Message(line.role, line.content) for line in attempt.messages)
        asked.sent.append(Sent(attempt.kept, messages))
    return asked


def decision(
    course: Course,
    number: int,
    asked: Mapping[int, Asked],
    knowledge: KnowledgeJson | None,
) -> DecisionJson | None:
    """The decision of this ply; `asked` are its player's, `knowledge` what that one could know."""
    played = course.plies[number]
    ply, made = played.ply, played.ply.decision
    if ply.player == CHANCE:
        return None
    here, room = asked.get(number, Asked()), Room()
    other = {name: v for name, v in made.details.items() if name not in ("attempts", "beliefs")}
    if here.unread:
        other["attempts"] = here.unread
    beliefs = compare_beliefs(made.details.get("beliefs"), knowledge, number)
    if beliefs.rest:
        other["beliefs"] = beliefs.rest
    return {
        "ply": number,
        "player": ply.player,
        "action": str(made.action),
        "failure": None if made.failure is None else room.text(made.failure),
        "seconds": None if ply.seconds is None else finite(ply.seconds),
        "legal": [str(action) for action in islice(played.legal, MOST_LEGAL)],
        "more_legal": max(0, len(played.legal) - MOST_LEGAL),
        "attempts": list(_attempts(asked, number, room)),
        "more_attempts": len(here.sent) - len(here.attempts),
        "beliefs": beliefs.rows,
        "other": room.values(plain(other)),
    }


def _attempts(asked: Mapping[int, Asked], number: int, room: Room) -> Iterator[AttemptJson]:
    """The requests of the decision, each beside the seat's request before it."""
    sent = list[Message]()
    for ply, each in asked.items():
        if ply > number:
            return
        if ply == number:
            yield from _beside(sent, each, room)
        for request in each.sent:
            # A request keeps the first messages of the one before it.
            sent[request.kept :] = request.messages


def _beside(before: Sequence[Message], asked: Asked, room: Room) -> Iterator[AttemptJson]:
    last = list(before)
    for at, attempt in enumerate(asked.attempts):
        request = asked.sent[at]
        now = [*last[: request.kept], *request.messages]
        unchanged = same_beginning(last, now)
        again = sum(len(message.content) for message in now[:unchanged])
        if at == 0 and again <= LONGEST_AGAIN:
            unchanged, again = 0, 0
        messages = beside(last[unchanged:], now[unchanged:])
        yield _attempt(attempt, _Told(unchanged, again, messages), room)
        last = now


@dataclass(frozen=True, slots=True)
class _Told:
    """What is told of a request's messages."""

    unchanged: int
    characters: int
    messages: list[MessageJson]


def _attempt(attempt: Attempt, told: _Told, room: Room) -> AttemptJson:
    first = attempt.seconds_to_first_token
    reply, excerpt = room.text(attempt.reply), room.text(attempt.excerpt)
    reasoning, refusal = room.text(attempt.reasoning), room.text(attempt.refusal)
    messages = [room.message(each) for each in told.messages if room.left > 0]
    tokens = attempt.tokens[: room.count(attempt.tokens)]
    return {
        "unchanged": told.unchanged,
        "unchanged_characters": told.characters,
        "messages": messages,
        "more_messages": len(told.messages) - len(messages),
        "sampling": room.values(plain(attempt.sampling)),
        "reply": reply,
        "reasoning": reasoning,
        "refusal": refusal,
        "finish_reason": attempt.finish_reason,
        "failure": attempt.failure,
        "excerpt": excerpt,
        "cause": attempt.cause,
        "model": room.text(attempt.model),
        "policy_version": attempt.policy_version,
        "prompt_tokens": attempt.prompt_tokens,
        "completion_tokens": attempt.completion_tokens,
        "cost": None if attempt.cost is None else finite(attempt.cost),
        "cached": attempt.cached,
        "seconds": finite(attempt.seconds),
        "seconds_to_first_token": None if first is None else finite(first),
        "tokens": [{"id": token[0], "logprob": finite(token[1])} for token in tokens],
        "more_tokens": len(attempt.tokens) - len(tokens),
    }
