"""Request bodies in the formats of OpenAI and of vLLM.

A parameter that this server does not support is refused, never ignored. Exceptions are fields that
cannot change an answer, and a neutral value. A field with the value null counts as absent.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from arena.core.text import first_fault
from arena.http.access import ApiError, invalid_value
from backends.server.messages import (
    ChatMessage,
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


Strings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_list)]


class EndpointBody(RequestBody):
    """Base of the bodies of endpoints, which refuse fields that are not supported."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {}
    """The only accepted value of some fields."""
    fields_without_effect: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        own = (info.validation_alias or name for name, info in cls.model_fields.items())
        known = {*own, *cls.fields_without_effect}
        for name, value in fields.items():
            is_listed = name in cls.neutral_values
            is_accepted = cls.neutral_values[name] == value if is_listed else name in known
            if value is not None and not is_accepted:
                # Ignoring it would answer with another distribution than the client asked for.
                raise ApiError(
                    400,
                    f"{name[:100]}: this server does not support it; omit it (arena: the flag or "
                    "setting of this name)",
                    param=name[:100],
                    code="unsupported_parameter",
                )
        return fields


class StructuredOutputs(EndpointBody):
    """vLLM's limits of an answer: one of some texts, or JSON by a schema."""

    # JSON has no optional white space here, and there is one engine.
    fields_without_effect = frozenset({"disable_any_whitespace", "disable_fallback"})

    choice: Strings = ()
    # pydantic has a method `json`, so the attribute has another name.
    json_schema: Annotated[dict[str, JsonValue] | None, Field(validation_alias="json")] = None


class StreamOptions(EndpointBody):
    """OpenAI's `stream_options`."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {"continuous_usage_stats": False}
    fields_without_effect = frozenset({"include_obfuscation"})  # Padding of the events.

    include_usage: bool = False


class SamplingBody(EndpointBody):
    """The common fields of chat and text completions."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {
        **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), True),
        **dict.fromkeys(("ignore_eos", "use_beam_search", "echo"), False),
        **dict.fromkeys(("include_stop_str_in_output", "continue_final_message"), False),
        **{name: [] for name in ("allowed_token_ids", "bad_words", "stop_token_ids", "functions")},
        **dict.fromkeys(("presence_penalty", "frequency_penalty", "thinking_token_budget"), 0),
        **dict.fromkeys(("length_penalty", "repetition_penalty", "best_of"), 1),
        **{"logit_bias": {}, "chat_template_kwargs": {}, "modalities": ["text"], "suffix": ""},
        **{"add_generation_prompt": True, "function_call": "none"},
        "response_format": {"type": "text"},
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
    min_tokens: int = Field(0, ge=0)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Annotated[Strings, Field(max_length=MAX_STOP_STRINGS)] = ()
    max_tokens: int | None = Field(None, ge=1)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool | None = None
    structured_outputs: StructuredOutputs = StructuredOutputs()

    @property
    def guide(self) -> dict[str, Any]:
        """Return the sampler's parameter for the form of the answer. Raises ApiError for two."""
        choices, schema = self.structured_outputs.choice, self.structured_outputs.json_schema
        if choices and schema is not None:
            message = "structured_outputs: only one of choice and json can be used"
            raise invalid_value("structured_outputs", message)
        return {"guided_choice": choices, "guided_json": schema}


class ChatBody(SamplingBody):
    """Body of `/v1/chat/completions`."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {
        **SamplingBody.neutral_values,
        "reasoning_effort": "none",
    }

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)
    tools: tuple[ToolDefinition, ...] = ()
    parallel_tool_calls: bool = True
    reasoning_effort: str = ""
    tool_choice: Literal["auto", "none", "required"] = "auto"

    @property
    def usable_tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the model may call."""
        return () if self.tool_choice == "none" else self.tools

    @property
    def guide(self) -> dict[str, Any]:
        """Return the guide, which may be a required call. Raises ApiError for two."""
        guide = super().guide
        if self.tool_choice != "required":
            return guide
        if any(guide.values()) or not self.tools:
            message = "tool_choice: a required call needs tools and excludes other guides"
            raise invalid_value("tool_choice", message)
        return {"guided_json": call_schema(self.tools)}


class TextBody(SamplingBody):
    """Body of `/v1/completions`; the prompt is a text or a list of token ids."""

    prompt: str | list[int]
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    max_tokens: int | None = Field(16, ge=1)


class LegacyBody(RequestBody):
    """Body of `/llm_request`, the interface of an earlier Cluedo arena to its model server.

    At least one of `prompt` and `messages` must be set. Clients also send `agent_name` and
    `task_type`, which are ignored.
    """

    model: str = ""
    system_prompt: str = ""
    prompt: str = Field("", validation_alias=AliasChoices("prompt", "user_prompt"))
    messages: tuple[ChatMessage, ...] = ()
    temperature: float = Field(1.0, ge=0, le=2)
    max_tokens: int = Field(512, ge=1)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)

    @property
    def chat(self) -> list[ChatMessage]:
        """Return the chat. Raises ApiError if it has no question."""
        system = [ChatMessage(role="system", content=self.system_prompt)]
        user = [ChatMessage(role="user", content=self.prompt)] if self.prompt else []
        if not (user or self.messages):
            raise invalid_value("prompt", "prompt: send 'prompt', 'user_prompt' or 'messages'")
        return [*(system if self.system_prompt else ()), *self.messages, *user]


AnyBody = TypeVar("AnyBody", bound=RequestBody)


def parse_body(kind: type[AnyBody], body: bytes) -> AnyBody:
    """Return the checked body; an empty one has no fields.

    Raises ApiError with status 400 that names the field.
    """
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        fault, message = error.errors()[0], first_fault(error)
        if fault["type"] == "json_invalid":
            message = f"the body is not JSON: {message}"
            raise ApiError(400, message, code="invalid_json") from None
        raise invalid_value(".".join(map(str, fault["loc"])) or None, message) from None
