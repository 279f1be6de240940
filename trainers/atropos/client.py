"""Atropos' trajectory API: the bodies of requests and answers, checks of groups, and a client.

Conventions of a row, which all known trainers read in the same way:

- tokens, masks and log-probabilities have equal lengths;
- a mask is -100 where the token is not trained, and the token's id where it is;
- the log-probability is exactly 1.0 where the token is not trained, else that of sampling (<= 0);
- the token at position 0 has no predecessor that predicts it, so training it has no effect.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from arena.core.errors import ArenaError
from arena.core.text import first_fault, shorten

MASKED = -100
"""Mask of a token that is not trained."""
NOT_SAMPLED = 1.0
"""Log-probability of a token that is not trained; no real one is positive."""
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
"""Seconds. A batch of long rows takes a while to arrive."""
MAX_REASON = 500
"""Characters of an answer that an error quotes."""
FIRST_WAIT = 0.25
"""Seconds before a call is repeated at a server that does not answer."""

TokenId = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]


class WireModel(BaseModel):
    """Base of all bodies. Unknown keys are dropped, as the stock server does."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)


class TrainerRegistration(WireModel):
    """Body of POST /register."""

    wandb_group: str
    wandb_project: str
    batch_size: Size
    """Rows of a batch."""
    max_token_len: Size
    checkpoint_dir: str
    save_checkpoint_interval: int
    starting_step: Count
    num_steps: Count


class EnvRegistration(WireModel):
    """Body of POST /register-env."""

    max_token_length: Size
    desired_name: str
    weight: float
    group_size: Size
    """Rows of each group that the environment pushes."""


class EnvReference(WireModel):
    """Body of GET /status-env and of POST /disconnect-env."""

    env_id: int


class RegisteredEnv(WireModel):
    """Answer to POST /register-env after the trainer has started."""

    env_id: int
    wandb_name: str
    starting_step: int
    num_steps: int


class ServerInfo(WireModel):
    """Answer to GET /info; -1 before a trainer has registered."""

    batch_size: int
    max_token_len: int


class QueueStatus(WireModel):
    """Answer to GET /status, and to GET /status-env in units of the environment's groups."""

    current_step: int
    queue_size: int
    """Groups."""


class ScoredData(WireModel):
    """A group of G rows (sequences of tokens) with one score each; other fields are dropped.

    Raises ValueError if a row breaks one of the conventions of this module; the message names the
    field and the row.
    """

    tokens: list[list[TokenId]]
    masks: list[list[int]]
    scores: list[float]
    advantages: list[list[float]] | None = None
    """Advantages by token; None: the trainer computes one for each row from the scores."""
    generation_params: dict[str, JsonValue] | None = None
    inference_logprobs: list[list[float]] | None = None
    """Natural logarithms, of the distribution that tokens were sampled from."""
    overrides: list[dict[str, JsonValue]] | None = None
    """One for each row."""
    group_overrides: dict[str, JsonValue] | None = None
    env_id: int | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.tokens)

    @model_validator(mode="after")
    def _check(self) -> ScoredData:
        if not self.tokens:
            raise ValueError("tokens: the group has no rows")
        for name in ("masks", "scores", "advantages", "inference_logprobs", "overrides"):
            # Absent fields are None and pass.
            _check_length(name, getattr(self, name), self.size, "rows, but tokens has")
        for row in range(self.size):
            self._check_row(row)
        return self

    def _check_row(self, row: int) -> None:
        tokens, masks = self.tokens[row], self.masks[row]
        for name in ("masks", "advantages", "inference_logprobs"):
            if (rows := getattr(self, name)) is not None:
                where = f"{name}, row {row}"
                _check_length(where, rows[row], len(tokens), "entries, but tokens has")
        # A mask of 0 or 1 would be read as the id of a trained token.
        for place, (token, mask) in enumerate(zip(tokens, masks, strict=True)):
            if mask not in (MASKED, token):
                raise ValueError(
                    f"masks, row {row}, position {place}: {mask} is neither {MASKED} nor the token "
                    f"{token}"
                )
        # Trainers divide by the number of trained tokens, and some fail on a row without any.
        if all(mask == MASKED for mask in masks[1:]):
            raise ValueError(f"masks, row {row}: no token after position 0 is trained")
        if self.inference_logprobs is not None:
            _check_logprobs(self.inference_logprobs[row], masks, row)


def _check_length(where: str, values: Sequence[Any] | None, length: int, than: str) -> None:
    if values is not None and len(values) != length:
        raise ValueError(f"{where}: {len(values)} {than} {length}")


def _check_logprobs(logprobs: Sequence[float], masks: Sequence[int], row: int) -> None:
    # Some trainers select tokens by `mask != -100`, others by `logprob != 1.0`: both must agree.
    for place, (logprob, mask) in enumerate(zip(logprobs, masks, strict=True)):
        if (logprob == NOT_SAMPLED) if mask == MASKED else (logprob <= 0):
            continue
        fault = (
            f"of a masked token; write {NOT_SAMPLED}"
            if mask == MASKED
            else "of a trained token is above 0"
        )
        raise ValueError(f"inference_logprobs, row {row}, position {place}: {logprob} {fault}")


AnyAnswer = TypeVar("AnyAnswer", bound=WireModel)


class BatchLost(ArenaError):
    """The stock server took a batch from its queue and failed to send it; the next may arrive."""


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """A batch after the checks of its groups."""

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
        """Return the queue in units of an environment's groups. Raises ArenaError after a reset."""
        # The API reads the body of this GET; the same as a query gets status 422.
        body = EnvReference(env_id=env_id).model_dump_json()
        response = await self._send("GET", "/status-env", body)
        # The stock server fails with 500 for an id that it does not know.
        if response.status_code == 500:
            raise ArenaError(f"{self.url} does not know environment {env_id}: {_reason(response)}")
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

    async def batch(self) -> ReceivedBatch | None:
        """Take a batch; None: there are not enough groups yet.

        Raises:
            ArenaError: The server has been reset.
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
            raise ArenaError(
                f"{self.url}/batch: {answer.get('message')}; the same command continues the run"
            )
        batch = answer.get("batch")
        if batch is None:
            return None
        if not isinstance(batch, list):
            raise ArenaError(f"{self.url}/batch answered {shorten(str(batch), MAX_REASON)}")
        return _check_batch(batch)

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


def _check_batch(batch: Sequence[JsonValue]) -> ReceivedBatch:
    """Check each group of a batch on its own: one bad group costs only itself."""
    # The stock server checks types only, so anything may arrive.
    groups, refused = list[ScoredData](), list[str]()
    for place, raw in enumerate(batch):
        try:
            groups.append(ScoredData.model_validate(raw))
        except ValidationError as error:
            refused.append(f"group {place}: {first_fault(error)}")
    return ReceivedBatch(groups, refused)
