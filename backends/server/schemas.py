"""Request bodies. A parameter that this server does not support is refused, never ignored.

Exceptions are fields that cannot change an answer, and unsupported fields with a neutral value. A
field with the value null counts as absent.

Formats are those of OpenAI, of vLLM, and of `vllm_api_server.py` in atroposlib 0.4.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
)

from arena.http.access import ApiError, invalid_value, validation_error
from backends.server.messages import (
    ChatMessage,
    EndpointBody,
    NamedToolChoice,
    NeutralValues,
    RequestBody,
    ToolDefinition,
    call_schema,
)

MAX_CHOICES = 64
MAX_TOP_LOGPROBS = 20
MAX_STOP_STRINGS = 16
_INT64 = 2**63


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


class StructuredOutputs(EndpointBody):
    """vLLM's newer form of the `guided_…` fields."""

    # JSON has no optional white space here, and there is one engine.
    fields_without_effect = frozenset({"disable_any_whitespace", "disable_fallback"})

    choice: Strings = ()
    regex: str = ""
    grammar: str = ""
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
    grammar: str = ""


class StreamOptions(EndpointBody):
    """OpenAI's `stream_options`."""

    neutral_values: ClassVar[NeutralValues] = {"continuous_usage_stats": (False,)}
    fields_without_effect = frozenset({"include_obfuscation"})  # Padding of the events.

    include_usage: bool = False


class SamplingBody(EndpointBody):
    """The common fields of chat and text completions."""

    neutral_values: ClassVar[NeutralValues] = {
        "length_penalty": (1,),
        "ignore_eos": (False,),
        "use_beam_search": (False,),
        "allowed_token_ids": ([],),
        "bad_words": ([],),
        "stop_token_ids": ([],),
        "include_stop_str_in_output": (False,),
        "add_generation_prompt": (True,),
        "continue_final_message": (False,),
        "chat_template_kwargs": ({},),
        "skip_special_tokens": (True,),
        "spaces_between_special_tokens": (True,),
        "functions": ([],),
        "function_call": ("none",),
        "modalities": (["text"],),
        "best_of": (1,),
        "suffix": ("",),
        "thinking_token_budget": (0,),
    }
    remedies: ClassVar[Mapping[str, str]] = {
        "thinking_token_budget": "omit it, and limit thinking and answer together with max_tokens "
        "(arena play: --max-tokens instead of thinking_tokens)",
    }
    fields_without_effect = frozenset({
        "user", "metadata", "store", "safety_identifier", "service_tier", "request_id", "priority",
        "prompt_cache_key", "prompt_cache_retention",
    })  # fmt: skip

    model: str = ""
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1)
    min_p: float = Field(0.0, ge=0, le=1)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    repetition_penalty: float = Field(1.0, gt=0, le=100)
    logit_bias: Mapping[int, Annotated[float, Field(ge=-100, le=100)]] = Field(default_factory=dict)
    min_tokens: int = Field(0, ge=0)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Annotated[Strings, Field(max_length=MAX_STOP_STRINGS)] = ()
    max_tokens: int | None = Field(None, ge=1)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool | None = None
    prompt_logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    guided_choice: Strings = ()
    guided_regex: str = ""
    guided_json: JsonSchema | None = None
    guided_grammar: str = ""
    structured_outputs: StructuredOutputs = StructuredOutputs()
    response_format: ResponseFormat = ResponseFormat(type="text")

    @property
    def constraint(self) -> OutputConstraint:
        """Return the constraint, in whichever form it was sent.

        Raises ApiError if there is more than one.
        """
        outputs = self.structured_outputs
        schemas = (self.guided_json, outputs.json_schema, self.response_format.answer_schema)
        forms = [
            *(OutputConstraint(choice=choice) for choice in (self.guided_choice, outputs.choice)),
            *(OutputConstraint(regex=regex) for regex in (self.guided_regex, outputs.regex)),
            *(OutputConstraint(grammar=each) for each in (self.guided_grammar, outputs.grammar)),
            *(OutputConstraint(json_schema=schema) for schema in schemas),
        ]
        given = [form for form in forms if form != OutputConstraint()]
        if len(given) > 1:
            raise invalid_value(
                "structured_outputs",
                "guided_choice, guided_regex, guided_json, guided_grammar, structured_outputs, "
                "response_format: only one of them can be used",
            )
        return given[0] if given else OutputConstraint()


class ChatBody(SamplingBody):
    """Body of `/v1/chat/completions`."""

    neutral_values: ClassVar[NeutralValues] = {
        **SamplingBody.neutral_values,
        "reasoning_effort": ("none",),
    }
    remedies: ClassVar[Mapping[str, str]] = {
        **SamplingBody.remedies,
        "reasoning_effort": "omit it, or send 'none' (arena play: leave out --reasoning-effort)",
    }

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)
    tools: tuple[ToolDefinition, ...] = ()
    parallel_tool_calls: bool = True
    reasoning_effort: Literal["none"] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedToolChoice = "auto"

    @property
    def usable_tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the model may call. Raises ApiError for a name without a tool."""
        if not isinstance(self.tool_choice, NamedToolChoice):
            return () if self.tool_choice == "none" else self.tools
        name = self.tool_choice.function.name
        named = tuple(tool for tool in self.tools if tool.function.name == name)
        if not named:
            raise invalid_value("tool_choice", f"tool_choice: no tool has the name '{name}'")
        return named

    @property
    def must_call(self) -> bool:
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedToolChoice)

    @property
    def constraint(self) -> OutputConstraint:
        """Return the constraint, which may be a required call. Raises ApiError for two."""
        constraint = super().constraint
        if not self.must_call:
            return constraint
        if constraint != OutputConstraint() or not self.tools:
            message = "tool_choice: a required call needs tools and excludes other constraints"
            raise invalid_value("tool_choice", message)
        return OutputConstraint(json_schema=call_schema(self.usable_tools))


class TextBody(SamplingBody):
    """Body of `/v1/completions`; the prompt is a text, a list of token ids, or a list of either."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    max_tokens: int | None = Field(16, ge=1)
    echo: bool = False

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
    def chat(self) -> list[ChatMessage]:
        """Return the chat. Raises ApiError if it has no question."""
        system = [ChatMessage(role="system", content=self.system)] if self.system else []
        user = [ChatMessage(role="user", content=self.prompt)] if self.prompt else []
        chat = [*system, *self.messages, *user]
        # Neither a prompt nor messages were sent.
        if chat == system:
            raise invalid_value("prompt", "prompt: send 'prompt', 'user_prompt' or 'messages'")
        return chat


class EnginePrompt(EndpointBody):
    """A prompt of vLLM's engine: token ids, or else a text."""

    prompt: str = ""
    prompt_token_ids: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)


class GenerateBody(SamplingBody):
    """Body of `/generate`: a prompt and vLLM's sampling parameters."""

    neutral_values: ClassVar[NeutralValues] = {
        **SamplingBody.neutral_values,
        "stream": (False,),
        "detokenize": (True,),
    }

    prompt: EnginePrompt
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    max_tokens: int | None = Field(16, ge=1)

    @field_validator("prompt", mode="before")
    @classmethod
    def _as_object(cls, prompt: object) -> object:
        """Return the longest of the three forms: an object, a text, or a list of token ids."""
        if isinstance(prompt, str):
            return {"prompt": prompt}
        return {"prompt_token_ids": prompt} if isinstance(prompt, list) else prompt


AnyBody = TypeVar("AnyBody", bound=RequestBody)


def parse_body(kind: type[AnyBody], body: bytes) -> AnyBody:
    """Return the checked body; an empty one has no fields.

    Raises ApiError with status 400 that names the field.
    """
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise validation_error(error) from None
