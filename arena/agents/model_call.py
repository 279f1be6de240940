"""What a replay keeps of each time a model was asked: prompt, reply, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from arena.agents.reply.reader import Reading, ReplyFailure
from arena.core.errors import BackendError, FailureCause
from arena.core.json import Json
from arena.llm.backend import Completion, FinishReason, Message, Request, Role, Sampling

AttemptFailure = ReplyFailure | Literal["provider_error"]

DEFAULTS = Sampling().to_json()


class ChatLine(BaseModel):
    """A message, as it was sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    role: Role
    content: str


class Attempt(BaseModel):
    """One request and its answer. Times are seconds; costs are US dollars."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kept: int = Field(default=0, ge=0, description="Messages of the request before that stand.")
    messages: tuple[ChatLine, ...] = Field(description="The messages after those.")
    sampling: dict[str, Json] = Field(default_factory=dict, description="If not default.")
    reply: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish_reason: FinishReason = "stop"
    failure: AttemptFailure | None = None
    excerpt: str = Field(default="", description="Where the failure is seen.")
    cause: FailureCause | None = Field(default=None, description="Of a provider_error.")
    model: str = ""
    policy_version: int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    cached: bool = Field(default=False, description="Answered from the response cache.")
    seconds: float = 0.0
    seconds_to_first_token: float | None = None
    prompt_token_ids: tuple[int, ...] = ()
    tokens: tuple[tuple[int | None, float, float | None], ...] = Field(
        default=(),
        description="Id, log-probability, the same as sampled (temperature, mask).",
    )

    def to_json(self) -> dict[str, Json]:
        """Without what is as it usually is."""
        return self.model_dump(mode="json", exclude_defaults=True)


def asked(request: Request, before: Sequence[Message]) -> Attempt:
    """An attempt that has no answer yet; `before` are the messages of the seat's last request."""
    kept = shared(before, request.messages)
    return Attempt(
        kept=kept,
        messages=tuple(ChatLine(role=m.role, content=m.content) for m in request.messages[kept:]),
        sampling=unusual(request.sampling),
    )


def unusual(sampling: Sampling) -> dict[str, Json]:
    """The fields that differ from the default, as JSON holds them."""
    fields = sampling.to_json()
    return {name: value for name, value in fields.items() if value != DEFAULTS[name]}


def shared(first: Iterable[object], second: Iterable[object]) -> int:
    """How many items the two have in common at their beginning."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def answered(attempt: Attempt, completion: Completion, reading: Reading) -> Attempt:
    """The attempt with its answer and how it was understood."""
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
            "cost": 0.0 if completion.cached else completion.cost,
            "cached": completion.cached,
            "seconds": round(completion.seconds, 6),
            "seconds_to_first_token": completion.seconds_to_first_token,
            "prompt_token_ids": completion.prompt_token_ids if choice.tokens else (),
            "tokens": tuple((t.id, t.logprob, t.sampled_logprob) for t in choice.tokens),
        }
    )


def failed(attempt: Attempt, error: BackendError) -> Attempt:
    """The attempt that the provider did not answer."""
    update = {"failure": "provider_error", "cause": error.cause, "excerpt": str(error)}
    return attempt.model_copy(update=update)


def requests_of(attempts: Iterable[Attempt]) -> list[tuple[Message, ...]]:
    """The messages of each request in full, from one seat's attempts in order."""
    last: tuple[Message, ...] = ()
    found = []
    for attempt in attempts:
        new = tuple(Message(line.role, line.content) for line in attempt.messages)
        last = last[: attempt.kept] + new
        found.append(last)
    return found
