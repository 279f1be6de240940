"""Chat requests, completions, prices, and the Backend protocol that answers requests.

A `Backend` answers requests for one model and does nothing else: retries, limits, budget and ledger
belong to `LLMService`. Every failure is a `BackendError`, which states whether another attempt may
succeed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Literal, Protocol

from pydantic import JsonValue

from arena.core.errors import BackendError

Role = Literal["system", "user", "assistant"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high"]
FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "unknown"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a request, with the names and meanings of OpenAI's API."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning_effort: ReasoningEffort | Literal[""] = ""
    """Amount of reasoning before an answer; empty for the provider's default."""

    @property
    def asks_to_think(self) -> bool:
        """True if the request switches thinking on."""
        return self.reasoning_effort not in {"", "none"}

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields as JSON; the effort only if it is set."""
        fields = {**asdict(self), "stop": list(self.stop)}
        return {n: v for n, v in fields.items() if v or n != "reasoning_effort"}


@dataclass(frozen=True, slots=True)
class Tool:
    """Function that a model may call instead of answering in text."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON schema of the arguments."""


@dataclass(frozen=True, slots=True)
class Request:
    """A chat request.

    At most one of `guided_choice`, `guided_json` (a JSON schema) and `tools` is set; a backend that
    cannot guide ignores it, and the reader of the answer must not rely on it.
    """

    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    logprobs: bool = False
    """Wanted: token ids and log-probabilities of the answer."""
    guided_choice: tuple[str, ...] = ()
    guided_json: dict[str, JsonValue] | None = None
    tools: tuple[Tool, ...] = ()
    """Functions of which the model must call one; the call is added to the text of the answer, as
    JSON with `name` and `arguments`."""
    repeated: int = 0
    """So many messages at the start come again in later requests: worth a place in a prompt cache
    that has to be asked for."""
    policy_version: int | None = None
    """The training step whose weights must answer, of a model with several `versions`."""


@dataclass(frozen=True, slots=True)
class Token:
    """One sampled token, as the sampler returned it; never the result of tokenising again."""

    id: int | None
    text: str
    logprob: float
    """Under the model's plain distribution: no temperature, no mask."""
    sampled_logprob: float | None = None
    """Under the distribution it was drawn from (temperature, top_p, mask), where known."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that were read from a cache, included in `prompt_tokens`."""
    reasoning_tokens: int = 0
    """Reasoning tokens, included in `completion_tokens` and in the cost."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a model has answered."""

    text: str
    finish_reason: FinishReason = "stop"
    reasoning: str = ""
    """Reasoning, where the provider separates it from the answer."""
    refusal: str = ""
    """Why the provider or the model would not answer, where it says so in a field of its own."""
    tokens: tuple[Token, ...] = ()
    """Empty unless asked for and known."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to a request, and what it cost."""

    choice: Choice
    model: str
    """The model that answered, as the provider names it."""
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars; None if unknown."""
    policy_version: int | None = None
    prompt_token_ids: tuple[int, ...] = ()
    seconds: float = 0.0
    """Seconds from sending the request to the last byte."""
    engine: str = field(default="", compare=False)
    """The model with the provider behind a router and the system fingerprint, where the response
    states them: `gpt-5 [Azure, fp_44]`."""

    @property
    def text(self) -> str:
        return self.choice.text


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model in US dollars per token."""

    input: float
    output: float
    cached: float | None = None
    """Price of a prompt token that the provider reads from its cache; None: as `input`."""

    def cost(
        self, prompt_tokens: float, completion_tokens: float, cached_tokens: float = 0
    ) -> float:
        """Return the cost of a call; `cached_tokens` are included in `prompt_tokens`."""
        cached = min(max(cached_tokens, 0), prompt_tokens)
        saved = 0.0 if self.cached is None else cached * (self.input - self.cached)
        return prompt_tokens * self.input + completion_tokens * self.output - saved

    def cost_of(self, usage: Usage) -> float:
        """Return the cost of a call."""
        return self.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """Properties of a backend's model and provider. The defaults suit a model in this process."""

    is_remote: bool = False
    """A provider answers, which may be down, limit requests, or state no usage."""
    always_thinks: bool = False
    """The model thinks before each answer without being asked, so its replies need room."""
    takes_thinking: bool = True
    """False if it ignores efforts of thinking."""
    takes_tools: bool = True
    """False if it cannot call functions."""
    max_reply_tokens: int | None = None
    """The highest limit of a reply that it accepts; None if unknown."""
    price: Price | None = None
    has_known_price: bool = True
    """False if neither `price` nor the answers give the cost."""
    cached_prefix: int | None = None
    """Tokens of the shortest prefix that the provider's cache of prompts holds; None without one,
    or if it is unknown."""
    versions: tuple[tuple[int, float], ...] = ()
    """Versions of the weights, each with its probability, of which a player draws one at the start
    of a game and names it in all its requests (`policy_version`)."""
    kept_chats: int | None = None
    """Number of chats that its own cache holds; with more, each is read again at each turn."""

    def thinks(self, sampling: Sampling) -> bool:
        """Return whether the model thinks before an answer."""
        return self.always_thinks or (sampling.asks_to_think and self.takes_thinking)


class Backend(Protocol):
    """Answers chat requests for one model. Used in one event loop; called many times at once.

    A backend may have the attribute `traits` (see `traits_of`).
    """

    model: str
    """Name of the model at its provider."""
    context_length: int | None
    """Tokens of prompt and answer together; None if unknown."""

    async def complete(self, request: Request) -> Completion:
        """Answer once, without retrying. Raises BackendError."""

    async def close(self) -> None:
        """Give back connections, threads and memory."""


@dataclass(eq=False, slots=True)
class Call:
    """One call of a player on its way through the layers of `LLMService`."""

    request: Request
    start: float = field(default_factory=time.monotonic)
    """Monotonic time in seconds."""
    attempts: int = 0
    """Attempts that were sent to the backend."""
    failures: int = 0
    """Failed attempts, for the back-off."""
    excused: int = 0
    """Failed attempts that do not count for `max_retries`."""
    error: BackendError | None = None
    """Error of the last attempt."""


class Layer(Protocol):
    """A step of a call, around the next one: each does one job and passes the call on."""

    async def complete(self, call: Call) -> Completion:
        """Answer a call. Raises BackendError and StopPlaying."""


def traits_of(backend: Backend) -> BackendTraits:
    """Return the `traits` of a backend, or the defaults for one without this attribute."""
    return getattr(backend, "traits", BackendTraits())


class ModelService(Protocol):
    """Answers the requests of agents, as `LLMService` does."""

    def traits(self, spec: str) -> BackendTraits:
        """Return the properties of a SPEC's model. Raises UsageError if it cannot be used."""

    async def complete(self, spec: str, request: Request) -> Completion:
        """Answer a request. Raises BackendError and StopPlaying."""

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Wait until the budget covers one more game of these players."""

    def count_decision(self, spec: str, failure: str | None) -> None:
        """Count a decision of a player; `failure` is the reason of a fallback move."""

    def hint(self, topic: str, line: str) -> None:
        """Print a line for people, once per run for each topic."""


CHARACTERS_PER_TOKEN = 4
"""Mean of English text."""


def estimate_prompt(request: Request) -> int:
    """Return the tokens of the prompt.

    An estimate, not a bound: text that is not English takes more tokens for its characters.
    """
    characters = sum(len(message.content) for message in request.messages)
    return tokens_of(len(_functions_text(request)) + characters)


def _functions_text(request: Request) -> str:
    """Return the functions that a request offers, about as a model reads them."""
    return "".join(f"{t.name}{t.description}{json.dumps(t.parameters)}" for t in request.tools)


def tokens_of(characters: int) -> int:
    """Return the estimated tokens of a text with so many characters, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimate_usage(request: Request, completion: Completion) -> Usage:
    """Return the estimated tokens of a call, for providers that do not count them."""
    characters = len(completion.choice.reasoning) + len(completion.choice.text)
    return Usage(estimate_prompt(request), tokens_of(characters))


def count_prompts(requests: Sequence[Request], shortest: int | None) -> Usage:
    """Estimate the tokens of one chat's requests, and those that a cache of prompts should hold.

    The cache holds what the messages that are marked as repeated have in common with those of the
    request before, if these are at least `shortest` tokens; None if there is no cache.
    """
    total, cached, before = 0, 0, ""
    for request in requests:
        repeated = request.messages[: request.repeated]
        text = _functions_text(request) + "".join(message.content for message in repeated)
        common = common_prefix_length(before, text) // CHARACTERS_PER_TOKEN
        cached += common if shortest is not None and common >= shortest else 0
        total += estimate_prompt(request)
        before = text
    return Usage(total, cached_tokens=cached)


def common_prefix_length(first: Iterable[object], second: Iterable[object]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
