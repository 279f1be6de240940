"""Request bodies. A parameter that this server does not support is refused, never ignored.

Exceptions are fields that cannot change an answer, and unsupported fields with a neutral value. A
field with the value null counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AliasChoices,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from arena.llm.backend import Message
from backends.server.access import ApiError, invalid_value, validation_error
from backends.server.constraints import (
    JsonSchema,
    OutputConstraint,
    ResponseFormat,
    Strings,
    StructuredOutputs,
)
from backends.server.messages import (
    ChatMessage,
    NamedToolChoice,
    RequestBody,
    ToolDefinition,
    call_schema,
)

MAX_CHOICES = 64
MAX_TOP_LOGPROBS = 20
MAX_STOP_STRINGS = 16
_INT64 = 2**63

_NEUTRAL_VALUES: Mapping[str, tuple[JsonValue, ...]] = {
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
}
"""The accepted values of fields that are not supported."""
_FIELDS_WITHOUT_EFFECT = frozenset({
    "user", "metadata", "store", "safety_identifier", "service_tier", "request_id", "priority",
    "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls",
})  # fmt: skip
"""Fields for accounting and caching elsewhere; they cannot change an answer."""


class StreamOptions(RequestBody):
    """OpenAI's `stream_options`."""

    include_usage: bool = False


class SamplingBody(RequestBody):
    """The common fields of chat and text completions."""

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
    guided_choice: Strings = ()
    guided_regex: str = ""
    guided_json: JsonSchema | None = None
    guided_grammar: str = ""
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
        known = {*cls.model_fields, *_NEUTRAL_VALUES, *_FIELDS_WITHOUT_EFFECT}
        for name in (name for name, value in fields.items() if value is not None):
            if name not in known:
                message = f"{str(name)[:100]}: this server does not know it; omit it"
                raise ApiError(400, message, param=str(name)[:100], code="unknown_parameter")
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
        grammars = (self.guided_grammar, outputs.grammar)
        given = [
            *(OutputConstraint(grammar=grammar) for grammar in grammars if grammar),
            *(OutputConstraint(choice=choice) for choice in choices if choice),
            *(OutputConstraint(regex=regex) for regex in patterns if regex),
            *(OutputConstraint(json_schema=schema) for schema in schemas if schema is not None),
        ]
        if len(given) > 1:
            raise invalid_value(
                "structured_outputs",
                "guided_choice, guided_regex, guided_json, guided_grammar, structured_outputs, "
                "response_format: only one of them can be used",
            )
        return given[0] if given else OutputConstraint()


class ChatBody(SamplingBody):
    """Body of `/v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)
    tools: tuple[ToolDefinition, ...] = ()
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

    @model_validator(mode="after")
    def _check_echo(self) -> TextBody:
        if self.echo and self.logprobs is not None:
            raise ValueError("echo: log-probabilities of prompts are not supported; omit logprobs")
        return self

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
