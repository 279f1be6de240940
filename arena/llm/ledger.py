"""Ledger of a run: calls, tokens, failures and cost of each model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from arena.core.errors import ArenaError, BackendError, BudgetSpent, StopPlaying
from arena.core.text import pluralize
from arena.llm.backend import Call, Completion, Layer


@dataclass(slots=True)
class Tally:
    """The counts of one SPEC.

    A call is one request of a player; an attempt is one request to the backend. With no call in
    flight:

        calls == answered + sum(failures.values())
        attempts == answered + sum(failed_attempts.values())
        attempts == calls - not_sent + sum(retries.values())

    Failures are counted by the cause of the BackendError, or as `cancelled`, `budget`
    (BudgetSpent), `stopped` (StopPlaying: a backend that stayed down, a wrong key) or `crash` (any
    other error, a fault of the backend's program). Tokens and cost are those of the answered calls,
    as their providers counted them, and of failed attempts whose provider states their cost.
    """

    calls: int = 0
    answered: int = 0
    """Calls that the backend answered."""
    attempts: int = 0
    not_sent: int = 0
    """Calls that failed before a first attempt: refused by breaker or budget, or cancelled."""
    retries: Counter[str] = field(default_factory=Counter)
    """Further attempts, by the cause for which the attempt before had failed."""
    failed_attempts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """Calls that raised, by what they raised."""
    decisions: int = 0
    """Decisions of players with this SPEC."""
    fallbacks: int = 0
    """Decisions that were played for the model."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Reasoning tokens, included in `completion_tokens` and in the cost."""
    cached_tokens: int = 0
    """Prompt tokens that the provider read from its cache, included in `prompt_tokens`."""
    cost: float = 0.0
    """US dollars, of the answers whose cost is known."""
    unknown_cost: int = 0
    """Answers of unknown cost."""
    engines: Counter[str] = field(default_factory=Counter)
    """Answers by the engine that gave them, see `Completion`."""
    seconds: list[float] = field(default_factory=list)
    """Latency of each successful attempt, in seconds."""

    @property
    def failed(self) -> int:
        """Calls that raised."""
        return self.failures.total()

    def add_answer(self, completion: Completion, seconds: float) -> None:
        self.answered += 1
        self.add_usage(completion)
        self.engines[completion.engine or completion.model] += 1
        self.seconds.append(seconds)

    def add_usage(self, completion: Completion) -> None:
        """Add tokens and cost, of an answer or of a failed attempt."""
        self.prompt_tokens += completion.usage.prompt_tokens
        self.completion_tokens += completion.usage.completion_tokens
        self.reasoning_tokens += completion.usage.reasoning_tokens
        self.cached_tokens += completion.usage.cached_tokens
        if completion.cost is None:
            self.unknown_cost += 1
        else:
            self.cost += completion.cost

    def add(self, other: Tally) -> None:
        """Add the counts of another SPEC."""
        # Numbers, counters and lists all have "+".
        for name in self.__slots__:
            ours, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, ours + theirs)

    def latency(self, percent: float) -> float | None:
        """Return a percentile of the seconds of successful attempts; None without any."""
        return percentile(self.seconds, percent)

    def to_json(self) -> dict[str, JsonValue]:
        """Times are seconds; a percentile of nothing is null."""
        counts = {name: getattr(self, name) for name in self.__slots__ if "seconds" not in name}
        return {
            **{
                n: dict(sorted(c.items())) if isinstance(c, Counter) else c
                for n, c in counts.items()
            },
            "failed": self.failed,
            "latency_p50": self.latency(50),
            "latency_p95": self.latency(95),
        }


class Ledger:
    """A tally for each SPEC, in the order of first use."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}

    def tally(self, spec: str) -> Tally:
        return self.tallies.setdefault(spec, Tally())

    def check_answers(self) -> None:
        """Raise ArenaError if all calls of a SPEC have failed: its games measure fallback moves."""
        for spec, tally in self.tallies.items():
            if tally.calls and tally.calls == tally.failed:
                raise ArenaError(
                    f"{spec} answered none of {pluralize(tally.calls, 'call')} "
                    f"({', '.join(tally.failures)}): this is not a measurement of it"
                )

    def total(self) -> Tally:
        """The sum over all SPECs."""
        total = Tally()
        for tally in self.tallies.values():
            total.add(tally)
        return total

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "total": self.total().to_json(),
            "backends": {spec: tally.to_json() for spec, tally in self.tallies.items()},
        }


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the nearest-rank percentile: the least value that `percent` % of all do not exceed."""
    if not values:
        return None
    # Ceiling of n * percent / 100: the rank counts from 1.
    rank = -(-len(values) * percent // 100)
    # Rank 0, for 0 %, means the least value.
    return sorted(values)[max(int(rank), 1) - 1]


def failure_word(error: BaseException) -> str:
    """Return the word under which an error is counted."""
    # CancelledError is a BaseException, so a cancelled call is not a crash.
    match error:
        case BackendError():
            return error.cause
        # Before StopPlaying, its base class.
        case BudgetSpent():
            return "budget"
        case StopPlaying():
            return "stopped"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "crash"


@dataclass(eq=False, slots=True)
class Tallied:
    """Layer that counts calls, and by their reasons those that fail."""

    inner: Layer
    tally: Tally

    async def complete(self, call: Call) -> Completion:
        self.tally.calls += 1
        try:
            return await self.inner.complete(call)
        except BaseException as error:  # A cancelled call is counted, too.
            self.tally.failures[failure_word(error)] += 1
            self.tally.not_sent += not call.attempts
            raise


WINDOW = 4
"""The first decisions that are looked at as a whole, in multiples of the limit in a row."""


class FallbackGuard:
    """Counts the decisions and fallback moves of one SPEC in its tally, over all games of a run.

    It stops the run after `limit` of them in a row, or when they are more than half of the first
    `WINDOW * limit` decisions. Such games measure the fallback, not the model. 0 means no limit.
    """

    def __init__(self, name: str, tally: Tally, limit: int) -> None:
        self._name = name
        self._tally = tally
        self._limit = limit
        self._in_a_row = 0

    def count(self, failure: str | None) -> None:
        """Count a decision; `failure` is the reason of a fallback move. Raises StopPlaying."""
        tally, limit = self._tally, self._limit
        tally.decisions += 1
        tally.fallbacks += failure is not None
        self._in_a_row = self._in_a_row + 1 if failure is not None else 0
        is_early = tally.decisions <= WINDOW * limit
        too_many = is_early and tally.fallbacks > WINDOW * limit / 2
        if limit and (self._in_a_row >= limit or too_many):
            raise StopPlaying(
                f"{self._name}: {tally.fallbacks} of {tally.decisions} decisions were fallback "
                f"moves, so this is not its play (the last one: {failure}); check the model, "
                "--max-tokens and --answers, or raise max_fallbacks (0: no limit)"
            )
