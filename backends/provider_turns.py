"""Assistant turns in the form that their provider wants back: calls, thoughts, signatures.

Some models continue their thinking over turns, and their providers refuse a call of a function
without the thought before it. litellm has a field for each form: `thinking_blocks` (Anthropic),
signatures in `provider_specific_fields` (Gemini), `reasoning_items` (OpenAI's responses),
`reasoning_details` (OpenRouter), `reasoning_content` (DeepSeek, Moonshot and others).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from arena.llm.backend import Request

FIELDS = (
    *("content", "tool_calls", "thinking_blocks", "provider_specific_fields"),
    *("reasoning_items", "reasoning_details", "reasoning_content"),
)
"""Fields of a message that a turn may have; a turn may come from the replay of a stranger."""
IGNORED = "Only one call is read."
"""Result of all calls of a turn but the first one."""


def provider_turn(model: str, message: Any) -> dict[str, JsonValue] | None:
    """Return what litellm's message of an answer has to give back; None without a thought.

    `model` is litellm's name: another model gets the text of the turn only.
    """
    given = message.model_dump(mode="json", exclude_none=True)
    extra = given.get("provider_specific_fields") or {}
    calls = given.get("tool_calls")
    thoughts: dict[str, JsonValue] = {}
    # A block without a signature is for people; redacted blocks have `data` instead.
    blocks = given.get("thinking_blocks") or ()
    if signed := [block for block in blocks if block.get("signature") or block.get("data")]:
        thoughts["thinking_blocks"] = signed
    if items := given.get("reasoning_items"):
        thoughts["reasoning_items"] = items
    if details := extra.get("reasoning_details"):
        thoughts["reasoning_details"] = details
    if signatures := extra.get("thought_signatures"):
        thoughts["provider_specific_fields"] = {"thought_signatures": signatures}
    # Unsigned thoughts are wanted with calls only; some providers refuse them elsewhere.
    if not thoughts and calls and (thought := given.get("reasoning_content")):
        thoughts["reasoning_content"] = thought
    if not thoughts:
        return None
    turn: dict[str, JsonValue] = {"model": model, "content": given.get("content"), **thoughts}
    return turn | ({"tool_calls": calls} if calls else {})


def wire_messages(model: str, request: Request) -> Iterator[dict[str, JsonValue]]:
    """Yield litellm's messages of a request. The user's message after calls is their result."""
    calls: Sequence[Any] = ()
    for message in request.messages:
        turn = dict(message.provider_turn or {})
        # Calls in a request without functions are refused by some providers.
        if turn.pop("model", None) == model and (request.tools or "tool_calls" not in turn):
            calls = turn.get("tool_calls") or ()  # type: ignore[assignment]
            fields: dict[str, JsonValue] = {n: turn[n] for n in FIELDS if n in turn}
            yield {"role": "assistant", **fields}
        elif calls and message.role == "user":
            for call in calls[1:]:
                yield {"role": "tool", "tool_call_id": call["id"], "content": IGNORED}
            yield {"role": "tool", "tool_call_id": calls[0]["id"], "content": message.content}
            calls = ()
        else:
            yield {"role": message.role, "content": message.content}


def merge_choices(choices: Sequence[Any]) -> Sequence[Any]:
    """Return the single choice of an answer that litellm has split into its text and its calls."""
    first, *others = choices
    for choice in others:
        for name in ("content", "tool_calls", "reasoning_items", "reasoning_content"):
            value = getattr(choice.message, name, None)
            if value and not getattr(first.message, name, None):
                setattr(first.message, name, value)
        first.finish_reason = choice.finish_reason
    return [first]
