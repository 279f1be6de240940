"""One decision: prompts, answers and legal actions.

The details of a decision are untrusted: parts that do not have the form that `arena` writes are
passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from pydantic import JsonValue

from arena import CHANCE, Message
from arena.agents.chat import Attempt, parse_attempts
from arena.llm.backend import common_prefix_length
from replays.analysis.documents import AttemptJson, DecisionJson, MessageJson
from replays.analysis.sanitize import SizeBudget, finite_or_zero
from replays.analysis.timeline import Timeline

MAX_LEGAL_ACTIONS = 60
MAX_ATTEMPTS = 20
MAX_REPEATED_CHARACTERS = 50_000
"""Limit for repeating, once per decision, messages that were sent before. A single prompt is shown
in full; the prompt of a chat contains the whole conversation and would be repeated every time."""


RecordedAttempts = tuple[list[Attempt], list[JsonValue]]
"""All attempts of one decision, and the first records that are not valid ones, unchanged."""
AttemptsByPly = Mapping[int, RecordedAttempts]
"""Attempts of one seat by the ply of their decision, in order of play."""


def read_attempts(timeline: Timeline, seat: int) -> AttemptsByPly:
    """Return all attempts of one seat."""
    return {
        entry.ply.number: _recorded_attempts(entry.ply.decision.details)
        for entry in timeline.plies
        if entry.ply.player == seat and "attempts" in entry.ply.decision.details
    }


def _recorded_attempts(details: Mapping[str, JsonValue]) -> RecordedAttempts:
    attempts, invalid = parse_attempts(details)
    return attempts, [record for record, _ in invalid[:MAX_ATTEMPTS]]


def decision_json(timeline: Timeline, number: int, attempts: AttemptsByPly) -> DecisionJson | None:
    """Return the decision of a ply; None for chance. The attempts are those of its player."""
    entry = timeline.plies[number]
    ply, decision = entry.ply, entry.ply.decision
    if ply.player == CHANCE:
        return None
    # The records come from an untrusted file: one budget limits the size of the whole document.
    (recorded, invalid), budget = attempts.get(number, ([], [])), SizeBudget()
    other = {name: value for name, value in decision.details.items() if name != "attempts"}
    if invalid:
        other["attempts"] = invalid
    # The order of these fields determines which of them the size limit cuts.
    return {
        "ply": number,
        "player": ply.player,
        "action": str(decision.action),
        "failure": None if decision.failure is None else budget.text(decision.failure),
        "seconds": None if ply.seconds is None else finite_or_zero(ply.seconds),
        "legal": [str(action) for action in islice(entry.legal, MAX_LEGAL_ACTIONS)],
        "more_legal": max(0, len(entry.legal) - MAX_LEGAL_ACTIONS),
        "attempts": list(_attempts_json(attempts, number, budget)),
        "more_attempts": max(0, len(recorded) - MAX_ATTEMPTS),
        "other": budget.values(other),
    }


def _attempts_json(
    attempts: AttemptsByPly, number: int, budget: SizeBudget
) -> Iterator[AttemptJson]:
    """Yield the attempts of a decision, each compared with the seat's previous request."""
    previous = list[Message]()
    # Requests are stored as differences, so all earlier ones are needed to restore a prompt.
    for ply, (recorded, _) in attempts.items():
        if ply == number:
            yield from _compare_attempts(previous, recorded[:MAX_ATTEMPTS], budget)
            return
        for attempt in recorded:
            # A request keeps the first messages of the one before it and replaces the others.
            previous[attempt.kept :] = attempt.messages


def _compare_attempts(
    last: Sequence[Message], recorded: Sequence[Attempt], budget: SizeBudget
) -> Iterator[AttemptJson]:
    for number, attempt in enumerate(recorded):
        # As stored by `arena.agents.chat.Attempt.of_request`: shared beginning, then new messages.
        current = [*last[: attempt.kept], *attempt.messages]
        unchanged = common_prefix_length(last, current)
        characters = sum(len(message.content) for message in current[:unchanged])
        # The first prompt of a decision is shown in full unless it is too long.
        if number == 0 and characters <= MAX_REPEATED_CHARACTERS:
            unchanged, characters = 0, 0
        messages = compare_messages(last[unchanged:], current[unchanged:])
        yield _attempt_json(attempt, unchanged, characters, messages, budget)
        last = current


def _attempt_json(
    attempt: Attempt, unchanged: int, characters: int, sent: list[MessageJson], budget: SizeBudget
) -> AttemptJson:
    """Return an attempt; its first `unchanged` messages are left out, `sent` has the others."""
    # Answers come before prompts, so that the size limit cuts the prompts first.
    reply, excerpt = budget.text(attempt.reply), budget.text(attempt.excerpt)
    reasoning, refusal = budget.text(attempt.reasoning), budget.text(attempt.refusal)
    messages = [budget.message(message) for message in sent if budget.left > 0]
    return {
        "unchanged": unchanged,
        "unchanged_characters": characters,
        "messages": messages,
        "more_messages": len(sent) - len(messages),
        "sampling": budget.values(attempt.sampling),
        "reply": reply,
        "reasoning": reasoning,
        "refusal": refusal,
        "finish_reason": attempt.finish_reason,
        "failure": attempt.failure,
        "excerpt": excerpt,
        "cause": attempt.cause,
        "model": budget.text(attempt.engine or attempt.model),
        "policy_version": attempt.policy_version,
        "prompt_tokens": attempt.prompt_tokens,
        "completion_tokens": attempt.completion_tokens,
        "cost": None if attempt.cost is None else finite_or_zero(attempt.cost),
        "seconds": finite_or_zero(attempt.seconds),
    }


def compare_messages(previous: Sequence[Message], current: Sequence[Message]) -> list[MessageJson]:
    """Return the current messages; those in the same place of the previous request are marked."""
    return [
        {
            "role": message.role,
            "text": message.content,
            "sent_before": number < len(previous) and previous[number] == message,
        }
        for number, message in enumerate(current)
    ]
