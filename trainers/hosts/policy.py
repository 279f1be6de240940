"""The weights of a training step behind an OpenAI-compatible server, as a Backend of arena."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from arena.core.errors import ArenaError, BackendError
from arena.llm.backend import Completion, Request
from backends.openai_http import HTTPBackend

if TYPE_CHECKING:
    import art

    from trainers.hosts.host import HostRequest

MOST_CONNECTIONS = 256


@dataclass(frozen=True, slots=True)
class Served:
    """The weights that a request is for."""

    name: str
    """What the server calls them."""
    step: int


class HostedPolicy:
    """Answers with the weights of one step, or with `step` None of the newest.

    Which those are is asked at every call, since a step may have been trained meanwhile. The
    connections belong to the host, which closes them.
    """

    def __init__(
        self,
        server: HTTPBackend,
        serve: Callable[[int | None], Awaitable[Served]],
        step: int | None,
        *,
        model: str,
        context_length: int | None,
    ) -> None:
        self.model = model
        self.context_length = context_length
        self._server = server
        self._serve = serve
        self._step = step

    async def complete(self, request: Request) -> Completion:
        wanted = self._step if request.policy_version is None else request.policy_version
        served = await self._serve(wanted)
        completion = await self._server.complete_with(served.name, request)
        if completion.policy_version not in {None, served.step}:
            raise BackendError(
                f"{self._server.url} answered with the weights of step "
                f"{completion.policy_version} in place of {served.step}",
                "bad_response",
            )
        return replace(completion, policy_version=served.step)

    async def close(self) -> None:
        """The host closes the connections, which all its policies share."""


def server_of(model: art.TrainableModel[Any, Any], request: HostRequest, host: str) -> HTTPBackend:
    """The server at which ART has registered the model.

    A game has one question in flight, so as many connections as there are games are enough.
    """
    url, key = model.inference_base_url, model.inference_api_key
    if url is None or key is None:
        raise ArenaError(f"--host {host}: ART has registered {model.name} at no server")
    limits = request.settings.service.limits(host)
    games = min(request.config.max_concurrent, MOST_CONNECTIONS)
    limits = limits.model_copy(update={"concurrency": max(limits.concurrency, games)})
    return HTTPBackend(url.rstrip("/"), model.name, limits, SecretStr(key))
