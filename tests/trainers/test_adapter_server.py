"""Training here while another process answers: `arena serve`'s application on a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from made_up_groups import credited, turn
from pydantic import SecretStr
from tiny_model import build_tiny_model
from trajectory_servers import serving

from arena.core.errors import StopPlaying, UsageError
from arena.llm.backend import Completion, Message, Request, Sampling
from arena.llm.settings import Settings
from backends.embedded.sampler import Sampler
from backends.server import ServeOptions, shared_adapters
from backends.server.app import make_app
from trainers.algorithms.checkpoint_files import merge_checkpoint
from trainers.config.config import TrainConfig
from trainers.hosts.embedded import EmbeddedHost
from trainers.hosts.host import HostRequest
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn
from trainers.weight_sync.model_server import start_hint

QUESTION = "who had the rope in the library"
ASK = Request((Message("user", QUESTION),), Sampling(max_tokens=6), logprobs=True)


class ModelServer:
    """`arena serve` on a port of its own, in a thread, until `stop`; it can begin anew."""

    def __init__(self, model: Path, root: Path | None, key: str = "") -> None:
        self._model = model
        self._root = root
        self._key = SecretStr(key) if key else None
        self.changes: dict[str, Any] = {}
        """Fields of chat requests that are replaced before they are answered."""
        self._port = 0
        self.start()

    def start(self) -> None:
        self.sampler = Sampler(self._model, slots=4, threads=1)
        self._app = make_app(self.sampler, ServeOptions(lora_root=self._root), key=self._key)
        self._serving = serving(self._answer, self._port, interface="asgi3")
        self.url = self._serving.__enter__()
        self._port = int(self.url.rpartition(":")[2])

    def ignore_adapters(self) -> None:
        """Load adapters, and answer with the base model all the same."""
        self.changes = {"model": self.sampler.name}

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if not self.changes or scope["path"] != "/v1/chat/completions":
            await self._app(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        changed = json.dumps(json.loads(body) | self.changes).encode()
        parts = [{"type": "http.request", "body": changed}]
        scope["headers"] = [h for h in scope["headers"] if h[0] != b"content-length"]

        async def replay() -> Any:
            return parts.pop() if parts else await receive()

        await self._app(scope, replay, send)

    def stop(self) -> None:
        self._serving.__exit__(None, None, None)
        self.sampler._finalizer()

    def restart(self) -> None:
        self.stop()
        self.start()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=64)


@pytest.fixture
def server(model: Path, tmp_path: Path) -> Iterator[ModelServer]:
    served = ModelServer(model, tmp_path)
    yield served
    served.stop()


@dataclass(frozen=True)
class Table:
    """Folder and model of an experiment."""

    folder: Path
    model: Path
    patience: float = 5
    """Seconds to wait for a server that does not answer."""

    def request(self, url: str, **more: Any) -> HostRequest:
        fields: dict[str, Any] = {"learning_rate": 0.01} | more
        config = TrainConfig(
            experiment_name="away", server=url, base_model=str(self.model), **fields
        )
        settings = Settings.model_validate({"service": {"patience": self.patience}})
        return HostRequest(config, self.folder / "away", settings)

    def run(
        self, url: str, do: Callable[[EmbeddedHost], Awaitable[None]], step: int = 0, **more: Any
    ) -> None:
        """Do something with an open host."""
        host = EmbeddedHost(self.request(url, **more))

        async def opened() -> None:
            host.preflight()
            try:
                assert await host.open(step) == step
                await do(host)
            finally:
                await host.close()

        asyncio.run(opened())


@pytest.fixture
def table(tmp_path: Path, model: Path) -> Table:
    return Table(tmp_path, model)


async def play(host: EmbeddedHost) -> list[TrajectoryGroup]:
    """A group of four games that are one answer long: it wins whose answer is first by text."""
    asked = [replace(ASK, sampling=replace(ASK.sampling, seed=seed)) for seed in range(4)]
    answers = [await host.policy().complete(request) for request in asked]
    best = min(answer.text for answer in answers)
    games = [Trajectory((turn_of(answer),), float(answer.text == best)) for answer in answers]
    return credited([TrajectoryGroup(tuple(games))])


def turn_of(answer: Completion) -> Turn:
    tokens = answer.choice.tokens
    ids, values = [token.id or 0 for token in tokens], [token.logprob for token in tokens]
    asked = [Message("user", QUESTION)]
    return turn(answer.text, ids, values, messages=asked, prompt=answer.prompt_token_ids)


async def train(host: EmbeddedHost) -> dict[str, float]:
    return await host.train(await play(host), 0)


def adapters(url: str) -> set[str]:
    cards = httpx.get(f"{url}/v1/models", timeout=60).json()["data"]
    return {card["id"] for card in cards if card["parent"]}


def expected(folder: Path, host: EmbeddedHost, answer: Completion) -> list[float]:
    """The log-probabilities of an answer under a checkpoint, as transformers computes them."""
    from transformers import Qwen3ForCausalLM

    prompt = host.trainer.sampler.encode(ASK.messages)
    assert list(answer.prompt_token_ids) == prompt
    ids = [token.id for token in answer.choice.tokens]
    merge_checkpoint(folder)
    network = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        rows = network(torch.tensor([[*prompt, *ids]])).logits[0].log_softmax(-1)
    return [float(rows[len(prompt) - 1 + at, token]) for at, token in enumerate(ids)]


def logprobs(answer: Completion) -> list[float]:
    return [token.logprob for token in answer.choice.tokens]


async def answered_by(host: EmbeddedHost, step: int | None, folder_of: int) -> None:
    """The policy of a step answers with the weights that lie in the step's checkpoint."""
    answer = await host.policy(step).complete(ASK)
    assert answer.policy_version == folder_of
    folder = host.checkpoint(folder_of)
    assert folder is not None
    assert logprobs(answer) == pytest.approx(expected(folder, host, answer), abs=1e-4)


def test_trainer_and_server_of_one_machine_agree_on_a_folder(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`arena serve MODEL` without --lora-root, and a run in any folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shared_adapters().mkdir(parents=True)
    served = ModelServer(model, shared_adapters())

    async def step(host: EmbeddedHost) -> None:
        await train(host)
        await answered_by(host, None, 1)
        (folder,) = shared_adapters().glob("away-*/0001-*")
        assert (folder / "adapter_model.safetensors").exists()

    try:
        Table(tmp_path / "runs", model).run(served.url, step)
    finally:
        served.stop()


def test_each_step_answers_from_the_server(server: ModelServer, table: Table) -> None:
    async def two_steps(host: EmbeddedHost) -> None:
        assert adapters(server.url) == set()
        await answered_by(host, None, 0)
        for step in (1, 2):
            metrics = await train(host)
            assert metrics["swap_difference"] < 1e-4
            assert metrics["swap_moved"] > 1e-2
            assert adapters(server.url) == {f"away@{step}"}
            await answered_by(host, None, step)
        await answered_by(host, 1, 1)
        await answered_by(host, 0, 0)
        assert adapters(server.url) == {"away@1", "away@2"}
        await host.keep([2])
        assert adapters(server.url) == {"away@2"}
        assert [path.name[:5] for path in (table.folder / "away/adapters").iterdir()] == ["0002-"]
        with pytest.raises(UsageError, match="step 1 is not kept"):
            host.policy(1)

    table.run(server.url, two_steps)

    async def go_on(host: EmbeddedHost) -> None:
        assert adapters(server.url) == {"away@2"}
        await answered_by(host, None, 2)

    table.run(server.url, go_on, step=2)


def test_training_stops_when_the_old_weights_answer(server: ModelServer, table: Table) -> None:
    async def ignored(host: EmbeddedHost) -> None:
        server.ignore_adapters()
        stale = (
            r"still answers with other weights than those of step 1: the log-probabilities of its "
            r"first reply differ by [\d.]+ nats\. Restart"
        )
        with pytest.raises(StopPlaying, match=stale) as error:
            await train(host)
        assert "\n" not in str(error.value)

    table.run(server.url, ignored)


async def answers_nothing(host: EmbeddedHost) -> None:
    raise AssertionError("it should not have been opened")


def test_a_server_that_cannot_be_used_is_told_before_anything_is_played(
    server: ModelServer, table: Table, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    server.changes = {"return_token_ids": False}
    with pytest.raises(StopPlaying, match="returns no token ids with its log-probabilities"):
        table.run(server.url, answers_nothing)
    server.changes = {}
    command = f"`arena serve {model} --port {nobody[17:]}`"
    with pytest.raises(UsageError, match="nothing answers at") as error:
        EmbeddedHost(table.request(nobody)).preflight()
    assert command in str(error.value) and "\n" not in str(error.value)
    assert "--max-lora-rank 16" in start_hint(table.request(nobody, lora_rank=12), nobody)
    with pytest.raises(UsageError, match="give the address of one server"):
        EmbeddedHost(table.request(f"{nobody},{nobody}")).preflight()
    with pytest.raises(UsageError, match="must not contain a key"):
        EmbeddedHost(table.request("http://me:key@localhost:1")).preflight()
    elsewhere = Table(tmp_path_factory.mktemp("elsewhere"), model)
    with pytest.raises(UsageError, match=r"below the server's --lora-root .*; start one with"):
        EmbeddedHost(elsewhere.request(server.url)).preflight()
    other = build_tiny_model(tmp_path_factory.mktemp("other") / "tiny", layers=2, seed=1)
    with pytest.raises(StopPlaying, match=r"another model \(tiny\) than --base-model .*other"):
        Table(table.folder, other).run(server.url, answers_nothing)
    words = build_tiny_model(tmp_path_factory.mktemp("words") / "tiny", layers=1, vocabulary=300)
    with pytest.raises(StopPlaying, match="tokenises a chat differently .* than the base model"):
        Table(table.folder, words).run(server.url, answers_nothing)


def test_a_server_with_a_key_and_without_a_root_for_adapters(
    model: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ModelServer(model, None, "sk-planted-77aa")
    try:
        with pytest.raises(UsageError, match=r"answered 401: .*API key"):
            EmbeddedHost(table.request(served.url)).preflight()
        monkeypatch.setenv("ARENA_API_KEY", "sk-planted-77aa")
        with pytest.raises(UsageError, match="without --lora-root DIR .*; start one with") as error:
            EmbeddedHost(table.request(served.url)).preflight()
        assert "sk-planted" not in str(error.value)
    finally:
        served.stop()
