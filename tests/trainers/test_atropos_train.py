"""The trainer of the trajectory API: batches into weights, and the weights into a server."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
torch = pytest.importorskip("torch")
pytest.importorskip("uvicorn")
if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from sampled_groups import sampled_groups  # noqa: E402
from small_runs import Notes  # noqa: E402
from test_adapter_server import ModelServer  # noqa: E402
from test_atropos_environment import OPTIONS, player, together  # noqa: E402
from tiny_model import build_tiny_model  # noqa: E402
from trajectory_servers import (  # noqa: E402
    SERVERS,
    STOCK,
    Api,
    each_api,
    own_api,
    queue_api,
    stock_api,
)

from arena.core.errors import ArenaError, StopPlaying  # noqa: E402
from arena.llm.settings import Settings  # noqa: E402
from backends.openai_http import HTTPBackend  # noqa: E402
from trainers.atropos import environment  # noqa: E402
from trainers.atropos.client import TrajectoryClient  # noqa: E402
from trainers.atropos.environment import TrajectoryEnvironment  # noqa: E402
from trainers.atropos.group_player import NewestModel  # noqa: E402
from trainers.atropos.options import BatchOptions  # noqa: E402
from trainers.atropos.trainer import BatchTrainer  # noqa: E402
from trainers.config.config import TrainConfig  # noqa: E402
from trainers.hosts.embedded import EmbeddedHost  # noqa: E402
from trainers.hosts.host import HostRequest  # noqa: E402
from trainers.runs.records import RunFiles, StepRecord, read_records  # noqa: E402
from trainers.runs.training_run import TrainingRun  # noqa: E402

SETTINGS = Settings.model_validate({"service": {"patience": 1}})
CONTEXT = 2048


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return build_tiny_model(
        folder, layers=1, width=32, heads=2, head_dim=16, inner=64, context=CONTEXT
    )


@pytest.fixture
def server(model: Path, tmp_path: Path, one_thread: None) -> Iterator[ModelServer]:
    served = ModelServer(model, tmp_path)
    yield served
    served.stop()


@pytest.fixture
def api() -> Api:
    return own_api()


@pytest.fixture(params=SERVERS)
def any_api(request: pytest.FixtureRequest) -> Iterator[Api]:
    yield from each_api(request.param)


@dataclass
class Run:
    """One run of the trainer, which may be started several times."""

    api: Api
    server: ModelServer
    model: Path
    folder: Path
    view: Notes = field(default_factory=Notes)
    batch_size: int = 4
    options: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    @asynccontextmanager
    async def trainer(self, **config: Any) -> AsyncIterator[BatchTrainer]:
        values: dict[str, Any] = {"learning_rate": 0.01}
        values |= {"loss": "ppo", "steps": 2}
        made = TrainConfig(
            game="atropos", experiment_name="run", trainer_host="embedded",
            server=self.server.url, base_model=str(self.model),
            **values | self.config | config,
        )  # fmt: skip
        options = BatchOptions(batch_size=self.batch_size, accumulation=1, **self.options)
        host = EmbeddedHost(HostRequest(made, self.folder, SETTINGS))
        host.preflight()
        client = self.api.client(patience=1.0, notify=self.view.notify)
        yield BatchTrainer(made, options, host, client, self.folder, self.view)

    def complete(self, push: Pushing | None = None, **config: Any) -> None:
        """Run the trainer to its end; `push` gets a client once the trainer is registered."""

        async def work() -> None:
            async with self.trainer(**config) as trainer:
                training = asyncio.ensure_future(trainer.complete())
                if push is not None:
                    client = self.api.client()
                    try:
                        await self.registered(training)
                        await push(client)
                    finally:
                        await client.close()
                await asyncio.wait_for(training, 120)

        asyncio.run(work())

    async def registered(self, training: asyncio.Future[Any]) -> None:
        client = self.api.client()
        try:
            while not training.done() and (await client.info()).batch_size < 0:
                await asyncio.sleep(0.02)
        finally:
            await client.close()

    def records(self) -> list[StepRecord]:
        return read_records(RunFiles(self.folder).metrics)

    def adapters(self) -> list[str]:
        return sorted(self.server.sampler.adapters)


Pushing = Callable[[TrajectoryClient], Awaitable[None]]


@pytest.fixture
def run(api: Api, server: ModelServer, model: Path, tmp_path: Path) -> Run:
    return Run(api, server, model, tmp_path / "run")


def pushes(groups: list[dict[str, Any]]) -> Pushing:
    """Push groups as they are, without the checks of the client."""

    async def push(client: TrajectoryClient) -> None:
        for group in groups:
            await client._call("POST", "/scored_data", json.dumps(group))

    return push


def test_environment_trainer_and_server_together(
    any_api: Api,
    server: ModelServer,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Real parts: games are played by a server whose weights the trainer replaces."""
    monkeypatch.setattr(environment, "POLL_SECONDS", 0.01)
    run = Run(any_api, server, model, tmp_path / "run")

    async def work() -> None:
        limits = SETTINGS.service.limits("http")
        newest = NewestModel(HTTPBackend(f"{server.url}/v1", "", limits, None))
        client = any_api.client()
        playing = TrajectoryEnvironment(
            client, player(newest, self_play=True, max_tokens=4), OPTIONS, lambda _: None
        )
        async with run.trainer() as trainer:

            async def train() -> None:
                await asyncio.wait_for(trainer.complete(), 120)

            await together(playing, train)
        assert playing.counts.games and newest.model in {"tiny", "run@1", "run@2"}
        await newest.close()
        await client.close()

    asyncio.run(work())
    first, second = run.records()
    # The rows are those of these weights, to rounding: nothing was tokenised again.
    assert first.update["kl"] < 1e-6
    for record in first, second:
        assert record.update["swap_difference"] < 1e-4 < record.update["grad_norm"]
        # Two groups of two games, or two parts of the same games.
        assert record.games in (2, 4) and record.groups.trained == 2
    assert first.update["swap_moved"] > 1e-3
    assert first.update["staleness_max"] == 0
    assert run.adapters() == ["run@2"] and run.view.said == []
    state = json.loads((run.folder / "run.json").read_text())
    assert (state["step"], state["status"]) == (2, "finished")


def test_bad_groups_are_left_out_and_training_goes_on(run: Run) -> None:
    good = sampled_groups(run.server.url, 4)
    outside = json.loads(json.dumps(good[3]))
    outside["tokens"][0][-1] = outside["masks"][0][-1] = 99_999
    bad = [
        {name: value for name, value in good[2].items() if name != "inference_logprobs"},
        outside,
    ]
    run.batch_size = 8
    run.complete(pushes([*good[:2], *bad]), steps=1)
    (record,) = run.records()
    assert (record.groups.trained, record.groups.refused) == (2, 2)
    first, second = record.warnings
    assert first.startswith("no inference_logprobs")
    assert "id 99999 is outside of the vocabulary" in second


def test_a_batch_without_any_good_group_ends_the_run(run: Run) -> None:
    groups = sampled_groups(run.server.url, 4)
    for group in groups[:2]:
        group["inference_logprobs"] = None
    with pytest.raises(
        ArenaError, match="all 2 groups of the batch of step 1 were refused.*no inf"
    ):
        run.complete(pushes(groups), steps=1)
    assert run.records() == [] and run.adapters() == []
    # The next batch of the queue is good.
    run.complete(steps=1)
    assert run.adapters() == ["run@1"]


def test_old_and_equal_groups_are_left_out_and_the_age_is_recorded(run: Run) -> None:
    groups = sampled_groups(run.server.url, 4)
    old = groups[2] | {"group_overrides": {"arena": {"policy_version": 0}}}
    equal = groups[3] | {"scores": [1.0, 1.0], "group_overrides": None}
    run.options = {"max_staleness": 0}
    run.complete(pushes([groups[0], groups[1], old, equal]))
    first, second = run.records()
    assert first.groups.trained == 2 and first.update["staleness"] == 0
    assert (second.groups.stale, second.groups.no_variance, second.groups.trained) == (1, 1, 0)
    assert second.update["staleness_max"] == 1
    assert "step 2 does not change the weights: no row has an advantage" in run.view.said
    assert second.update["swap_moved"] == 0


def test_a_resumed_run_continues_with_the_optimizer_and_at_the_server(run: Run) -> None:
    groups = sampled_groups(run.server.url, 4)
    run.complete(pushes(groups), steps=1)
    run.server.restart()
    run.complete(steps=2)
    assert run.adapters() == ["run@2"]
    assert [record.step for record in run.records()] == [1, 2]
    # The server keeps the first registration, whose id the resumed run has kept, too.
    assert run.api.own.registrations == 2 and run.api.own.step == 2
    moments = run.folder / "checkpoints/0002/optimizer.state"
    from safetensors.torch import load_file

    assert {float(t) for n, t in load_file(moments).items() if n.endswith("/step")} == {2.0}


def test_a_second_run_at_the_same_api_is_refused(
    any_api: Api, server: ModelServer, model: Path, tmp_path: Path
) -> None:
    groups = sampled_groups(server.url, 4)
    first = Run(any_api, server, model, tmp_path / "run")
    first.complete(pushes(groups), steps=1)
    # Same name and sizes: the groups in the queue are another run's all the same.
    second = Run(any_api, server, model, tmp_path / "other")
    with pytest.raises(ArenaError, match="still holds .*; reset it"):
        second.complete(steps=1)
    assert second.records() == []


def test_a_reset_ends_the_run_and_the_same_command_continues_it(run: Run) -> None:
    async def push(client: TrajectoryClient) -> None:
        await client._call("GET", "/reset_data")

    with pytest.raises(ArenaError, match="the same command continues the run"):
        run.complete(push, steps=1)
    run.complete(pushes(sampled_groups(run.server.url, 2)), steps=1)
    assert [record.groups.trained for record in run.records()] == [2]


@pytest.mark.atropos
@pytest.mark.skipif(STOCK not in os.environ, reason=f"{STOCK} is not set")
def test_faults_of_the_stock_server(server: ModelServer, model: Path, tmp_path: Path) -> None:
    sampled = sampled_groups(server.url, 5, 2)
    with stock_api() as url:
        run = Run(Api(url), server, model, tmp_path / "lost")
        nan = sampled[0] | {"scores": [float("nan"), 1.0]}

        async def push(client: TrajectoryClient) -> None:
            # Two batches: NaN costs the first one, and the run goes on with the second.
            body = json.dumps([nan, sampled[1]])
            await client._call("POST", "/scored_data_list", body)
            while not any("the batch is lost" in line for line in run.view.said):
                await asyncio.sleep(0.05)
            await pushes(sampled[2:4])(client)

        run.complete(push, steps=1)
        assert [record.step for record in run.records()] == [1]
    with stock_api() as url:
        client = httpx.Client(trust_env=False, timeout=60)
        client.post(f"{url}/scored_data", json=sampled[0])
        run = Run(Api(url), server, model, tmp_path / "early")
        with pytest.raises(ArenaError, match="accepts a trainer and forgets it"):
            run.complete(steps=1)
        client.close()


def test_servers_that_go_away(run: Run) -> None:
    sampled = sampled_groups(run.server.url, 4)

    async def push(client: TrajectoryClient) -> None:
        await pushes(sampled[:2])(client)
        # Not only for the adapter: the server must still prove its weights.
        while not run.records():
            await asyncio.sleep(0.02)
        run.server.stop()
        await pushes(sampled[2:])(client)

    with pytest.raises(StopPlaying, match="nothing answers at .*give the same command again"):
        run.complete(push)
    state = json.loads((run.folder / "run.json").read_text())
    assert state["step"] == 1
    # The resumed run repeats the step with the next batch.
    run.server.start()
    run.complete(pushes(sampled_groups(run.server.url, 2)))
    assert [record.step for record in run.records()] == [1, 2] and run.adapters() == ["run@2"]
    gone = Run(Api("http://127.0.0.1:9"), run.server, run.model, run.folder.parent / "gone")
    with pytest.raises(ArenaError, match="is the trajectory API running there"):
        gone.complete(steps=1)
    assert any("trying again for 1 s" in line for line in gone.view.said)


def test_the_command_trains_and_refuses_in_one_line(
    run: Run, api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from arena.cli import run as arena

    command = [
        "atropos", "train", "--model-name", str(run.model), "--server", run.server.url,
        "--batch-size", "2", "--gradient-accumulation-steps", "2", "--training-steps", "1",
        "--save-path", str(tmp_path), "--experiment-name", "run", "--patience", "0",
        "--lr", "1e-2", "--clip-eps", "0.2",
    ]  # fmt: skip
    refusals = {
        ("--atropos-url", "http://127.0.0.1:9"): (1, "is the trajectory API running there?"),
        ("--weight-bridge-mode", "none"): (2, "only the run's own server is restarted"),
        ("--weight-bridge-mode", "ssh"): (2, "lora_only, lora_restart or none"),
        ("--weight-bridge-mode", "shared_vllm", "--lora-r", "8"): (2, "trains all weights"),
        ("--set", "executor=ray"): (2, "--set executor=ray: without effect, since environments"),
        ("--set", "eval_games=9"): (2, "--set eval_games=9: without effect"),
        ("--model-name", "unknown"): (2, "nor a folder with a config.json"),
    }
    for more, (code, text) in refusals.items():
        assert arena([*command, *more]) == code
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("arena: ") and text in error
    with queue_api() as url:
        groups = sampled_groups(run.server.url, 2)
        client = httpx.Client(base_url=url, trust_env=False, timeout=60)

        def push() -> None:
            while client.get("/info").json()["batch_size"] < 0:
                time.sleep(0.05)
            client.post("/scored_data_list", json=groups)

        pushing = threading.Thread(target=push)
        pushing.start()
        assert arena([*command, "--atropos-url", url, "--json"]) == 0
        pushing.join()
        client.close()
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["step"], result["status"]) == (1, "finished")
    assert Path(result["checkpoint"]).joinpath("adapter", "adapter_model.safetensors").exists()
    stored = TrainingRun.read(tmp_path / "run")
    assert (stored.status, stored.state.step, stored.fault) == ("finished", 1, "")
