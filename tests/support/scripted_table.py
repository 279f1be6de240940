"""A service with one scripted backend, on a real clock with tiny waits, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arena.core.errors import ArenaError
from arena.llm.backend import Completion, Message, Price, Request, Sampling, Token
from arena.llm.ledger import Tally
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits, ServiceSettings, Settings
from backends.scripted import ScriptedBackend, ScriptedReply

Replies = Iterable[str | ScriptedReply] | Callable[[Request], str | ScriptedReply]
SPEC = "scripted"
ASK = Request((Message("user", "x" * 40),), Sampling(max_tokens=90))
"""Estimated at 100 tokens."""
GONE = ScriptedReply(error="connection", text="connection refused")


@dataclass
class Table:
    """A service with one scripted backend, and what it has said."""

    llm: LLMService
    backend: ScriptedBackend
    said: list[str] = field(default_factory=list)

    @property
    def tally(self) -> Tally:
        return self.llm.ledger.tallies[SPEC]

    async def ask(self, request: Request = ASK) -> str:
        return (await self.llm.complete(SPEC, request)).text

    async def ask_many(self, count: int) -> list[str | BaseException]:
        """Texts and errors, in order."""
        calls = (self.ask() for _ in range(count))
        return list(await asyncio.gather(*calls, return_exceptions=True))


def quick(**limits: float) -> Settings:
    """Settings with tiny back-offs."""
    given = {"backoff": 0.002, "max_backoff": 0.01, "patience": 2.0, **limits}
    return Settings(service=ServiceSettings(**given))  # type: ignore[arg-type]


def table(
    replies: Replies,
    *,
    max_cost: float | None = None,
    price: Price | None = None,
    **limits: float,
) -> Table:
    said: list[str] = []
    llm = LLMService(
        quick(**limits),
        RunLimits(
            max_cost=max_cost,
            price_in=None if price is None else 1e6 * price.input,
            price_out=None if price is None else 1e6 * price.output,
        ),
        notify=said.append,
    )
    backend = ScriptedBackend(replies)
    llm.add(SPEC, backend)
    return Table(llm, backend, said)


def check_sums(tally: Tally) -> None:
    assert tally.calls == tally.answered + tally.failures.total()
    assert tally.attempts == tally.answered + tally.failed_attempts.total()
    assert tally.attempts == tally.calls - tally.not_sent + tally.retries.total()
    assert len(tally.seconds) == tally.answered


def count_errors(results: Iterable[object], kind: type[BaseException]) -> int:
    return sum(isinstance(result, kind) for result in results)


class Busy(ScriptedBackend):
    """Knows how many calls are inside at once."""

    now = most = 0
    alone = 0
    """Calls that found nobody inside."""

    async def complete(self, request: Request) -> Completion:
        self.alone += not self.now
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().complete(request)
        finally:
            self.now -= 1


class Served(NamedTuple):
    """A request that was answered, and with what."""

    messages: tuple[Message, ...]
    text: str
    tokens: tuple[Token, ...]


class WithTokens(ScriptedBackend):
    """Gives a token for each character of an answer, and one for its end, if they are asked for."""

    def __init__(self, replies: Replies) -> None:
        super().__init__(replies)
        self.served: list[Served] = []

    async def complete(self, request: Request) -> Completion:
        completion = await super().complete(request)
        choice, number = completion.choice, len(self.served)
        ids = [*(100 + ord(letter) for letter in choice.text), 7] if request.logprobs else []
        tokens = tuple(Token(each, "?", -each / 1000 - number, -each / 2000) for each in ids)
        self.served.append(Served(request.messages, choice.text, tokens))
        return replace(
            completion,
            choice=replace(choice, tokens=tokens),
            prompt_token_ids=(number + 1, len(request.messages)) if tokens else (),
        )


async def settle(llm: LLMService) -> Completion | BaseException:
    try:
        return await llm.complete(SPEC, ASK)
    except ArenaError as error:
        return error
