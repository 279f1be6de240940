"""Request bodies in the formats of OpenAI and of vLLM, and chats with tools as plain messages.

A parameter that this server does not support is refused, never ignored. Exceptions are fields that
cannot change an answer, and a neutral value. A field with the value null counts as absent.

Tools have the text format of Qwen3's own template (Hermes): the functions in the system message,
each call between <tool_call> tags, each result between <tool_response> tags.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

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

from arena.core.text import first_fault
from arena.http.access import ApiError
from arena.llm.backend import Message

if TYPE_CHECKING:
    from arena.llm.backend import Role

MAX_CHOICES = 64
MAX_TOP_LOGPROBS = 20
MAX_STOP_STRINGS = 16
_INT64 = 2**63
_TOOL_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>\s*", re.DOTALL)
_TOOLS_PROMPT = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
Guard = Callable[[str, "Role"], str]
"""Marks the control tokens that a text of this role spells, so that they stay plain text."""


def invalid_value(param: str | None, message: str) -> ApiError:
    """Return the error for a field whose value cannot be used."""
    return ApiError(400, message, param=param, code="invalid_value")


def join_text_parts(content: object) -> object:
    """Return the content of a message as one string; it may be a list of text parts."""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise ValueError("only parts with text are supported")
    texts = [part.get("text") for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("each part needs a 'text'")
    return "".join(texts)


class RequestBody(BaseModel):
    """Base of all bodies: unknown fields and nulls are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class CalledFunction(RequestBody):
    """Name of a function and, for a call in a message, its arguments as a JSON text."""

    name: str
    arguments: str = "{}"


class ToolCall(RequestBody):
    """A call that an assistant made earlier in the chat."""

    function: CalledFunction

    @property
    def text(self) -> str:
        name = json.dumps(self.function.name, ensure_ascii=False)
        return f'{{"name": {name}, "arguments": {self.function.arguments}}}'


class ChatMessage(RequestBody):
    """A message of a chat; the role "developer" counts as "system"."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(join_text_parts)] = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def length(self) -> int:
        """Return the number of characters that the client sent."""
        return len(self.content) + sum(len(call.function.arguments) for call in self.tool_calls)

    def render(self, guard: Guard) -> Message:
        """Return the plain message. Only the tags may be control tokens."""
        if self.role == "tool":
            content = guard(self.content, "user")
            return Message("user", f"<tool_response>\n{content}\n</tool_response>")
        # The newer name of OpenAI for the role "system".
        role: Role = "system" if self.role == "developer" else self.role
        parts = [guard(self.content, role)] if self.content else []
        # Arguments of a call are data, in which no tag has a meaning.
        calls = (guard(call.text, "user") for call in self.tool_calls)
        parts += (f"<tool_call>\n{call}\n</tool_call>" for call in calls)
        return Message(role, "\n".join(parts))


class Function(RequestBody):
    """A function that the model may call; `parameters` is the JSON schema of its arguments."""

    name: str = Field(pattern=r"^[\w.-]{1,128}$")
    description: str = ""
    parameters: dict[str, JsonValue] = {"type": "object", "properties": {}}


class ToolDefinition(RequestBody):
    """OpenAI's form of a tool."""

    type: Literal["function"]
    function: Function

    @property
    def text(self) -> str:
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False)


class ParsedCall(BaseModel):
    """A call in the text of an answer."""

    name: str
    arguments: dict[str, JsonValue] = {}


def render_chat(
    messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition], guard: Guard
) -> list[Message]:
    """Return plain messages: tools in the system message, neighbouring results in one message."""
    chat: list[Message] = []
    for number, message in enumerate(messages):
        plain = message.render(guard)
        if message.role == "tool" and number and messages[number - 1].role == "tool":
            plain = Message("user", f"{chat.pop().content}\n{plain.content}")
        chat.append(plain)
    if tools:
        text = _TOOLS_PROMPT.format("\n".join(guard(tool.text, "system") for tool in tools))
        has_system = bool(chat) and chat[0].role == "system"
        system = f"{chat.pop(0).content}\n\n{text}" if has_system else text
        chat.insert(0, Message("system", system))
    return chat


def call_schema(tools: Sequence[ToolDefinition]) -> dict[str, JsonValue]:
    """Return the JSON schema of one call. Raises ApiError for definitions that contradict."""
    calls: list[JsonValue] = []
    definitions: dict[str, JsonValue] = {}
    for function in (tool.function for tool in tools):
        parameters = dict(function.parameters)
        # References such as "#/$defs/Card" start at the root of the whole schema.
        own = parameters.pop("$defs", {})
        for name, schema in own.items() if isinstance(own, dict) else ():
            if definitions.setdefault(name, schema) != schema:
                raise invalid_value("tools", f"tools: two functions define $defs/{name}")
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": function.name}, "arguments": parameters},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls, "$defs": definitions}


def parse_calls(
    text: str, tools: Sequence[ToolDefinition], *, required: bool, parallel: bool
) -> tuple[str, list[dict[str, JsonValue]]]:
    """Return the content of an answer and its calls, in OpenAI's form.

    A call of an unknown function, or one that is not complete, stays in the content. With
    `required` the whole answer is one call, without tags. Only the first call is returned unless
    `parallel`.
    """
    names = {tool.function.name for tool in tools}
    calls: list[dict[str, JsonValue]] = []

    def take(found: re.Match[str]) -> str:
        try:
            call = ParsedCall.model_validate_json(found[found.lastindex or 0])
        except ValidationError:
            return found[0]
        if call.name not in names:
            return found[0]
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        function: JsonValue = {"name": call.name, "arguments": arguments}
        calls.append({"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function})
        return ""

    pattern = re.compile(r".+", re.DOTALL) if required else _TOOL_CALL
    content = pattern.sub(take, text)
    return (content.strip() if calls else content), calls if parallel else calls[:1]


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
        **{"top_k": -1, "min_p": 0},
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
