"""A judge as an A2A server: it takes a request that names the players, and answers with a report.

The request has the form of AgentBeats: `{"participants": {ROLE: URL}, "config": {…}}`, as a data
part or as the JSON of a text part. Progress comes as the status of the task, the result as an
artifact: a sentence, and a data part. Assessments are made one after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from a2a.helpers import (
    get_data_parts,
    get_text_parts,
    new_data_part,
    new_task_from_user_message,
    new_text_part,
)
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from arena.core.text import first_fault, shorten
from arena.core.version import __version__
from arena.http.access import handle_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MAX_PARTICIPANTS = 64
MAX_ERROR = 500
EXAMPLE = json.dumps(
    {
        "participants": {"one": "http://127.0.0.1:9001", "two": "http://127.0.0.1:9002"},
        "config": {"game": "kuhn_poker", "games": 20},
    }
)


class AssessmentConfig(BaseModel):
    """What is played."""

    model_config = ConfigDict(extra="forbid")

    game: str = Field(max_length=200)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    games: int = Field(20, ge=1, le=10_000)
    """Of each participant, at least."""
    seed: int | None = Field(None, ge=0, lt=2**53)
    text_level: TextLevel = "notes"
    max_turns: int | None = Field(None, ge=1)
    bots: list[str] = Field(default_factory=list, max_length=MAX_PARTICIPANTS)
    """SPECs `bot:NAME`: the opponents of one participant, further players beside several."""


class AssessmentRequest(BaseModel):
    """A request, whose further fields are ignored."""

    participants: dict[str, str] = Field(min_length=1, max_length=MAX_PARTICIPANTS)
    """Addresses of agents, by role."""
    config: AssessmentConfig


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The result: a sentence for people, and JSON for programs."""

    text: str
    data: Mapping[str, JsonValue]


Progress = Callable[[str], Awaitable[None]]
Assess = Callable[[AssessmentRequest, Progress], Awaitable[MatchResult]]
"""Makes an assessment. Raises UsageError for a wrong request, ArenaError if it fails."""


class Judge(AgentExecutor):
    """Answers messages with assessments."""

    def __init__(self, assess: Assess) -> None:
        self._assess = assess
        self._turn = asyncio.Lock()

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Make the assessment of a message, and end its task with the result or a reason."""
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)

        def status_text(text: str) -> Any:
            return task.new_agent_message([new_text_part(shorten(text, MAX_ERROR))])

        try:
            request = read_request(context.message)
            await task.start_work(
                status_text("waiting for its turn" if self._turn.locked() else "begins")
            )
            async with self._turn:
                made = await self._assess(request, lambda text: task.start_work(status_text(text)))
        except UsageError as error:
            await task.reject(status_text(str(error)))
        except ArenaError as error:
            await task.failed(status_text(str(error)))
        else:
            parts = [new_text_part(made.text), new_data_part(made.data)]
            await task.add_artifact(parts, name="assessment")
            await task.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """End a task; the SDK has cancelled its `execute`. Finished games are kept."""
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def read_request(message: Any) -> AssessmentRequest:
    """Return the request in a message. Raises UsageError."""
    found = [data for data in get_data_parts(message.parts) if isinstance(data, dict)]
    for text in get_text_parts(message.parts):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            continue
        found += [data] if isinstance(data, dict) else []
    if not found:
        raise UsageError(f"the message has no JSON object with an assessment request, as {EXAMPLE}")
    try:
        return AssessmentRequest.model_validate(found[0])
    except ValidationError as error:
        raise UsageError(f"the assessment request: {first_fault(error)}") from None


def make_app(assess: Assess, url: str) -> ASGIApp:
    """Return the server of a judge, whose card names this URL."""
    versions = ("1.0", "0.3")
    card = AgentCard(
        name="arena",
        description="Judge of games with hidden information: plays a match among A2A agents.",
        version=__version__,
        default_input_modes=["application/json", "text/plain"],
        default_output_modes=["application/json", "text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version)
            for version in versions
        ],
        skills=[
            AgentSkill(
                id="assess",
                name="Assessment",
                description="Plays games among the participants and reports their results.",
                tags=["games", "evaluation"],
                examples=[EXAMPLE],
            )
        ],
    )
    handler = DefaultRequestHandler(Judge(assess), InMemoryTaskStore(), card)
    routes = create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)
    return Starlette(
        routes=[*create_agent_card_routes(card), *routes],
        exception_handlers={HTTPException: handle_error},
    )
