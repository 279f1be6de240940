"""OpenAI's chat format: a Request as JSON, and a response body as a Completion.

Any body that is not a chat completion is a BackendError with the cause "bad_response". Deviations
that leave no doubt about the answer are accepted, such as null for a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictStr,
    ValidationError,
)
from pydantic_core import from_json

from arena.core.errors import BackendError
from arena.core.text import encodable, first_fault
from arena.llm.backend import (
    Choice,
    Completion,
    FinishReason,
    Request,
    Sampling,
    Token,
    Tool,
    Usage,
)
from backends.provider_errors import error_within_success, redact_key, to_one_line

FINISH_REASONS: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}

_VERSION = re.compile(r"(?:.+@|step_)(\d{1,9})", re.ASCII | re.DOTALL)
"""Ours, after ART; Atropos' trainer names its adapters `step_k`."""
_CACHED = AliasPath("prompt_tokens_details", "cached_tokens")
_UPSTREAM = AliasPath("cost_details", "upstream_inference_cost")
_REASONED = AliasPath("completion_tokens_details", "reasoning_tokens")
_TOKEN_ID = re.compile(r"token_id:(\d{1,9})", re.ASCII)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def chat_request(request: Request, model: str) -> dict[str, JsonValue]:
    """Return the body of POST /chat/completions; fields that were not requested are omitted.

    `return_token_ids` and `structured_outputs` (since 0.11) are vLLM's names.
    """
    sampling = request.sampling
    body: dict[str, JsonValue] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        **sampling_fields(sampling),
        **tool_fields(request.tools),
    }
    if sampling.reasoning_effort:
        body["reasoning_effort"] = sampling.reasoning_effort
    if request.logprobs:
        body |= {"logprobs": True, "return_token_ids": True}
    if request.guided_choice:
        body["structured_outputs"] = {"choice": [*request.guided_choice]}
    elif request.guided_json is not None:
        body["structured_outputs"] = {"json": request.guided_json}
    return body


def longest_body(request: Request) -> int:
    """Return the bytes of the longest response that may be an answer to this request."""
    tokens = request.sampling.max_tokens
    prompt = sum(len(message.content) for message in request.messages)
    # Text of the longest tokens as escapes; with log-probabilities an object for each token and
    # the ids of the prompt. A megabyte for what servers add.
    return (1 << 20) + (512 * tokens + 8 * prompt if request.logprobs else 128 * tokens)


def sampling_fields(sampling: Sampling) -> dict[str, JsonValue]:
    """Return the sampling parameters, without those of thinking, which no two providers share.

    Those without effect are omitted instead of null: some servers refuse fields that they do not
    know.
    """
    fields: dict[str, JsonValue] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if sampling.stop:
        fields["stop"] = [*sampling.stop]
    if sampling.seed is not None:
        fields["seed"] = sampling.seed
    return fields


def tool_fields(tools: Sequence[Tool]) -> dict[str, JsonValue]:
    """Return the fields that make a model call one of the functions; none without functions."""
    if not tools:
        return {}
    functions: list[JsonValue] = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in tools
    ]
    return {"tools": functions, "tool_choice": "required", "parallel_tool_calls": False}


def parse_policy_version(name: str) -> int | None:
    """Return the step k of a name `NAME@k` or `step_k`, or None."""
    match = _VERSION.fullmatch(name)
    return int(match[1]) if match else None


class _Wire(BaseModel):
    """Base of the response models: unknown fields are ignored, known ones are checked."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


def _text_of(content: object) -> object:
    """Return the text of content that comes in parts; parts with thoughts are left out."""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return content
    return "".join(str(part.get("text") or "") for part in content if part.get("type") == "text")


def _arguments_of(arguments: object) -> object:
    """Return the arguments of a call as JSON, also if a server sends them as an object or null."""
    if isinstance(arguments, dict):
        return json.dumps(arguments)
    return "" if arguments is None else arguments


_Count = Annotated[int, Field(ge=0), BeforeValidator(lambda number: number or 0)]
_Thought = Annotated[str | None, BeforeValidator(lambda v: v if isinstance(v, str) else None)]
_Cost = Annotated[float | None, AfterValidator(lambda v: None if v is None or v < 0 else v)]
"""A negative cost is unknown: it would add to the budget."""


class _Function(_Wire):
    name: StrictStr | None = None
    arguments: Annotated[StrictStr, BeforeValidator(_arguments_of)] = ""


class _ToolCall(_Wire):
    function: _Function = _Function()


class _Message(_Wire):
    content: Annotated[StrictStr | None, BeforeValidator(_text_of)] = None
    refusal: StrictStr | None = None
    reasoning: _Thought = None
    reasoning_content: _Thought = None
    tool_calls: list[_ToolCall] | None = None


class _Logprob(_Wire):
    token: str
    logprob: float
    sampled_logprob: float | None = None
    raw: list[int] | None = Field(None, alias="bytes")


class _Logprobs(_Wire):
    content: list[_Logprob] | None = None


class _Choice(_Wire):
    message: _Message
    finish_reason: str | None = None
    logprobs: Annotated[
        _Logprobs | None, BeforeValidator(lambda v: None if isinstance(v, list) else v)
    ] = None
    token_ids: list[int] | None = None


class _Usage(_Wire):
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    # Not all servers report the details.
    cached_tokens: int | None = Field(default=None, validation_alias=_CACHED)
    reasoning_tokens: int | None = Field(default=None, validation_alias=_REASONED)
    cost: _Cost = None
    is_byok: bool | None = None
    upstream: _Cost = Field(default=None, validation_alias=_UPSTREAM)

    @property
    def total_cost(self) -> float | None:
        """The cost in US dollars; None if it is not stated.

        With a key of one's own at the provider (BYOK), OpenRouter bills its fee only, and states
        what the provider bills beside it.
        """
        upstream = self.upstream or 0.0
        if upstream and (self.is_byok or upstream > (self.cost or 0.0)):
            return (self.cost or 0.0) + upstream
        return self.cost


LONGEST_ENGINE = 200
"""Characters. A longer name of an engine is cut."""


class _Engine(_Wire):
    # The second name is Gemini's.
    model: str | None = Field(None, validation_alias=AliasChoices("model", "modelVersion"))
    # A server may use these names for something else, which is no reason to refuse its answers.
    provider: JsonValue = None
    system_fingerprint: JsonValue = None


def read_engine(body: bytes, requested_model: str) -> str:
    """Return what a response says of the engine that gave it, see `Completion`."""
    try:
        engine = _Engine.model_validate_json(body)
    except ValidationError:
        return ""
    return _engine_text(engine, requested_model)


def _engine_text(engine: _Engine, requested_model: str) -> str:
    parts = (engine.provider, engine.system_fingerprint)
    details = ", ".join(part for part in parts if part and isinstance(part, str))
    name = engine.model or requested_model
    return to_one_line(f"{name} [{details}]" if details else name)[:LONGEST_ENGINE]


class _ChatCompletion(_Engine):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None


def read_completion(
    body: bytes,
    source: str,
    requested_model: str,
    seconds: float,
    key: str = "",
) -> Completion:
    """Return the completion in the body of a response with status 200.

    The source, a URL, is for error messages, from which the key is removed. `requested_model` is
    used if the response names none.

    Raises BackendError if the body is not a chat completion.
    """
    body = _whole_characters(body)
    fault = error_within_success(body, source, key)
    try:
        response = _ChatCompletion.model_validate_json(body)
    except ValidationError as error:
        fault = fault or _unreadable(body, source, error, key)
    if fault is None:
        return _completion(response, requested_model, seconds)
    raise with_bill(fault, body)  # Outside the `except`: the ValidationError quotes the body.


def _whole_characters(body: bytes) -> bytes:
    """Return JSON without escapes of half a character, which pydantic refuses.

    A reply that was cut within an emoji ends with one.
    """
    if _SURROGATE.search(body):
        with suppress(ValueError):
            # The parser joins the halves of whole characters; the others become question marks.
            return encodable(json.dumps(json.loads(body), ensure_ascii=False)).encode()
    return body


def read_usage(wire_usage: object) -> Usage:
    """Return the tokens from any object with OpenAI's fields; zeros for None."""
    if wire_usage is None:
        return Usage()
    usage = _Usage.model_validate(wire_usage, from_attributes=True)
    cached, reasoned = usage.cached_tokens or 0, usage.reasoning_tokens or 0
    return Usage(usage.prompt_tokens, usage.completion_tokens, cached, reasoned)


class _Billed(_Wire):
    usage: _Usage


def _stated_usage(body: bytes) -> _Usage:
    """Return the tokens and the cost that the body of a response states; zeros if it does not."""
    try:
        return _Billed.model_validate_json(body).usage
    except ValidationError:
        return _Usage()


def with_bill(error: BackendError, body: bytes) -> BackendError:
    """Return the error with the tokens and the cost that the body of its response states."""
    usage = _stated_usage(body)
    error.prompt_tokens, error.completion_tokens = usage.prompt_tokens, usage.completion_tokens
    error.cost = usage.total_cost
    return error


def stated_cost(body: bytes) -> float | None:
    """Return the cost that the body of a response states, in US dollars; None if it does not."""
    return _stated_usage(body).total_cost


def _completion(response: _ChatCompletion, requested_model: str, seconds: float) -> Completion:
    wire_usage = response.usage or _Usage()
    model = response.model or requested_model
    version = parse_policy_version(model)
    return Completion(
        choice=read_choice(response.choices[0]),
        model=model,
        usage=read_usage(wire_usage),
        cost=wire_usage.total_cost,
        # Some servers answer with the plain name of the model.
        policy_version=parse_policy_version(requested_model) if version is None else version,
        prompt_token_ids=tuple(response.prompt_token_ids or ()),
        seconds=seconds,
        engine=_engine_text(response, requested_model),
    )


def read_choice(wire_choice: object) -> Choice:
    """Return a choice from any object with OpenAI's fields. Raises ValidationError."""
    choice = _Choice.model_validate(wire_choice, from_attributes=True)
    message = choice.message
    finish_reason = FINISH_REASONS.get(choice.finish_reason, "unknown")
    functions = [call.function for call in message.tool_calls or ()]
    # A call without whole arguments was cut off: it is no answer, whatever it names so far.
    calls = [_call_text(f) for f in functions if finish_reason != "length" or _is_whole(f)]
    # Calls are read like text, and JSON outweighs the prose before it.
    text = encodable("\n".join(part for part in (message.content, *calls) if part))
    # Some providers end a call with "stop"; a call that was cut off stays "length".
    if calls and finish_reason in {"stop", "unknown"}:
        finish_reason = "tool_calls"
    return Choice(
        text=text,
        finish_reason=finish_reason,
        reasoning=message.reasoning_content or message.reasoning or "",  # vLLM, OpenRouter
        refusal=message.refusal or "",
        tokens=_tokens(choice),
    )


def _is_whole(function: _Function) -> bool:
    try:
        return isinstance(from_json(function.arguments), dict)
    except ValueError:
        return False


def _call_text(function: _Function) -> str:
    """Return a call as JSON; arguments that are no JSON stay a string."""
    try:
        arguments: JsonValue = from_json(function.arguments or "{}")
    except ValueError:
        arguments = function.arguments
    return json.dumps({"name": function.name, "arguments": arguments}, ensure_ascii=False)


def _tokens(choice: _Choice) -> tuple[Token, ...]:
    logprobs = (choice.logprobs.content if choice.logprobs else None) or []
    ids = choice.token_ids or []
    if len(ids) != len(logprobs):
        ids = []  # It is unknown which id belongs to which token.
    return tuple(_token(entry, ids[n] if ids else None) for n, entry in enumerate(logprobs))


def _token(entry: _Logprob, token_id: int | None) -> Token:
    text = entry.token
    if match := _TOKEN_ID.fullmatch(text):
        # With vLLM's `return_tokens_as_token_ids` only the bytes hold the text.
        token_id = int(match[1])
        text = bytes(byte & 0xFF for byte in entry.raw or ()).decode(errors="replace")
    return Token(token_id, text, entry.logprob, entry.sampled_logprob)


def _unreadable(body: bytes, source: str, error: ValidationError, key: str) -> BackendError:
    """Return the reason why a body with status 200 is not a completion."""
    try:
        from_json(body)
    except ValueError:
        return BackendError(f"{source} answered with invalid JSON", "bad_response", retryable=True)
    fault = first_fault(error, "the body")
    reason = f"{source} did not answer with a chat completion: {fault}"
    return BackendError(redact_key(to_one_line(reason), key), "bad_response", retryable=True)
