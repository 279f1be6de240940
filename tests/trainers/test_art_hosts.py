"""ART's own hosts: how a config becomes arguments, which host is chosen, and what each needs.

The serverless host runs on ART's real ServerlessBackend against a loopback server that speaks its
wire API. The local host runs up to what needs a GPU.
"""

from __future__ import annotations

import ast
import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("uvicorn")
if find_spec("art") is None:
    pytest.skip("openpipe-art is not installed", allow_module_level=True)

from made_up_groups import turn
from wandb_wire import ANSWER, ENTITY, KEY, WandbWire

from arena.core.errors import ArenaError, BackendError, UsageError
from arena.llm.backend import Message, Request, Token
from arena.llm.settings import Settings
from trainers.config.config import TrainConfig, UpdateSettings
from trainers.hosts.art.art_host import UNSUPPORTED
from trainers.hosts.art.convert import update_to_art
from trainers.hosts.art.local import (
    LocalHost,
    delete_later_checkpoints,
    internal_config,
    packages_problem,
)
from trainers.hosts.art.serverless import NOT_AT_WANDB, ServerlessHost
from trainers.hosts.host import HostRequest, check_supported
from trainers.trajectory import Trajectory, TrajectoryGroup

HUB_ID = "Qwen/Qwen2.5-7B-Instruct"
ASK = Request((Message("user", "who has the rope"),), logprobs=True)


# How a config becomes arguments.

BOTH = {"learning_rate": "learning_rate"}
KNOWN = {
    "local": BOTH | {"loss": "loss_fn", "kl_coef": "kl_penalty_coef"},
    "serverless": BOTH | {"loss": "ppo"},
}
"""ART's keyword for each setting that a host supports."""
WISHES: dict[str, st.SearchStrategy[Any]] = {
    "learning_rate": st.floats(1e-7, 1.0),
    "loss": st.sampled_from(["cispo", "ppo"]),
    "kl_coef": st.floats(0, 1),
    "tokens_per_batch": st.integers(256, 99_999),
    "gradient_checkpointing": st.booleans(),
    "precision": st.sampled_from(["float32", "bf16"]),
    "entropy_coef": st.floats(0, 1),
    "credit": st.sampled_from(["", "game", "judged"]),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["local", "serverless"]),
    st.lists(st.sampled_from(sorted(WISHES)), max_size=4, unique=True),
    st.data(),
)
def test_every_wish_is_passed_or_refused(
    host: str, changed: list[str], data: st.DataObject
) -> None:
    config = TrainConfig(**{field: data.draw(WISHES[field], label=field) for field in changed})
    default = TrainConfig()
    known = KNOWN[host]
    wishes = {field for field in WISHES if getattr(config, field) != getattr(default, field)}
    if config.credit == "game":
        wishes.remove("credit")  # It is what ART does.
    unsupported = UNSUPPORTED if host == "local" else NOT_AT_WANDB
    if refused := wishes - known.keys():
        with pytest.raises(UsageError) as caught:
            check_supported(config, host, unsupported)
        said = str(caught.value)
        for field in refused:
            value = getattr(config, field)
            assert TrainConfig.spelled(field, value) in said
        assert said.startswith(f"{host} does not support: ") and "\n" not in said
        return
    check_supported(config, host, unsupported)
    arguments = update_to_art(config.update, host)
    assert arguments.keys() <= keywords_of(host)
    for field in wishes:
        value = getattr(config, field)
        assert arguments[known[field]] == (value == "ppo" if known[field] == "ppo" else value)
    assert arguments.pop("scale_rewards") is False


def test_every_setting_of_an_update_is_passed_or_refused() -> None:
    update = UpdateSettings.model_fields.keys()
    assert update <= KNOWN["local"].keys() | UNSUPPORTED.keys()
    assert update <= KNOWN["serverless"].keys() | NOT_AT_WANDB.keys()


def keywords_of(host: str) -> set[str]:
    """ART's own keywords, from its source: art.local must not be imported here."""
    spec = find_spec("art")
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).with_name(host) / "backend.py"
    train = next(
        node
        for node in ast.walk(ast.parse(source.read_text("utf-8")))
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "train"
    )
    return {each.arg for each in train.args.kwonlyargs}


# Which host, and what it needs.


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_API_KEY", "WANDB_ENTITY", "ARENA_SERVERLESS_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def request_of(folder: Path, **config: Any) -> HostRequest:
    return HostRequest(TrainConfig(**config), folder / "run", Settings.load())


def plain_machine() -> None:
    if not packages_problem():
        pytest.skip("openpipe-art[backend] is installed here")


def test_local_says_all_that_is_missing_in_one_line(empty_folder: Path) -> None:
    plain_machine()
    with pytest.raises(UsageError) as caught:
        LocalHost(request_of(empty_folder, base_model="scratch")).preflight()
    said = str(caught.value)
    assert "\n" not in said
    assert "there is no CUDA device" in said or "torch is not installed" in said
    assert "openpipe-art[backend]" in said and "unsloth" in said and "[gpu]'" in said
    assert "from scratch" in said
    assert "art.local" not in sys.modules


def test_local_refuses_what_it_cannot_do(empty_folder: Path) -> None:
    wishes = {"server": "http://a", "device": "cpu", "gradient_checkpointing": True}
    with pytest.raises(
        UsageError, match=r"--server http://a .*--set gradient_checkpointing=true.*--device cpu"
    ):
        LocalHost(request_of(empty_folder, **wishes))._check_settings()
    with pytest.raises(
        UsageError, match="--trainer-host local does not support: --set precision=bf16"
    ):
        LocalHost(request_of(empty_folder, precision="bf16"))._check_settings()
    LocalHost(request_of(empty_folder, kl_coef=0.1, loss="ppo"))._check_settings()
    with pytest.raises(ArenaError, match="not open"):
        _ = LocalHost(request_of(empty_folder)).model


def test_the_adapter_is_as_large_as_was_asked_for() -> None:
    config = TrainConfig(lora_rank=20, max_context_tokens=3000)
    internal = internal_config(config)
    assert internal["peft_args"] == {"r": 20, "lora_alpha": 16}
    assert internal["engine_args"]["max_lora_rank"] == 32
    assert internal["init_args"]["max_seq_length"] == 4096
    assert internal_config(TrainConfig())["peft_args"]["r"] == 8


def test_a_local_run_goes_back_to_what_was_finished(tmp_path: Path) -> None:
    for name in ("0000", "0002", "0003", "0010", "3.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").touch()
    delete_later_checkpoints(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000", "0002", "3.tmp"]
    with pytest.raises(ArenaError, match="step 3 are not in"):
        delete_later_checkpoints(tmp_path, 3)


# The serverless host, on ART's own class.


@pytest.fixture
def wire(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbWire]:
    with WandbWire() as server:
        monkeypatch.setenv("WANDB_API_KEY", KEY)  # With it, ART by itself would report to wandb.ai.
        (empty_folder / ".env").write_text(f"ARENA_SERVERLESS_URL={server.url}\n")
        yield server


def with_host(
    folder: Path, do: Callable[[ServerlessHost], Awaitable[None]], step: int = 0, **config: Any
) -> int:
    """Open a serverless host that stands at `step`, do something with it, and close it."""
    host = ServerlessHost(request_of(folder, project="clue", **config))

    async def run() -> int:
        host.preflight()
        opened = await host.open(step)
        try:
            await do(host)
        finally:
            await host.close()
        return opened

    return asyncio.run(run())


def groups() -> list[TrajectoryGroup]:
    """Two groups of two trajectories, each with an opponent's words and a turn."""
    asked = Message("user", "who has the rope")
    said = [asked, Message("assistant", "I pass"), asked]
    answer = turn("suggest Rope", (7, 8, 9), [-0.5] * 3, messages=said)
    played = tuple(Trajectory((answer,), reward) for reward in (0.0, 1.0))
    return [TrajectoryGroup(played), TrajectoryGroup(played)]


def test_a_run_on_the_real_serverless_backend(wire: WandbWire, empty_folder: Path) -> None:
    async def run(host: ServerlessHost) -> None:
        assert (host.model.entity, host.model.project) == (ENTITY, "clue")
        newest = host.policy()
        first = await newest.complete(ASK)
        assert first.policy_version == 0
        assert first.choice.tokens[0] == Token(7, ANSWER[0], 0.0)
        assert first.prompt_token_ids == (1, 2, 3)
        metrics = await host.train(groups(), 0)
        assert await host.model.get_step() == 1
        assert metrics["loss/train"] == 0.5 and metrics["loss/grad_norm"] == 0.25
        assert (await newest.complete(ASK)).policy_version == 1
        assert (await host.policy(0).complete(ASK)).policy_version == 0
        wire.steps |= {2, 3, 4}
        await host.keep({0, 3})
        assert wire.steps == {0, 3, 4}
        assert (await newest.complete(ASK)).policy_version == 4
        with pytest.raises(UsageError, match=r"step 1 \(kept: 0, 3, 4\)"):
            host.policy(1)
        assert host.checkpoint(4) is None

    assert with_host(empty_folder, run, experiment_name="m", loss="ppo") == 0
    assert wire.model["base_model"] == "OpenPipe/Qwen3-14B-Instruct"
    job = wire.jobs[0]
    assert job["experimental_config"]["ppo"] is True
    assert [len(group["trajectories"]) for group in job["trajectory_groups"]] == [2, 2]
    trained = job["trajectory_groups"][1]["trajectories"][1]["messages_and_choices"][3]
    assert [row["token"] for row in trained["logprobs"]["content"]] == [
        "token_id:7", "token_id:8", "token_id:9",
    ]  # fmt: skip
    names = [chat["model"].rpartition("/")[2] for chat in wire.chats]
    assert names == ["m:step0", "m:step1", "m:step0", "m:step4"]
    assert all(chat["logprobs"] and chat["return_token_ids"] for chat in wire.chats)
    assert sorted(wire.deleted) == [1, 2]
    assert KEY not in json.dumps([wire.jobs, wire.chats])


def test_a_job_that_failed_or_was_lost_is_one_line(wire: WandbWire, empty_folder: Path) -> None:
    wire.endings.extend(["training_failed", "unavailable", "lost"])
    faults: list[BackendError] = []

    async def run(host: ServerlessHost) -> None:
        for _ in range(3):
            with pytest.raises(BackendError) as caught:
                await host.train(groups(), 0)
            faults.append(caught.value)

    with_host(empty_folder, run)
    failed, unavailable, lost = faults
    assert "CUDA out of memory at trainer.py" in str(failed)
    assert "no trainer is free" in str(unavailable)
    assert "not known whether the job is still running" in str(lost)
    for fault in faults:
        assert "\n" not in str(fault) and KEY not in str(fault)
        assert fault.__cause__ is None and fault.__context__ is None
    # The same command continues from the step that the lost job has trained.
    assert with_host(empty_folder, nothing, step=0) == 1


async def nothing(host: ServerlessHost) -> None:
    """Do nothing with an open host."""


def test_a_wrong_key_and_a_dead_server(
    wire: WandbWire, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    url = wire.url
    (empty_folder / ".env").write_text(f"WANDB_API_KEY=wrong-0123\nARENA_SERVERLESS_URL={url}\n")
    with pytest.raises(
        BackendError, match=r"answered 401: the key .*is WANDB_API_KEY right"
    ) as key:
        with_host(empty_folder, nothing)
    assert key.value.cause == "authentication"
    assert "wrong-0123" not in str(key.value)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        (empty_folder / ".env").write_text(f"WANDB_API_KEY={KEY}\nARENA_SERVERLESS_URL={dead}\n")
        with pytest.raises(BackendError, match=f"no answer from {dead}") as gone:
            with_host(empty_folder, nothing)
    assert "\n" not in str(gone.value)


def test_a_run_goes_on_from_where_it_stands(wire: WandbWire, empty_folder: Path) -> None:
    async def newest(host: ServerlessHost) -> None:
        assert (await host.policy().complete(ASK)).policy_version == 5

    wire.steps = {0, 3, 5}
    assert with_host(empty_folder, newest, step=5) == 5
    assert with_host(empty_folder, newest, step=3) == 5  # A job ended after the run was killed.
    with pytest.raises(ArenaError, match=r"only up to step 5, but the run is at step 7"):
        with_host(empty_folder, newest, step=7)


def test_serverless_says_what_is_missing_and_refuses_the_rest(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"here: WANDB_API_KEY is not set.*; and .*clue-tiny"):
        ServerlessHost(request_of(empty_folder, base_model="clue-tiny")).preflight()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    wishes = {"kl_coef": 0.1, "entropy_coef": 2.0}
    with pytest.raises(
        UsageError,
        match=r"--trainer-host serverless does not support: --kl-coef 0.1 .*entropy_coef",
    ):
        ServerlessHost(request_of(empty_folder, **wishes)).preflight()
    with pytest.raises(UsageError, match=r"--credit judged \(ART gives each game one advantage"):
        ServerlessHost(request_of(empty_folder, credit="judged")).preflight()
    ServerlessHost(request_of(empty_folder, credit="game")).preflight()
    with pytest.raises(UsageError, match=r"--lora-rank 4 .*--set precision=bf16"):
        ServerlessHost(request_of(empty_folder, lora_rank=4, precision="bf16")).preflight()
