"""Every error that arena raises on purpose.

A class exists because some caller does something different with it. `str(error)` is one line for
a person: the input, the place and what to do.
"""

from __future__ import annotations

from typing import Literal

FailureCause = Literal[
    "rate_limit",  # 429
    "server_error",  # 5xx
    "timeout",
    "connection",  # refused, reset, cut off in the middle
    "bad_response",  # not what the protocol promises
    "bad_request",  # 4xx: our fault, the same again would fail again
    "authentication",  # 401, 403, 402: a key that is wrong or spent
    "context_length",
    "refused",  # a provider's filter
]


class ArenaError(Exception):
    """The base of all of them; the command line prints the message and exits with 1."""


class UsageError(ArenaError, ValueError):
    """The request itself is wrong (a name, an option, a seat); the command line exits with 2."""


class ActionError(ArenaError, ValueError):
    """A move that cannot be played; an agent is told why and may try again."""


class InvalidAction(ActionError):
    """The text, or the value, is no action of this game at all."""


class AmbiguousAction(ActionError):
    """The text fits several actions of this game."""


class IllegalAction(ActionError):
    """An action of this game that the rules do not allow now, or not to this player."""


class ReplayError(ArenaError):
    """A replay that cannot be read: not a replay, tampered with, or of another version."""


class NameTaken(ArenaError):
    """Two plugins claim one name; the one fault of a plugin that stops everything."""


class MissingDependency(ArenaError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class StopPlaying(ArenaError):
    """Nothing can be played any more (a spent budget, a dead provider): what is finished is kept.

    The one error of an agent that ends the game, and the run.
    """


class BudgetSpent(StopPlaying):
    """The next call would exceed the budget of the run."""


class BackendError(ArenaError):
    """A call to a model that failed; `cause` is the word under which the ledger counts it.

    `retryable` says whether the same request may succeed later, and `retry_after` after how many
    seconds, if the provider has said so.
    """

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


class ContextOverflow(BackendError):
    """The chat is too long for the model; the player shortens it and asks again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "context_length")


class PluginWarning(UserWarning):
    """A plugin could not be loaded and is left out."""
