"""Messages of a chat and tools, rendered as plain messages for any chat template.

Tools have the text format of Qwen3's own template (Hermes): the functions in the system message,
each call between <tool_call> tags, each result between <tool_response> tags.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from arena.http.access import invalid_value
from arena.llm.backend import Message

if TYPE_CHECKING:
    from arena.llm.backend import Role

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
