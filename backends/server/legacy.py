"""`POST /llm_request`, as the Cluedo arena before this one asked its model server."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pydantic import AliasChoices, Field
from starlette.responses import JSONResponse, Response

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from backends.embedded.sampler import Draw
from backends.server.answers import text_of
from backends.server.errors import ApiError
from backends.server.generation import Ask, collected, pieces, refusal, unless_gone
from backends.server.schemas import Body, ChatMessage

if TYPE_CHECKING:
    from starlette.requests import Request

    from backends.server.completions import Completions


class LegacyBody(Body):
    """Whatever of these fields a client sends; at least one of them holds the question.

    `agent_name` and `task_type` come too; they change nothing here, so they may hold anything.
    """

    model: str = ""
    system: str = Field("", validation_alias=AliasChoices("system_prompt", "system"))
    prompt: str = Field("", validation_alias=AliasChoices("prompt", "user_prompt", "user", "input"))
    messages: tuple[ChatMessage, ...] = ()
    temperature: float = Field(1.0, ge=0, le=2)
    max_tokens: int = Field(512, ge=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)

    @property
    def chat(self) -> list[Message]:
        """The chat that was meant. Raises ApiError for one without a question."""
        system = [Message("system", self.system)] if self.system else []
        user = [Message("user", self.prompt)] if self.prompt else []
        chat = [*system, *(message.message for message in self.messages), *user]
        if chat == system:
            message = "prompt: send 'prompt', 'user_prompt' or 'messages'"
            raise ApiError(400, message, param="prompt", code="invalid_value")
        return chat


async def llm_request(completions: Completions, request: Request, body: LegacyBody) -> Response:
    """One answer."""
    prompt = await completions.encode_chat(body.chat)
    room = completions.room(prompt, body.max_tokens)
    draw = Draw(temperature=body.temperature, max_tokens=room, seed=body.seed)
    job = completions.job(body.model, [Ask(prompt, draw)], len(prompt))
    running = pieces(completions.sampler, job, completions.metrics)
    try:
        drawn = await unless_gone(request, collected(running, 1))
    except ArenaError as error:
        raise refusal(error) from error
    return JSONResponse({"request_id": str(uuid.uuid4()), "content": text_of(drawn[0])})
