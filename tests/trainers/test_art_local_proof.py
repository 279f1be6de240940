"""The proof of weights of the local host, against a model server in place of ART's vLLM.

ART's LocalBackend needs a GPU. In its place is a backend that writes adapters and loads them into
`arena serve`, in the order and with the names of LocalBackend.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
if find_spec("art") is None:
    pytest.skip("openpipe-art is not installed", allow_module_level=True)

from made_up_groups import turn
from safetensors.torch import load_file, save_file
from tiny_model import build_tiny_model, write_adapter
from trajectory_servers import serving

from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.llm.backend import Message, Request
from arena.llm.settings import Settings
from backends.embedded.sampler import Sampler
from backends.server import ServeOptions
from backends.server.app import make_app
from trainers.config.config import TrainConfig
from trainers.hosts.art.convert import TrainResult
from trainers.hosts.art.local import LocalHost
from trainers.hosts.host import HostRequest
from trainers.runs.records import RunFiles
from trainers.trajectory import Trajectory, TrajectoryGroup

ASK = Request((Message("user", "who has the rope"),), logprobs=True)


class AdapterWriter:
    """An `art.Backend` with the order and the names of ART's LocalBackend."""

    def __init__(self, base: Path, checkpoints: Path, url: str, sampler: Sampler) -> None:
        self.base, self.checkpoints, self.url, self.sampler = base, checkpoints, url, sampler
        self.stale = False
        """Load the adapter of the step before, under the name of the new step."""
        self.after_training: Callable[[], None] = lambda: None

    async def register(self, model: Any) -> None:
        if not self.checkpoints.is_dir():
            self._write(0)
        self._load(model, await self._get_step(model))

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        return f"{self.url}/v1", "unused"

    def _model_inference_name(self, model: Any, step: int | None = None) -> str:
        return f"{model.name}@{self._steps()[-1] if step is None else step}"

    async def _get_step(self, model: Any) -> int:
        return self._steps()[-1]

    async def train(self, model: Any, groups: Any, **arguments: Any) -> TrainResult:
        step = self._steps()[-1] + 1
        self._write(step)
        self._load(model, step)
        self.after_training()
        return TrainResult(step, {"loss": 0.5})

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        for step in set(self._steps()) - set(steps_to_keep):
            shutil.rmtree(self._folder(step))

    async def close(self) -> None:
        pass

    def _steps(self) -> list[int]:
        return sorted(int(folder.name) for folder in self.checkpoints.iterdir())

    def _folder(self, step: int) -> Path:
        return self.checkpoints / f"{step:04d}"

    def _write(self, step: int) -> None:
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        write_adapter(self._folder(step), self.base, seed=step)
        if step == 0:  # As PEFT starts: B is zero, and the adapter changes nothing.
            file = self._folder(0) / "adapter_model.safetensors"
            tensors = load_file(file)
            save_file({n: t.zero_() if "lora_B" in n else t for n, t in tensors.items()}, file)

    def _load(self, model: Any, step: int) -> None:
        folder = self._folder(step - 1 if self.stale else step)
        self.sampler.load_adapter(f"{model.name}@{step}", folder)


class LocalHostWithoutART(LocalHost):
    """The local host with another backend than ART's."""

    inner: AdapterWriter

    def _load_backend(self) -> Any:
        return self.inner


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=64)


@pytest.fixture
def sampler(base: Path) -> Iterator[Sampler]:
    sampler = Sampler(base, slots=4, threads=1)
    yield sampler
    sampler._finalizer()


@pytest.fixture
def host(base: Path, tmp_path: Path, sampler: Sampler) -> Iterator[LocalHostWithoutART]:
    config = TrainConfig(base_model=f"{base}", trainer_host="local", lora_rank=2)
    with serving(make_app(sampler, ServeOptions(lora_root=tmp_path))) as url:
        host = LocalHostWithoutART(HostRequest(config, tmp_path, Settings.model_validate({})))
        host.inner = AdapterWriter(base, host._folder() / "checkpoints", url, sampler)
        yield host


def groups() -> list[TrajectoryGroup]:
    asked = [Message("user", "who has the rope")]
    answer = turn("suggest rope", (7, 8, 9), (-0.5, -0.5, -0.5), messages=asked)
    return [TrajectoryGroup(tuple(Trajectory((answer,), r) for r in (0.0, 1.0)))]


def opened(host: LocalHost, work: Callable[[], Awaitable[None]], step: int = 0) -> None:
    async def run() -> None:
        await host.open(step)
        try:
            await work()
        finally:
            await host.close()

    asyncio.run(run())


def test_a_step_ends_with_the_proof_of_its_weights(host: LocalHostWithoutART) -> None:
    async def work() -> None:
        newest = host.policy()
        assert (await newest.complete(ASK)).policy_version == 0
        for step in (1, 2):
            metrics = await host.train(groups(), 0)
            assert await host.model.get_step() == step and metrics["loss"] == 0.5
            assert RunFiles(host._request.folder).checkpoint(step)
            # The same weights on both sides, and others than before.
            assert metrics["swap_difference"] < 1e-4
            assert metrics["swap_moved"] > 0.01
            assert metrics["seconds_proving"] > 0
            assert (await newest.complete(ASK)).policy_version == step

    opened(host, work)

    async def resume() -> None:
        # ART loads the newest step only; an earlier one is loaded on demand, and proven too.
        assert (await host.policy(1).complete(ASK)).policy_version == 1

    host.inner.sampler.unload_adapter(f"{host.model.name}@1")
    opened(host, resume, step=2)


def test_stale_weights_stop_the_run(host: LocalHostWithoutART) -> None:
    async def work() -> None:
        host.inner.stale = True
        with pytest.raises(StopPlaying, match="other weights than those of step 1") as stopped:
            await host.train(groups(), 0)
        message = str(stopped.value)
        assert "differ by" in message and "\n" not in message
        assert "give the same command again" in message

    opened(host, work)


def test_a_server_that_dies_after_training_stops_the_run(host: LocalHostWithoutART) -> None:
    async def work() -> None:
        host.inner.after_training = host.inner.sampler._finalizer
        # Not as an error that is retried: the step is done, and would be done twice.
        with pytest.raises(StopPlaying, match="give the same command again"):
            await host.train(groups(), 0)

    opened(host, work)


def test_what_cannot_be_proven_is_refused_before_art_starts(
    host: LocalHostWithoutART, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []

    async def register(model: Any) -> None:
        started.append(True)

    host.inner.register = register  # type: ignore[method-assign]
    foreign = shutil.copytree(host._base_model, tmp_path / "foreign")
    config = json.loads((foreign / "config.json").read_text())
    (foreign / "config.json").write_text(json.dumps(config | {"model_type": "mamba"}))
    for base, error, words in (
        (f"{foreign}", UsageError, "mamba"),
        ("nobody/nothing", ArenaError, "--base-model nobody/nothing: cannot be fetched"),
    ):
        host._base_model = base
        with pytest.raises(error, match=words) as refused:
            asyncio.run(host.open(0))
        assert "\n" not in str(refused.value)
    assert not started
