"""Agent at an address: `a2a:URL`, by the Agent2Agent protocol, versions 1.0 and 0.3.

Each decision is a message with a text part, which a language model reads, and data parts with the
same JSON that a program reads. The answer is a data part with an action, or a text. All messages of
a game have one context id, so that the agent can remember the game.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from pydantic import JsonValue

from arena.agents.agent import Seat
from arena.agents.chat import system_message
from arena.agents.messaging import Answer, MessagingAgent
from arena.agents.reply.reader import read_action
from arena.core.action import Action
from arena.core.errors import ArenaError, InvalidAction, UsageError
from arena.core.observation import Observation
from arena.core.text import shorten
from arena.plugins.catalog import require

require("a2a:URL", ("a2a", "httpx"), "a2a")

import httpx  # noqa: E402 - after the check that names the extra.
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory  # noqa: E402
from a2a.helpers import (  # noqa: E402
    get_data_parts,
    get_text_parts,
    new_data_part,
    new_message,
    new_text_part,
)
from a2a.types import (  # noqa: E402
    AgentCard,
    GetTaskRequest,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
)

BINDINGS = ["JSONRPC", "HTTP+JSON"]
MAX_BODY = 1 << 20
"""Bytes of a card or an answer."""
MAX_ERROR = 200
POLL_SECONDS = 0.2
"""Time between questions about a task that the agent works on in the background."""
LOCAL_NAMES = {"0.0.0.0", "::", "127.0.0.1", "::1", "localhost"}
"""Hosts in cards of agents that do not know by which name others reach them."""
WORKING = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


class A2AAgent(MessagingAgent):
    """Plays one seat with the agent at a URL."""

    subject = "the A2A agent"

    def __init__(self, rest: str, seat: Seat) -> None:
        """Check the URL; the agent is asked for its card at its first decision."""
        self._url = checked_url(rest, f"seat {seat.player}")
        super().__init__(seat)
        self._http: httpx.AsyncClient | None = None
        self._client: Client
        self._parts: list[Part] = []
        """What the next message begins with."""
        self._context_id = self._task_id = ""

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            with suppress(Exception):  # A broken connection.
                await self._http.aclose()

    async def _start(self) -> JsonValue:
        self._http = open_http()
        with agent_errors():
            card = await fetch_card(self._http, self._url)
            config = ClientConfig(
                streaming=False, httpx_client=self._http, supported_protocol_bindings=BINDINGS
            )
            self._client = ClientFactory(config).create(card)
        rules = system_message(self._seat.game, turn_limit=self._seat.turn_limit).content
        self._parts = [new_text_part(rules), new_data_part(self._start_message())]
        return str(card.name)

    async def _exchange(self, question: dict[str, JsonValue]) -> Answer:
        parts, self._parts = self._parts, []
        parts += [new_text_part(str(question["text"])), new_data_part(question)]
        with agent_errors():
            answer = await self._send(parts)
            for data in reversed(get_data_parts(answer)):
                if isinstance(data, dict) and "action" in data:
                    return data
            text = "\n".join(get_text_parts(answer)).strip()
        return {"text": text, "comment": text}

    def _choose(self, answer: Answer, observation: Observation) -> Action:
        if "action" in answer:
            return super()._choose(answer, observation)
        return read_action(str(answer["text"]), observation)

    async def _send(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Send a message and return the parts of the answer, when the agent has one.

        Raises InvalidAction if the agent has given up on this message.
        """
        message = new_message([*parts], self._context_id, self._task_id, Role.ROLE_USER)
        # Without streaming there is one response.
        [response] = [
            each async for each in self._client.send_message(SendMessageRequest(message=message))
        ]
        if response.HasField("message"):
            self._context_id, self._task_id = response.message.context_id, ""
            return list(response.message.parts)
        task = response.task
        while task.status.state in WORKING:
            await asyncio.sleep(POLL_SECONDS)
            task = await self._client.get_task(GetTaskRequest(id=task.id))
        is_open = task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        self._context_id, self._task_id = task.context_id, task.id if is_open else ""
        if not is_open and task.status.state != TaskState.TASK_STATE_COMPLETED:
            state = TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()
            text = shorten(" ".join(get_text_parts(task.status.message.parts)), MAX_ERROR)
            raise InvalidAction(
                f"the task of the A2A agent is {state}: {text or 'no reason given'}"
            )
        return _answer(task, is_open)


def _answer(task: Task, is_open: bool) -> list[Part]:
    """Return the parts of the last answer. An open task keeps the artifacts of earlier answers."""
    parts = list(task.status.message.parts)
    if is_open and parts:
        return parts
    return parts + [part for artifact in task.artifacts[-1:] for part in artifact.parts]


def checked_url(url: str, place: str) -> str:
    """Return the address of an agent. Raises UsageError, with the place, for any other text."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"{place}: 'a2a:{url}': {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{place}: 'a2a:{url}': give a URL, for example a2a:http://127.0.0.1:9009")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise UsageError(f"{place}: a user, '?' or '#' in the URL of an A2A agent is not supported")
    return url


_tls = cache(httpx.create_ssl_context)


def open_http() -> httpx.AsyncClient:
    """Return a client that reads bounded, uncompressed answers and follows no redirect."""
    return httpx.AsyncClient(
        timeout=None,  # Each decision has a limit of its own.
        verify=_tls(),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bound]},
    )


async def _bound(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ArenaError("the A2A agent has compressed its answer, which was not asked for")
    response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx.AsyncByteStream):
    """Body of a response that may have `MAX_BODY` bytes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_BODY:
                raise ArenaError(f"the A2A agent sent more than {MAX_BODY:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def fetch_card(http: httpx.AsyncClient, url: str) -> AgentCard:
    """Return the card of the agent at a URL, whose interfaces are at the host of the URL.

    A card may not send the messages of a game elsewhere. The path is the card's. Raises ArenaError
    and what the SDK raises: see `agent_errors`.
    """
    card, own = await A2ACardResolver(http, url).get_agent_card(), httpx.URL(url)
    for interface in card.supported_interfaces:
        if interface.protocol_binding not in BINDINGS:
            continue
        stated = httpx.URL(interface.url)
        if stated.host == own.host:
            continue
        if stated.host not in LOCAL_NAMES:
            raise ArenaError(
                f"the card at {url} names an agent at another host: a2a:{interface.url} if you mean"
                " that one"
            )
        interface.url = str(stated.copy_with(scheme=own.scheme, host=own.host, port=own.port))
    return card


@contextmanager
def agent_errors() -> Iterator[None]:
    """Turn everything that an agent at an address can cause into one line, as an ArenaError."""
    try:
        yield
    except ArenaError:
        raise
    except Exception as error:  # The answers of an agent can be anything.
        text = shorten(" ".join(str(error).split()) or type(error).__name__, MAX_ERROR)
        raise ArenaError(f"the A2A agent cannot be asked: {text}") from None
