"""A loopback server of providers that sign their thoughts and refuse a turn without the signature.

    with SignedThoughts() as server:
        ...  # play Goofspiel at server.url (Anthropic, Gemini) or server.openai_url (the others)
        assert not server.refused and server.checked

It speaks Anthropic's messages, Gemini's generateContent, OpenAI's responses, and chat completions
as DeepSeek (`reasoning_content`) and OpenRouter (`reasoning_details`) extend them. Each answer has
a thought with a signature. A later request that holds an answer of the server has to give back what
was signed, unchanged and at its place; if not, the answer is the provider's error 400.
"""

from __future__ import annotations

import json
import re
import threading
from itertools import pairwise
from typing import Any

from loopback_server import LoopbackServer, QuietHandler


class Refused(Exception):
    """The error of a provider for a turn that lacks what it has signed."""


class SignedThoughts(LoopbackServer):
    """The server, as a context manager. `says` is written before each call of a function."""

    def __init__(self, says: str = "") -> None:
        self.says = says
        self.fingerprint = "fp_1"
        self.asked: list[tuple[str, Any]] = []
        """Path and JSON of each request."""
        self.refused: list[str] = []
        self.checked = 0
        """Signed turns that came back as they were."""
        self._number = 0
        self._lock = threading.Lock()
        owner = self

        class Answer(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = owner.answer(self.path, body)
                self.answer(status, json.dumps(answer).encode())

        super().__init__(Answer)

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        with self._lock:
            self.asked.append((path, body))
            self._number += 1
            formats = {
                "/v1/messages": self._anthropic,
                ":generateContent": self._gemini,
                "/responses": self._responses,
                "/chat/completions": self._chat,
            }
            (speak,) = (speak for end, speak in formats.items() if path.endswith(end))
            try:
                return 200, speak(body)
            except Refused as error:
                self.refused.append(str(error))
                return 400, {"error": {"message": str(error), "type": "invalid_request_error"}}

    def _expect(self, condition: bool, error: str) -> None:
        if not condition:
            raise Refused(error)
        self.checked += 1

    def _action(self, last: Any) -> str:
        """The first legal bid."""
        bids: list[str] = re.findall(r"Your actions: bid (\w+)", json.dumps(last))
        return bids[-1] if bids else ""

    def _text(self, body: Any, bid: str) -> str:
        """What is written: all of the answer, or what precedes the call."""
        if not bid:
            return "ok"
        return self.says if body.get("tools") else f"Action: bid {bid}"

    def _anthropic(self, body: Any) -> Any:
        for turn, following in pairwise(body["messages"]):
            if turn["role"] != "assistant":
                continue
            first = turn["content"][0]
            uses = [b["id"] for b in turn["content"] if b["type"] == "tool_use"]
            results = [b["tool_use_id"] for b in following["content"] if "tool_use_id" in b]
            if uses:
                self._expect(first["type"] == "thinking", "Expected `thinking`, found `tool_use`")
                self._expect(uses == results, "`tool_use` ids without `tool_result` blocks")
            if first["type"] == "thinking":
                signed = first["signature"] == f"signed {first['thinking']}"
                self._expect(signed, "Invalid `signature` in `thinking` block")
        bid = self._action(body["messages"][-1])
        thought = f"secret thought {self._number}"
        content: list[Any] = []
        if "thinking" in body:
            signature = f"signed {thought}"
            content.append({"type": "thinking", "thinking": thought, "signature": signature})
        if text := self._text(body, bid):
            content.append({"type": "text", "text": text})
        if body.get("tools") and bid:
            arguments = {"thoughts": "", "card": bid}
            use = {"type": "tool_use", "id": f"toolu_{self._number}", "name": "Bid"}
            content.append({**use, "input": arguments})
        return {
            "id": f"msg_{self._number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if body.get("tools") and bid else "end_turn",
            "usage": {"input_tokens": 100, "output_tokens": 20},
        }

    def _gemini(self, body: Any) -> Any:
        for turn, following in pairwise(body["contents"]):
            calls = [part for part in turn["parts"] if part_named(part, "function_call")]
            for part in calls:
                name = part_named(part, "function_call")["args"]["card"]
                signature = part_named(part, "thought_signature") or ""
                signed = signature.startswith("signed ") and signature.endswith(f" bid {name}")
                self._expect(signed, "Function call is missing a thought_signature")
            answers = [p for p in following["parts"] if part_named(p, "function_response")]
            if calls:
                self._expect(len(answers) == len(calls), "Function calls without responses")
        bid = self._action(body["contents"][-1])
        signature = f"signed {self._number} bid {bid}"
        parts: list[Any] = [{"text": f"secret thought {self._number}", "thought": True}]
        if text := self._text(body, bid):
            signed = {} if body.get("tools") else {"thoughtSignature": signature}
            parts.append({"text": text, **signed})
        if body.get("tools") and bid:
            call = {"name": "Bid", "args": {"thoughts": "", "card": bid}}
            parts.append({"functionCall": call, "thoughtSignature": signature})
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 15}
        return {
            "candidates": [
                {"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}
            ],
            "usageMetadata": {**usage, "totalTokenCount": 120},
            "modelVersion": "gemini-test",
        }

    def _responses(self, body: Any) -> Any:
        if body.get("store") is not False:
            raise Refused("the organization enforces zero data retention: set `store` to false")
        signed = ""
        for item in body["input"]:
            if item.get("type") == "reasoning":
                signed = item.get("encrypted_content") or ""
            elif item.get("type") == "function_call":
                call = item["call_id"]
                has_reasoning = signed.rpartition("_")[2] == call.rpartition("_")[2]
                self._expect(has_reasoning, f"{call} without its required 'reasoning' item")
                signed = ""
        calls = [i["call_id"] for i in body["input"] if i.get("type") == "function_call"]
        outputs = [i["call_id"] for i in body["input"] if i.get("type") == "function_call_output"]
        self._expect(calls == outputs, "No tool output found for function call")
        bid = self._action(body["input"][-1])
        number, output = self._number, list[Any]()
        reasoning: dict[str, Any] = {"type": "reasoning", "id": f"rs_{number}"}
        reasoning["summary"] = [{"type": "summary_text", "text": f"secret thought {number}"}]
        if "reasoning.encrypted_content" in (body.get("include") or ()):
            reasoning["encrypted_content"] = f"encrypted for call_{number}"
        output.append(reasoning)
        if text := self._text(body, bid):
            written = {"type": "output_text", "text": text, "annotations": []}
            said = {"type": "message", "role": "assistant", "content": [written]}
            output.append({**said, "id": f"msg_{number}", "status": "completed"})
        if body.get("tools") and bid:
            call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
            arguments = json.dumps({"thoughts": "", "card": bid})
            output.append({**call, "name": "Bid", "arguments": arguments, "status": "completed"})
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": f"{body['model']}-2026-10-01",
            "output": output,
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 40},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 15},
                "total_tokens": 120,
            },
        }

    def _chat(self, body: Any) -> Any:
        for index, (turn, following) in enumerate(pairwise(body["messages"])):
            if turn["role"] == "assistant" and turn.get("tool_calls"):
                (call,) = turn["tool_calls"]
                thought = f"secret thought {call['id'].removeprefix('call_')}"
                details = [{"type": "reasoning.text", "text": thought, "signature": f"s {thought}"}]
                name = "reasoning_details" if "reasoning" in body else "reasoning_content"
                given = turn.get(name) == (details if "reasoning" in body else thought)
                self._expect(given, f"Missing `{name}` field at message index {index}")
                has_reply = following.get("tool_call_id") == call["id"]
                self._expect(has_reply, "a tool call has no reply")
        bid = self._action(body["messages"][-1])
        thought = f"secret thought {self._number}"
        message: dict[str, Any] = {"role": "assistant", "content": self._text(body, bid) or None}
        details = [{"type": "reasoning.text", "text": thought, "signature": f"s {thought}"}]
        if "reasoning" in body:  # OpenRouter
            message |= {"reasoning": thought, "reasoning_details": details}
        else:
            message["reasoning_content"] = thought
        if body.get("tools") and bid:
            function = {"name": "Bid", "arguments": json.dumps({"thoughts": "", "card": bid})}
            call = {"id": f"call_{self._number}", "type": "function", "function": function}
            message["tool_calls"] = [call]
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return {
            "id": f"gen-{self._number}",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "provider": "Maker",
            "system_fingerprint": self.fingerprint,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "cost": 0.001,
                "prompt_tokens_details": {"cached_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 15},
            },
        }


def part_named(part: Any, name: str) -> Any:
    """A field of one of Gemini's parts, whose names come in two spellings."""
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    return part.get(name) or part.get(camel)
