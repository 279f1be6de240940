"""The weights of a training step behind an OpenAI-compatible server, as a backend of arena."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import SecretStr

from arena.core.errors import BackendError
from arena.llm.backend import Completion, Request
from backends.openai_http import HTTPBackend
from trainers.config.config import GAMES_AT_ONCE

if TYPE_CHECKING:
    from trainers.hosts.host import HostRequest


@dataclass(frozen=True, slots=True)
class ServedWeights:
    """The weights that answer a request."""

    name: str
    """The model's name at the server."""
    step: int


class HostedPolicy:
    """Answers with the weights of one step, or of the newest.

    The host owns the connections and closes them.
    """

    def __init__(
        self,
        server: HTTPBackend,
        serve: Callable[[], Awaitable[ServedWeights]],
        *,
        model: str,
        context_length: int | None,
    ) -> None:
        """Prepare to answer.

        Args:
            server: the host's connections.
            serve: makes the weights available and returns their name at the server. It is called
                for each answer, since a newer step may have been trained meanwhile.
            model: the model's name.
            context_length: tokens of the longest chat; None: unknown.
        """
        self.model = model
        self.context_length = context_length
        self._server = server
        self._serve = serve

    async def complete(self, request: Request) -> Completion:
        """Return the completion with the `policy_version` of the weights that answered.

        Raises BackendError if the server failed, or answered with another step's weights.
        """
        served = await self._serve()
        completion = await self._server.complete_with(served.name, request)
        # None: the server does not report a version, and its name for the model must do.
        if completion.policy_version not in {None, served.step}:
            raise BackendError(
                f"{self._server.url} answered with the weights of step "
                f"{completion.policy_version} in place of {served.step}",
                "bad_response",
            )
        return replace(completion, policy_version=served.step)

    async def close(self) -> None:
        """Do nothing: all policies of a host share its connections, which the host closes."""


def inference_server(
    request: HostRequest, host: str, model: str, url: str, key: str
) -> HTTPBackend:
    """Return the server at `url`, which ends in /v1, with connections for all games of a run.

    The limits are those of the settings for this host.
    """
    limits = request.settings.service.limits(host)
    # Each game has at most one request in flight, so one connection per game is enough.
    limits = limits.model_copy(update={"concurrency": max(limits.concurrency, GAMES_AT_ONCE)})
    return HTTPBackend(url.rstrip("/"), model, limits, SecretStr(key))
