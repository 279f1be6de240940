"""Calls of the trajectory API, by an environment and by a trainer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from arena.core.errors import ArenaError
from arena.core.text import first_fault, shorten
from trainers.atropos.wire import (
    EnvReference,
    EnvRegistration,
    QueueStatus,
    RegisteredEnv,
    ScoredData,
    ServerInfo,
    TrainerRegistration,
    WireModel,
)

TIMEOUT = httpx.Timeout(60.0, connect=10.0)
"""Seconds. A batch of long rows takes a while to arrive."""
MAX_REASON = 500
"""Characters of an answer that an error quotes."""
FIRST_WAIT = 0.25
"""Seconds before a call is repeated at a server that does not answer."""

AnyAnswer = TypeVar("AnyAnswer", bound=WireModel)


class UnknownEnv(ArenaError):
    """The server does not know the environment (any more), which must register again."""


class NoTrainer(ArenaError):
    """The server has no trainer (any more), which must register again."""


class BatchLost(ArenaError):
    """The stock server took a batch from its queue and failed to send it; the next may arrive."""


class ReceivedBatch(BaseModel):
    """A batch after the checks of its groups."""

    step: int
    """The step that trains it."""
    groups: list[ScoredData]
    refused: list[str]
    """Reason against each other group."""


class TrajectoryClient:
    """Client of one server; it repeats a call while the server does not answer."""

    def __init__(
        self,
        url: str,
        patience: float = 0.0,
        notify: Callable[[str], None] = lambda line: None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect nothing yet.

        Args:
            url: address of the server.
            patience: seconds for which a call is repeated; then it raises ArenaError.
            notify: gets a line for people when a call is repeated.
            transport: replaces the network, for example by an application in this process.
        """
        self.url = url.rstrip("/")
        self._patience = patience
        self._notify = notify
        self._client = httpx.AsyncClient(
            timeout=TIMEOUT,
            transport=transport,
            trust_env=False,
            # The stock server closes a kept connection after an error 500.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def register(self, registration: TrainerRegistration) -> None:
        """Register a trainer, and check that the server holds this run and no earlier one.

        The stock server ignores all registrations but the first. Raises ArenaError.
        """
        await self._call("POST", "/register", registration.model_dump_json())
        info = await self.info()
        # The group names the run: equal sizes alone would let it train on another run's games.
        group = _fields(await self._call("GET", "/wandb_info")).get("group")
        held = f"batch_size {info.batch_size}, max_token_len {info.max_token_len}, group {group}"
        wanted = (
            f"batch_size {registration.batch_size}, max_token_len {registration.max_token_len}, "
            f"group {registration.wandb_group}"
        )
        if info.batch_size < 0:
            raise ArenaError(
                f"{self.url} accepts a trainer and forgets it, since groups were pushed before one "
                "had registered; reset it (GET /reset_data) or restart it"
            )
        if held != wanted:
            raise ArenaError(
                f"{self.url} still holds an earlier run: {held}, in place of {wanted}; reset it "
                "(GET /reset_data) or restart it"
            )

    async def register_env(self, registration: EnvRegistration) -> RegisteredEnv | None:
        """Register an environment; None: the trainer has not asked for its first batch yet."""
        raw = await self._call("POST", "/register-env", registration.model_dump_json())
        # Status 200 as well, so the text decides.
        if _fields(raw).get("status") == "wait for trainer to start":
            return None
        return self._read(RegisteredEnv, raw, "/register-env")

    async def disconnect_env(self, env_id: int) -> None:
        """Tell the server that no more groups come from an environment."""
        await self._call("POST", "/disconnect-env", EnvReference(env_id=env_id).model_dump_json())

    async def info(self) -> ServerInfo:
        """Return the size of batches."""
        return self._read(ServerInfo, await self._call("GET", "/info"), "/info")

    async def status(self) -> QueueStatus:
        """Return the step and the number of waiting groups."""
        return self._read(QueueStatus, await self._call("GET", "/status"), "/status")

    async def env_status(self, env_id: int) -> QueueStatus:
        """Return the queue in units of an environment's groups. Raises UnknownEnv."""
        # The API reads the body of this GET; the same as a query gets status 422.
        body = EnvReference(env_id=env_id).model_dump_json()
        response = await self._send("GET", "/status-env", body)
        # The stock server fails with 500 for an id that it does not know.
        if response.status_code == 500:
            raise UnknownEnv(f"{self.url} does not know environment {env_id}: {_reason(response)}")
        return self._read(QueueStatus, self._checked(response), "/status-env")

    async def push(self, groups: Sequence[ScoredData]) -> None:
        """Push groups. Raises ArenaError with the server's reason."""
        bodies = ",".join(group.model_dump_json() for group in groups)
        answer = _fields(await self._call("POST", "/scored_data_list", f"[{bodies}]"))
        if answer.get("buffered"):
            # The stock server parks such rows until others fill them up, perhaps for ever.
            raise ArenaError(
                f"{self.url} parked {groups[0].size} rows: another group_size was registered"
            )

    async def batch(self, step: int = 0) -> ReceivedBatch | None:
        """Take a batch for a step; None: there are not enough groups yet.

        Raises:
            NoTrainer: The server has been reset; register again.
            BatchLost: The stock server failed on the content of a batch, which is gone.
        """
        response = await self._send("GET", "/batch")
        # Distinct from null: groups were lost, and the step counts a batch that never came.
        if response.status_code == 500:
            raise BatchLost(
                f"{self.url}/batch failed: a group with NaN or infinity, or a reset without "
                "POST /register; the batch is lost"
            )
        answer = _fields(self._checked(response))
        if answer.get("status") == "error":
            raise NoTrainer(f"{self.url}/batch: {answer.get('message')}")
        batch = answer.get("batch")
        if batch is None:
            return None
        if not isinstance(batch, list):
            raise ArenaError(f"{self.url}/batch answered {shorten(str(batch), MAX_REASON)}")
        return _check_batch(step, batch)

    async def _call(self, method: str, path: str, body: str | None = None) -> bytes:
        return self._checked(await self._send(method, path, body))

    async def _send(self, method: str, path: str, body: str | None = None) -> httpx.Response:
        """Send a request; repeat it while the server does not answer."""
        headers = {"content-type": "application/json"} if body is not None else {}
        deadline, wait = time.monotonic() + self._patience, FIRST_WAIT
        while True:
            try:
                return await self._client.request(
                    method, self.url + path, content=body, headers=headers
                )
            except (httpx.TransportError, httpx.InvalidURL) as error:
                problem = str(error) or type(error).__name__
            message = f"{self.url}{path}: {problem}; is the trajectory API running there?"
            if time.monotonic() + wait > deadline:
                raise ArenaError(message)
            if wait == FIRST_WAIT:
                self._notify(f"{message}; trying again for {self._patience:g} s")
            # Exponential back-off: a server that restarts is not flooded by all its environments.
            await asyncio.sleep(wait)
            wait = min(2 * wait, 10.0)

    def _checked(self, response: httpx.Response) -> bytes:
        """Return the body of a success. Raises ArenaError."""
        if response.status_code == 200:
            return response.content
        raise ArenaError(f"{response.url} answered {response.status_code}: {_reason(response)}")

    def _read(self, kind: type[AnyAnswer], raw: bytes, path: str) -> AnyAnswer:
        try:
            return kind.model_validate_json(raw)
        except ValidationError:
            text = shorten(raw.decode(errors="replace"), MAX_REASON)
            raise ArenaError(f"{self.url}{path} answered {text}; is it a trajectory API?") from None


def _fields(raw: bytes) -> dict[str, JsonValue]:
    """Return the fields of an answer; none if it is not a JSON object."""
    try:
        # Python's parser accepts NaN, which a stock server may hold and `_check_batch` refuses.
        answer = json.loads(raw)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _reason(response: httpx.Response) -> str:
    """Return what an error says: `detail` of FastAPI, or the text."""
    detail = _fields(response.content).get("detail", response.text)
    match detail:
        case [{"msg": str(message)}, *_]:
            return shorten(message, MAX_REASON)
    return shorten(str(detail), MAX_REASON)


def _check_batch(step: int, batch: Sequence[JsonValue]) -> ReceivedBatch:
    """Check each group of a batch on its own: one bad group costs only itself."""
    # The stock server checks types only, so anything may arrive.
    groups, refused = list[ScoredData](), list[str]()
    for place, raw in enumerate(batch):
        try:
            groups.append(ScoredData.model_validate(raw))
        except ValidationError as error:
            refused.append(f"group {place}: {first_fault(error)}")
    return ReceivedBatch(step=step, groups=groups, refused=refused)
