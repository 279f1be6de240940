"""From texts and chats to tokens and back: for prompts, and for clients in vLLM's format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from jinja2 import TemplateError
from pydantic import Field, model_validator
from starlette.responses import JSONResponse, Response

from arena.http.access import invalid_value
from backends.server.messages import (
    ChatMessage,
    EndpointBody,
    NeutralValues,
    ToolDefinition,
    render_chat,
)

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import Sampler
    from backends.server.generation import Generation

LONG_TEXT = 20_000
"""Characters; a text of this length is tokenized within a few milliseconds."""
TOKEN_CHARACTERS = 4
"""Typical characters of a token, for a guess at the length of a text."""
SPLIT_COST = 100
"""Characters that are tokenized in the time in which one token is decoded by itself."""

Result = TypeVar("Result")


class TokenizeBody(EndpointBody):
    """Body of `/tokenize`: a text or a chat."""

    neutral_values: ClassVar[NeutralValues] = {
        "continue_final_message": (False,),
        "chat_template_kwargs": ({},),
        "mm_processor_kwargs": ({},),
        "media_io_kwargs": ({},),
    }

    model: str = ""
    prompt: str | None = None
    messages: tuple[ChatMessage, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    add_generation_prompt: bool = True
    add_special_tokens: bool | None = None
    """By default added to a text, but not to a chat: its template adds them."""
    return_token_strs: bool = False

    @model_validator(mode="after")
    def _check_forms(self) -> TokenizeBody:
        if (self.prompt is None) == (not self.messages):
            raise invalid_value("prompt", "prompt: send either 'prompt' or 'messages'")
        if self.prompt is not None:
            for name in ("tools", "add_generation_prompt"):
                if name in self.model_fields_set:
                    raise invalid_value(name, f"{name}: belongs to 'messages', not to 'prompt'")
        return self


class DetokenizeBody(EndpointBody):
    """Body of `/detokenize`."""

    model: str = ""
    tokens: list[Annotated[int, Field(ge=0)]]


@dataclass(frozen=True, slots=True)
class Tokenizing:
    """The tokenizer of a sampler, kept off the event loop for long texts."""

    sampler: Sampler
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def encode_chat(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolDefinition] = (),
        **template: bool,
    ) -> list[int]:
        """Return the prompt tokens. Raises ApiError if the chat template refuses the chat."""
        tokenizer = self.sampler.chat_tokenizer

        def encode() -> list[int]:
            chat = render_chat(messages, tools, tokenizer.guard)
            return tokenizer.encode(chat, is_guarded=True, **template)

        try:
            return await self._run(sum(message.length for message in messages), encode)
        except TemplateError as error:
            message = f"messages: the model's chat template refuses them: {error}"
            raise invalid_value("messages", message) from error

    async def encode_text(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text."""
        encode = self.sampler.tokenizer.encode
        return await self._run(len(text), lambda: encode(text, add_special_tokens))

    async def encode_prompt(self, prompt: str | list[int]) -> list[int]:
        """Return the tokens of a prompt. Raises ApiError if it has none, or unknown ones."""
        ids = prompt if isinstance(prompt, list) else await self.encode_text(prompt)
        if not ids:
            raise invalid_value("prompt", "prompt: send at least one token")
        return self.check_ids(ids, "prompt")

    def check_ids(self, ids: list[int], param: str) -> list[int]:
        """Return the ids. Raises ApiError if one is outside the vocabulary."""
        size = len(self.sampler.tokenizer)
        if not all(0 <= token < size for token in ids):
            raise invalid_value(param, f"{param}: send only tokens of the vocabulary")
        return ids

    async def decode(self, ids: list[int]) -> str:
        """Return the text of the tokens, special ones included."""
        length = len(ids) * TOKEN_CHARACTERS
        return await self._run(length, lambda: self.sampler.tokenizer.decode(ids))

    async def split(self, ids: list[int]) -> list[str]:
        """Return the text that each token adds: none while a character is incomplete."""
        split = self.sampler.chat_tokenizer.split
        return await self._run(len(ids) * SPLIT_COST, lambda: split(ids))

    async def _run(self, length: int, work: Callable[[], Result]) -> Result:
        """Tokenize a long text in a thread, one at a time: 2 MB take seconds."""
        if length <= LONG_TEXT:
            return work()
        # The tokenizer releases the GIL, so other requests go on in the event loop.
        async with self.lock:
            return await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class TokenizerEndpoints:
    """The endpoints that tokenize, in vLLM's format."""

    generation: Generation
    tokenizing: Tokenizing

    async def tokenize(self, _request: Request, body: TokenizeBody) -> Response:
        """Return the tokens of a text or a chat."""
        self.generation.models.resolve(body.model)
        ids = await self._encode(body)
        answer: dict[str, JsonValue] = {
            "count": len(ids),
            "max_model_len": self.generation.sampler.context_length,
            "tokens": [*ids],
            "token_strs": None,
        }
        if body.return_token_strs:
            # The entries of the vocabulary, for example "Ġwho" for " who".
            answer["token_strs"] = [*self.generation.sampler.tokenizer.convert_ids_to_tokens(ids)]
        return JSONResponse(answer)

    async def detokenize(self, _request: Request, body: DetokenizeBody) -> Response:
        """Return the text of tokens."""
        self.generation.models.resolve(body.model)
        ids = self.tokenizing.check_ids(body.tokens, "tokens")
        return JSONResponse({"prompt": await self.tokenizing.decode(ids) if ids else ""})

    async def _encode(self, body: TokenizeBody) -> list[int]:
        if body.prompt is not None:
            special = body.add_special_tokens is not False
            return await self.tokenizing.encode_text(body.prompt, add_special_tokens=special)
        if body.add_special_tokens:
            raise invalid_value(
                "add_special_tokens",
                "add_special_tokens: a chat has those of its template; omit it",
            )
        return await self.tokenizing.encode_chat(
            body.messages, body.tools, add_generation_prompt=body.add_generation_prompt
        )
