"""Record of each request to a model in a replay: prompt, reply, and the result of parsing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from arena.agents.reply.reading import Reading, ReplyFailure
from arena.core.errors import BackendError, FailureCause
from arena.llm.backend import Completion, FinishReason, Message, Request, Role, Sampling
from arena.llm.prompt_tokens import common_prefix_length

AttemptFailure = ReplyFailure | Literal["provider_error"]

DEFAULTS = Sampling().to_json()


class ChatLine(BaseModel):
    """Message of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    role: Role
    content: str


class Attempt(BaseModel):
    """One request and its answer. Times are seconds; costs are US dollars."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kept: int = Field(default=0, ge=0, description="Messages shared with the previous request.")
    messages: tuple[ChatLine, ...] = Field(description="The messages after those.")
    sampling: dict[str, JsonValue] = Field(default_factory=dict, description="If not default.")
    reply: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish_reason: FinishReason = "stop"
    failure: AttemptFailure | None = None
    excerpt: str = Field(default="", description="Text that shows the failure.")
    cause: FailureCause | None = Field(default=None, description="Of a provider_error.")
    model: str = ""
    policy_version: int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = Field(default=0, description="Of the prompt, not computed again.")
    reasoning_tokens: int = Field(default=0, description="Of the completion, for thinking.")
    cost: float | None = None
    cached: bool = Field(default=False, description="Answered from the response cache.")
    seconds: float = 0.0
    seconds_to_first_token: float | None = None
    prompt_token_ids: tuple[int, ...] = ()
    tokens: tuple[tuple[int | None, float, float | None], ...] = Field(
        default=(),
        description="Id, log-probability, the same as sampled (temperature, mask).",
    )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the record as JSON. Fields that have their default value are omitted."""
        return self.model_dump(mode="json", exclude_defaults=True)


def start_attempt(request: Request, before: Sequence[Message]) -> Attempt:
    """Return an attempt without an answer; `before` are the messages of the last request."""
    kept = common_prefix_length(before, request.messages)
    return Attempt(
        kept=kept,
        messages=tuple(ChatLine(role=m.role, content=m.content) for m in request.messages[kept:]),
        sampling=non_default_fields(request.sampling),
    )


def non_default_fields(sampling: Sampling) -> dict[str, JsonValue]:
    """Return the fields that differ from the default."""
    fields = sampling.to_json()
    return {name: value for name, value in fields.items() if value != DEFAULTS.get(name)}


def complete_attempt(attempt: Attempt, completion: Completion, reading: Reading) -> Attempt:
    """Return the attempt with its answer and the parsed action or failure."""
    choice = completion.choices[0]
    return attempt.model_copy(
        update={
            "reply": choice.text,
            "reasoning": choice.reasoning,
            "refusal": choice.refusal,
            "finish_reason": choice.finish_reason,
            "failure": reading.failure,
            "excerpt": reading.excerpt if reading.failure else "",
            "model": completion.model,
            "policy_version": completion.policy_version,
            "prompt_tokens": completion.usage.prompt_tokens,
            "completion_tokens": completion.usage.completion_tokens,
            "cached_tokens": completion.usage.cached_tokens,
            "reasoning_tokens": completion.usage.reasoning_tokens,
            # An answer from the cache is not paid for again.
            "cost": 0.0 if completion.cached else completion.cost,
            "cached": completion.cached,
            "seconds": round(completion.seconds, 6),
            "seconds_to_first_token": completion.seconds_to_first_token,
            # Prompt ids are only of use together with the tokens of the answer, e.g. for training.
            "prompt_token_ids": completion.prompt_token_ids if choice.tokens else (),
            "tokens": tuple((t.id, t.logprob, t.sampled_logprob) for t in choice.tokens),
        }
    )


def failed(attempt: Attempt, error: BackendError) -> Attempt:
    """Return the attempt with the error of the provider."""
    update = {"failure": "provider_error", "cause": error.cause, "excerpt": str(error)}
    return attempt.model_copy(update=update)


def requests_of(attempts: Iterable[Attempt]) -> list[tuple[Message, ...]]:
    """Return the complete messages of each request, from the attempts of one seat in order."""
    last: tuple[Message, ...] = ()
    requests = []
    for attempt in attempts:
        new = tuple(Message(line.role, line.content) for line in attempt.messages)
        # Inverse of `start_attempt`: the shared prefix, then the recorded rest.
        last = last[: attempt.kept] + new
        requests.append(last)
    return requests
