"""Answers in the formats of Anthropic, Gemini and OpenAI's responses; word counts of requests."""

from __future__ import annotations

import json
from typing import Any

THOUGHTS = "Who has the rope?"


def limit_of(body: Any) -> int:
    """The longest reply that a request allows, in tokens."""
    config = body.get("generationConfig", {})
    names = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    limit = next((body[name] for name in names if body.get(name)), None)
    return int(limit or config.get("max_output_tokens") or 0)


def words_in(value: Any) -> int:
    """Words of all texts of a request's messages."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, list):
        return sum(map(words_in, value))
    parts = ("messages", "contents", "content", "parts", "text", "system", "system_instruction",
             "input")  # fmt: skip
    return sum(words_in(value[part]) for part in parts if part in value)


def thinking_of(body: Any, behaviour: str) -> int:
    """Tokens that the model thinks."""
    if behaviour == "thought_out":
        return limit_of(body)
    return words_in(THOUGHTS) if behaviour == "reasoning" else 0


def anthropic_answer(body: Any, text: str, prompt: int, answered: int, behaviour: str) -> Any:
    """A message of Anthropic's API; what is marked counts as read from its cache."""
    thinking = {"type": "thinking", "thinking": THOUGHTS, "signature": "s"}
    content: list[Any] = [thinking] if thinking_of(body, behaviour) else []
    if behaviour == "tool_call":
        call = {"type": "tool_use", "id": "t", "name": "play", "input": {"action": text}}
        content.append(call)
    elif behaviour != "thought_out":
        content.append({"type": "text", "text": text})
    is_marked = "cache_control" in json.dumps(body)
    usage = {
        "input_tokens": prompt - prompt // 2 if is_marked else prompt,
        "cache_read_input_tokens": prompt // 2 if is_marked else 0,
        "output_tokens": answered,
    }
    reasons = {"tool_call": "tool_use", "thought_out": "max_tokens"}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reasons.get(behaviour, "end_turn"),
        "usage": usage,
    }


def gemini_answer(body: Any, text: str, prompt: int, answered: int, behaviour: str) -> Any:
    """A response of Gemini's generateContent."""
    thought = thinking_of(body, behaviour)
    parts: list[Any] = [{"text": THOUGHTS, "thought": True}] if thought else []
    if behaviour == "tool_call":
        parts.append({"functionCall": {"name": "play", "args": {"action": text}}})
    elif behaviour != "thought_out":
        parts.append({"text": text})
    cut = behaviour == "thought_out"
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {
        "candidates": [{**candidate, "finishReason": "MAX_TOKENS" if cut else "STOP"}],
        "usageMetadata": {
            "promptTokenCount": prompt,
            "candidatesTokenCount": answered - thought,
            "thoughtsTokenCount": thought,
            "totalTokenCount": prompt + answered,
        },
        "modelVersion": "gemini-2.5-flash",
    }


def responses_answer(body: Any, text: str, prompt: int, answered: int, behaviour: str) -> Any:
    """An answer of OpenAI's Responses API: a thought, a text, and perhaps a call after it."""
    thought = thinking_of(body, behaviour)
    summary = [{"type": "summary_text", "text": THOUGHTS}] if thought else []
    written = [{"type": "output_text", "text": text, "annotations": []}]
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    output: list[Any] = [{"type": "reasoning", "id": "rs_1", "summary": summary}]
    output.append({**said, "content": written})
    if behaviour == "tool_call":
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "play"}
        output.append({**call, "arguments": json.dumps({"action": text}), "status": "completed"})
    usage = {"input_tokens": prompt, "output_tokens": answered, "total_tokens": prompt + answered}
    details = {"reasoning_tokens": thought}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage
        | {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": details},
    }
