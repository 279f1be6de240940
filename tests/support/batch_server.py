"""A loopback server of providers with batches: OpenAI's files and batches, Anthropic's messages.

    with BatchServer(plays_kuhn) as server:
        ...  # OPENAI_BASE_URL = server.openai_url, ANTHROPIC_API_BASE = server.url
        assert not server.direct

A batch is over after `looks` looks at it. Each request takes the next fault of `faults`: "" for an
answer, a status for an error, "expired" for none. A submission takes the next of `submissions`: ""
for success, a status, "lost" for one that succeeds although its answer is lost, or the code of an
OpenAI batch that fails.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from loopback_server import LoopbackServer, QuietHandler
from misbehaving import openai_answer
from provider_formats import anthropic_answer, responses_answer, words_in


class BatchServer(LoopbackServer):
    """The server, as a context manager. `says` makes the text of an answer of a request's JSON."""

    def __init__(self, says: Callable[[Any], str]) -> None:
        self.says = says
        self.looks = 1
        self.faults: deque[str] = deque()
        self.submissions: deque[str] = deque()
        self.direct: list[str] = []
        """Paths of calls that came without a batch."""
        self.paid: list[str] = []
        """Keys of all requests that were answered, in order."""
        self.batches: dict[str, dict[str, Any]] = {}
        """The requests of each batch by key, under its identifier."""
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self._files: dict[str, bytes] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        owner = self

        class Answer(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._respond(b"")

            def do_POST(self) -> None:
                self._respond(self.rfile.read(int(self.headers["content-length"])))

            def _respond(self, content: bytes) -> None:
                owner.headers.append({k.lower(): v for k, v in self.headers.items()})
                with owner._lock:
                    status, body = owner.respond(self.path.partition("?")[0], content)
                if status == 0:
                    self.close_connection = True
                    return
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.answer(status, raw)

        super().__init__(Answer)

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def respond(self, path: str, content: bytes) -> tuple[int, Any]:
        if path == "/v1/files":
            name = f"file-{len(self._files)}"
            head, *rest = content.split(b"\r\n\r\n")
            self._files[name] = rest[0 if b'name="file"' in head else 1]
            return 200, {"id": name, "object": "file"}
        if path in ("/v1/batches", "/v1/messages/batches"):
            if content:
                return self._submit(path, json.loads(content))
            kind = "message_batch" if "messages" in path else "batch"
            return 200, {"data": [s for s in self.states.values() if s["type"] == kind]}
        if match := re.fullmatch(r"/v1/(?:messages/)?batches/(\w+)", path):
            return 200, self._look(match[1])
        if match := re.fullmatch(r"/v1/files/(\w+)-(out|err)/content", path):
            wanted = match[2] == "out"
            lines = [a for a in self._answers[match[1]] if is_answered(a) == wanted]
            return 200, "\n".join(map(json.dumps, lines)).encode()
        if match := re.fullmatch(r"/v1/messages/batches/(\w+)/results", path):
            return 200, "\n".join(map(json.dumps, self._answers[match[1]])).encode()
        self.direct.append(path)
        return 404, {"error": {"message": "no such path"}}

    def _submit(self, path: str, body: Any) -> tuple[int, Any]:
        how = self.submissions.popleft() if self.submissions else ""
        if how.isdigit():
            return int(how), {"error": {"message": f"told to answer {how}", "type": "error"}}
        number = len(self.batches)
        if "messages" in path:
            batch = f"msgbatch_{number}"
            requests = {r["custom_id"]: r["params"] for r in body["requests"]}
        else:
            batch = f"batch_{number}"
            lines = [
                json.loads(line)
                for line in self._files[body["input_file_id"]].splitlines()
                if line.startswith(b"{")
            ]
            assert {(line["url"], line["method"]) for line in lines} == {(body["endpoint"], "POST")}
            requests = {line["custom_id"]: line["body"] for line in lines}
        assert all(re.fullmatch(r"[\w-]{1,64}", key) for key in requests)
        self.batches[batch] = requests
        self.bodies.extend(requests.values())
        anthropic = "messages" in path
        state: dict[str, Any] = {"id": batch, "type": "message_batch" if anthropic else "batch"}
        if anthropic:
            state |= {
                "processing_status": "in_progress",
                "created_at": datetime.now(UTC).isoformat(),
            }
            state["request_counts"] = {"processing": len(requests)}
        else:
            state |= {"status": "validating", "metadata": body["metadata"], "object": "batch"}
        self.states[batch] = state | {"left": self.looks}
        if how and how != "lost":
            fault = {"code": how, "message": f"the batch has {how}", "line": 1}
            state = self.states[batch]
            state |= {"status": "failed", "errors": {"object": "list", "data": [fault]}}
        return (0 if how == "lost" else 200), self.states[batch]

    def _look(self, batch: str) -> Any:
        state = self.states[batch]
        state["left"] -= 1
        if state["left"] > 0 or state.get("status") == "failed":
            return state
        if batch not in self._answers:
            self._answers[batch] = [
                self._answer(batch, *item) for item in self.batches[batch].items()
            ]
        number = len(self.batches[batch])
        if batch.startswith("msg"):
            state["processing_status"] = "ended"
            state["request_counts"] = {"processing": 0, "succeeded": number}
        else:
            state |= {
                "status": "completed",
                "output_file_id": f"{batch}-out",
                "error_file_id": f"{batch}-err",
            }
            state["request_counts"] = {"total": number, "completed": number, "failed": 0}
        return state

    def _answer(self, batch: str, key: str, body: Any) -> Any:
        fault = self.faults.popleft() if self.faults else ""
        text = self.says(body)
        prompt, reply = words_in(body), len(text.split())
        if not fault:
            self.paid.append(key)
        if batch.startswith("msg"):
            if fault == "expired":
                return {"custom_id": key, "result": {"type": "expired"}}
            error = {"type": "error", "error": {"type": fault, "message": "told to fail"}}
            if fault:
                return {"custom_id": key, "result": {"type": "errored", "error": error}}
            message = anthropic_answer(body, text, prompt, reply, "")
            return {"custom_id": key, "result": {"type": "succeeded", "message": message}}
        line: dict[str, Any] = {"id": key, "custom_id": key, "error": None, "response": None}
        if fault == "expired":
            return line | {"error": {"code": "batch_expired", "message": "not in time"}}
        if "input" in body:
            thought = responses_answer(body, text, prompt, reply, "reasoning")
            return line | {"response": {"status_code": 200, "body": thought}}
        answer: Any = {"error": {"message": "told to fail", "type": "error"}}
        if not fault:
            answer = openai_answer(body, text, prompt, reply, "")
            del answer["usage"]["cost"], answer["usage"]["prompt_tokens_details"]
        return line | {"response": {"status_code": int(fault or 200), "body": answer}}


def is_answered(line: Any) -> bool:
    return bool(line["response"] and line["response"]["status_code"] == 200)
