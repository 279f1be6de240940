"""Errors that arena raises on purpose.

There is a class for each error that some caller handles in its own way. `str(error)` is one line
for a person: the input, the place and the remedy.
"""

from __future__ import annotations

from typing import Literal

FailureCause = Literal[
    "rate_limit",  # 429
    "server_error",  # 5xx
    "timeout",
    "connection",  # refused, reset, or closed during the answer
    "bad_response",  # violates the protocol
    "bad_request",  # 4xx: our error; a repeated request would fail again
    "authentication",  # 401, 403, 402: the key is wrong or has no credit
    "configuration",  # 404, a redirect: the name of the model or the URL is wrong
    "context_length",
    "refused",  # by a provider's content filter
]


class ArenaError(Exception):
    """Base class of all errors; the command line prints the message and exits with code 1."""


class UsageError(ArenaError, ValueError):
    """A wrong request (a name, an option, a seat); the command line exits with code 2."""


class ActionError(ArenaError, ValueError):
    """A move that cannot be played; the agent gets the reason and may try again."""


class InvalidAction(ActionError):
    """The text, or the value, is not an action of this game."""


class AmbiguousAction(ActionError):
    """The text fits several actions of this game."""


class IllegalAction(ActionError):
    """An action of this game that the rules do not allow now, or not to this player."""


class ReplayError(ArenaError):
    """A replay that cannot be read: not a replay, modified, or of another version."""


class NameTaken(ArenaError):
    """A plugin registers a name that another plugin has already."""


class MissingDependency(ArenaError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class StopPlaying(ArenaError):
    """No more games can be played, for example because the budget is spent or a provider failed.

    Finished games are kept. This is the only error of an agent that ends the game and the run.
    """


class BudgetSpent(StopPlaying):
    """The next call would exceed the budget of the run."""


class BackendError(ArenaError):
    """A failed call to a model.

    The ledger counts it under `cause`. `retryable` is True if the same request may succeed later;
    `retry_after` is the delay in seconds that the provider asks for, or None. Tokens and `cost` (US
    dollars) are what a provider states for the failed call; most state nothing.
    """

    prompt_tokens = 0
    completion_tokens = 0
    cost: float | None = None
    may_pass = False
    """True for a refusal that may not be the provider's: other calls may succeed."""

    def __init__(
        self,
        message: str,
        cause: FailureCause,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.cause: FailureCause = cause
        self.retryable = retryable
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by fields, since the arguments of subclasses differ."""
        return _restore_backend_error, (type(self), str(self)), self.__dict__


def _restore_backend_error(kind: type[BackendError], message: str) -> BackendError:
    return kind.__new__(kind, message)


class ContextOverflow(BackendError):
    """The chat is too long for the model; the agent shortens it and tries again."""

    def __init__(self, message: str) -> None:
        # Not retryable: the same request would fail again.
        super().__init__(message, "context_length")


class PluginWarning(UserWarning):
    """A plugin could not be loaded and is left out."""
