"""Request bodies. Unknown fields are ignored, as in vLLM; known fields are checked.

A field with the value null counts as absent. Unsupported fields that would change the sampling are
refused unless they have a neutral value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from arena.llm.backend import Message, Role
from backends.server.access import ApiError, invalid_value, validation_error

MAX_CHOICES = 64
MAX_TOP_LOGPROBS = 20
MAX_STOP_STRINGS = 16
_INT64 = 2**63

_NEUTRAL_VALUES: Mapping[str, tuple[JsonValue, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "top_k": (0, -1),
    "min_p": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
    "allowed_token_ids": ([],),
    "bad_words": ([],),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "continue_final_message": (False,),
    "guided_grammar": ("",),
    "tools": ([],),
    "functions": ([],),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
}
"""The accepted values of fields that are not supported."""


def _join_text_parts(content: object) -> object:
    """Return the content of a message as one string; it may be a list of text parts."""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise ValueError("only parts of type 'text' are supported")
    texts = [part.get("text") for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("each part needs a 'text'")
    return "".join(texts)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _decode_schema(value: object) -> object:
    """Return a JSON schema; vLLM accepts it as a string too."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"not a JSON schema: {error}") from None


Strings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_list)]
JsonSchema = Annotated[dict[str, JsonValue], BeforeValidator(_decode_schema)]


class RequestBody(BaseModel):
    """Base of all bodies: unknown fields and nulls are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class ChatMessage(RequestBody):
    """A message of a chat; the role "developer" counts as "system"."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_join_text_parts)] = ""

    @property
    def message(self) -> Message:
        # The newer name of OpenAI for the role "system".
        role: Role = "system" if self.role == "developer" else self.role
        return Message(role, self.content)


class StreamOptions(RequestBody):
    """OpenAI's `stream_options`."""

    include_usage: bool = False


class StructuredOutputs(RequestBody):
    """vLLM's newer form of the `guided_…` fields."""

    choice: Strings = ()
    regex: str = ""
    # pydantic has a method `json`, so the attribute has another name.
    json_schema: Annotated[JsonSchema | None, Field(validation_alias="json")] = None


class NamedJsonSchema(RequestBody):
    """The `json_schema` of a response format."""

    json_schema: Annotated[JsonSchema | None, Field(validation_alias="schema")] = None


class ResponseFormat(RequestBody):
    """OpenAI's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedJsonSchema = NamedJsonSchema()

    @property
    def answer_schema(self) -> dict[str, JsonValue] | None:
        """Return the schema of the answer, if any. Raises ApiError if it is missing."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return {"type": "object"}
        if self.json_schema.json_schema is None:
            param = "response_format.json_schema.schema"
            raise ApiError(400, f"{param}: Field required", param=param)
        return self.json_schema.json_schema


@dataclass(frozen=True, slots=True)
class OutputConstraint:
    """Constraint on the form of the answer; at most one field is set."""

    choice: tuple[str, ...] = ()
    regex: str = ""
    json_schema: dict[str, JsonValue] | None = None


class SamplingBody(RequestBody):
    """The common fields of chat and text completions."""

    model: str = ""
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Annotated[Strings, Field(max_length=MAX_STOP_STRINGS)] = ()
    max_tokens: int | None = Field(None, ge=1)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool | None = None
    guided_choice: Strings = ()
    guided_regex: str = ""
    guided_json: JsonSchema | None = None
    structured_outputs: StructuredOutputs = StructuredOutputs()
    response_format: ResponseFormat = ResponseFormat(type="text")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        for name, neutral in _NEUTRAL_VALUES.items():
            # Ignoring such a field would answer with another distribution than the client asked
            # for.
            if fields.get(name) is not None and fields[name] not in neutral:
                message = f"{name}: this server does not support it; omit it"
                raise ApiError(400, message, param=name, code="unsupported_parameter")
        return fields

    @property
    def constraint(self) -> OutputConstraint:
        """Return the constraint, in whichever form it was sent.

        Raises ApiError if there is more than one.
        """
        outputs = self.structured_outputs
        choices = (self.guided_choice, outputs.choice)
        patterns = (self.guided_regex, outputs.regex)
        schemas = (self.guided_json, outputs.json_schema, self.response_format.answer_schema)
        given = [
            *(OutputConstraint(choice=choice) for choice in choices if choice),
            *(OutputConstraint(regex=regex) for regex in patterns if regex),
            *(OutputConstraint(json_schema=schema) for schema in schemas if schema is not None),
        ]
        if len(given) > 1:
            raise invalid_value(
                "structured_outputs",
                "guided_choice, guided_regex, guided_json, structured_outputs, response_format: "
                "only one of them can be used",
            )
        return given[0] if given else OutputConstraint()


class ChatBody(SamplingBody):
    """Body of `/v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)


class TextBody(SamplingBody):
    """Body of `/v1/completions`; the prompt is a text, a list of token ids, or a list of either."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    max_tokens: int | None = Field(16, ge=1)

    @property
    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        ids = [item for item in self.prompt if isinstance(item, int)]
        return [ids] if ids else [item for item in self.prompt if not isinstance(item, int)]


class LegacyBody(RequestBody):
    """Body of `/llm_request`, the interface of an earlier Cluedo arena to its model server.

    At least one of `prompt` and `messages` must be set. Clients also send `agent_name` and
    `task_type`, which are ignored.
    """

    model: str = ""
    system: str = Field("", validation_alias=AliasChoices("system_prompt", "system"))
    prompt: str = Field("", validation_alias=AliasChoices("prompt", "user_prompt", "user", "input"))
    messages: tuple[ChatMessage, ...] = ()
    temperature: float = Field(1.0, ge=0, le=2)
    max_tokens: int = Field(512, ge=1)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)

    @property
    def chat(self) -> list[Message]:
        """Return the chat. Raises ApiError if it has no question."""
        system = [Message("system", self.system)] if self.system else []
        user = [Message("user", self.prompt)] if self.prompt else []
        chat = [*system, *(message.message for message in self.messages), *user]
        # Neither a prompt nor messages were sent.
        if chat == system:
            raise invalid_value("prompt", "prompt: send 'prompt', 'user_prompt' or 'messages'")
        return chat


class LoadAdapterBody(RequestBody):
    """Body of `/v1/load_lora_adapter`."""

    lora_name: str = Field(min_length=1, max_length=200)
    lora_path: str = Field(min_length=1, max_length=4096)
    load_inplace: bool = False


class UnloadAdapterBody(RequestBody):
    """Body of `/v1/unload_lora_adapter`."""

    lora_name: str = Field(min_length=1)


AnyBody = TypeVar("AnyBody", bound=RequestBody)


def parse_body(kind: type[AnyBody], body: bytes) -> AnyBody:
    """Return the checked body. Raises ApiError with status 400 that names the field."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error) from None
