"""Bodies of requests. Unknown fields are ignored, as vLLM does; known ones are checked.

A field with the value null counts as absent. Fields that would change what is sampled, and that
this server cannot honour, are refused unless they ask for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from arena.core.json import Json
from arena.llm.backend import Message, Role
from backends.server.errors import ApiError, bad_field

MOST_CHOICES = 64
MOST_TOP_LOGPROBS = 20
MOST_STOPS = 16
_INT64 = 2**63

_NEUTRAL: Mapping[str, tuple[Json, ...]] = {
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
"""What may be said in fields that are not supported."""


def _text(content: Any) -> Any:
    """The text of a message's content: a string, a list of text parts, or null."""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise ValueError("only parts of type 'text' are supported")
    texts = [part.get("text") for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("each part needs a 'text'")
    return "".join(texts)


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _schema(value: Any) -> Any:
    """A JSON schema, which vLLM also accepts as a string."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"no JSON schema: {error}") from None


Strings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_several)]
Schema = Annotated[dict[str, Any], BeforeValidator(_schema)]


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class ChatMessage(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_text)] = ""

    @property
    def message(self) -> Message:
        role: Role = "system" if self.role == "developer" else self.role
        return Message(role, self.content)


class StreamOptions(Body):
    include_usage: bool = False


class StructuredOutputs(Body):
    """vLLM's newer spelling of the guided fields."""

    choice: Strings = ()
    regex: str = ""
    # Named apart from pydantic's own `json`.
    json_schema: Annotated[Schema | None, Field(validation_alias="json")] = None


class NamedSchema(Body):
    json_schema: Annotated[Schema | None, Field(validation_alias="schema")] = None


class ResponseFormat(Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema = NamedSchema()


class Guide(BaseModel):
    """What the answer must look like; at most one field is set."""

    model_config = ConfigDict(frozen=True)

    choice: tuple[str, ...] = ()
    regex: str = ""
    json_schema: dict[str, Any] | None = None

    @property
    def asked(self) -> int:
        return bool(self.choice) + bool(self.regex) + (self.json_schema is not None)


class SampledBody(Body):
    """What chat and text completions have in common."""

    model: str = ""
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1, le=MOST_CHOICES)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Annotated[Strings, Field(max_length=MOST_STOPS)] = ()
    max_tokens: int | None = Field(None, ge=1)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool | None = None
    guided_choice: Strings = ()
    guided_regex: str = ""
    guided_json: Schema | None = None
    structured_outputs: StructuredOutputs = StructuredOutputs()
    response_format: ResponseFormat = ResponseFormat(type="text")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, fields: Any) -> Any:
        for name, neutral in _NEUTRAL.items() if isinstance(fields, dict) else ():
            if fields.get(name) is not None and fields[name] not in neutral:
                raise ApiError(
                    400,
                    f"{name}: this server does not support it; leave it out",
                    param=name,
                    code="unsupported_parameter",
                )
        return fields

    @property
    def guide(self) -> Guide:
        """What was asked for, in whichever spelling. Raises ApiError if that is more than one."""
        spellings = [
            Guide(
                choice=self.guided_choice,
                regex=self.guided_regex,
                json_schema=self.guided_json,
            ),
            Guide(
                choice=self.structured_outputs.choice,
                regex=self.structured_outputs.regex,
                json_schema=self.structured_outputs.json_schema,
            ),
            self._response_guide,
        ]
        if sum(guide.asked for guide in spellings) > 1:
            raise ApiError(
                400,
                "guided_choice, guided_regex, guided_json, structured_outputs, response_format: "
                "ask for one of them",
                param="structured_outputs",
                code="invalid_value",
            )
        return next((guide for guide in spellings if guide.asked), Guide())

    @property
    def _response_guide(self) -> Guide:
        match self.response_format.type:
            case "text":
                return Guide()
            case "json_object":
                return Guide(json_schema={"type": "object"})
            case "json_schema":
                schema = self.response_format.json_schema.json_schema
                if schema is None:
                    param = "response_format.json_schema.schema"
                    raise ApiError(400, f"{param}: Field required", param=param)
                return Guide(json_schema=schema)


class ChatBody(SampledBody):
    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MOST_TOP_LOGPROBS)

    @property
    def most_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class TextBody(SampledBody):
    """`/v1/completions`: a text, token ids, or several of either."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: int | None = Field(None, ge=0, le=MOST_TOP_LOGPROBS)
    max_tokens: int | None = Field(16, ge=1)

    @property
    def prompts(self) -> list[str | list[int]]:
        prompt: Any = self.prompt
        single = isinstance(prompt, str) or (prompt and isinstance(prompt[0], int))
        return [prompt] if single else list(prompt)


class LoadAdapterBody(Body):
    lora_name: str = Field(min_length=1, max_length=200)
    lora_path: str = Field(min_length=1, max_length=4096)
    load_inplace: bool = False


class UnloadAdapterBody(Body):
    lora_name: str = Field(min_length=1)


AnyBody = TypeVar("AnyBody", bound=Body)


def parse_body(kind: type[AnyBody], body: bytes) -> AnyBody:
    """The body, checked. Raises ApiError with status 400 that names the field."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise bad_field(error) from None
