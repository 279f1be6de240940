"""The stock trainer of atroposlib 0.4.0 on a CPU: run-api, our environment, `arena serve`.

The trainer and the environment's client are unchanged; `make test-atropos` installs them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("torch")
pytest.importorskip("uvicorn")

import torch  # noqa: E402
from arena_server import Server, greeted, start  # noqa: E402
from command_line import started  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from trajectory_servers import STOCK, stock_api  # noqa: E402
from transformers import Qwen3ForCausalLM  # noqa: E402

from backends.embedded import find_checkpoint  # noqa: E402

pytestmark = pytest.mark.atropos
MODEL = "clue-tiny"
STEPS = 3
"""The groups of the third batch start when the second was taken, so after the first update."""
RANK, ALPHA = 8, 32
PACKAGES = ("aiohttp", "openai", "peft", "pydantic_cli", "torch", "transformers", "wandb")
"""Of the trainer, and of the client of stock environments."""


def stock_python() -> Path:
    """The interpreter with the trainer's own dependencies. Skips the test without one."""
    if STOCK not in os.environ:
        pytest.skip(f"{STOCK} is not set")
    python = Path(os.environ[STOCK]).absolute()
    code = (
        "import sys, importlib.util as u; print(*(p for p in sys.argv[1:] if not u.find_spec(p)))"
    )
    command = [str(python), "-c", code, *PACKAGES]
    missing = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if missing:
        pytest.skip(f"{STOCK}: not installed there: {missing}")
    return python


@dataclass(frozen=True)
class TrainedRun:
    """A run of the stock trainer that has ended, with the model server still up."""

    trainer: subprocess.CompletedProcess[str]
    environment: str
    """Its output."""
    server: Server
    latest: Any
    """The group that was queued last, from the stock API."""
    adapters: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrainedRun]:
    python, folder = stock_python(), tmp_path_factory.mktemp("stock")
    adapters = folder / "adapters"
    adapters.mkdir()
    flags = ["--port", "0", "--lora-root", str(adapters), "--max-adapters", "2"]
    serving = start(MODEL, *flags)
    try:
        with stock_api() as api:
            server = greeted(serving)
            playing = started(
                "atropos serve cluedo --players 3 --text-level deductions "
                f"--rollout-server-url {api} --openai.base_url {server.url}/v1 "
                f"--openai.model_name {MODEL}@newest --env.group_size 2 --env.total_steps -1 "
                "--env.max_token_length 8192 --env.max_num_workers_per_node 2 "
                "--env.max_batches_offpolicy 1 --env.no-ensure_scores_are_not_same",
                folder,
            )
            try:
                trainer = train(python, api, server, adapters)
                latest = httpx.get(f"{api}/latest_example", trust_env=False).json()
            finally:
                playing.send_signal(signal.SIGTERM)
                output = "".join(playing.communicate(timeout=60))
            # The environment ends by itself once the trainer has, or by the signal.
            assert playing.returncode in {0, 128 + signal.SIGTERM}, output
            yield TrainedRun(trainer, output, server, latest, adapters)
    finally:
        serving.kill()
        serving.communicate()


def train(
    python: Path, api: str, server: Server, adapters: Path
) -> subprocess.CompletedProcess[str]:
    """Run `atropos-grpo` to its end; only flags and variables fit it to a CPU."""
    command = [
        python.with_name("atropos-grpo"), "--model-name", find_checkpoint(MODEL),
        "--weight-bridge-mode", "lora_only", "--device", "cpu", "--optimizer", "adamw",
        "--training-steps", STEPS, "--batch-size", 2, "--gradient-accumulation-steps", 2,
        "--seq-len", 8192, "--lr", "0.005", "--lora-r", RANK, "--lora-alpha", ALPHA,
        "--vllm-port", server.url.rpartition(":")[2], "--vllm-restart-interval", 1,
        "--atropos-url", api, "--save-path", adapters,
    ]  # fmt: skip
    quiet = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [str(word) for word in command],
        env=os.environ | quiet,
        cwd=adapters.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )


def test_the_trainer_runs_to_its_end(run: TrainedRun) -> None:
    output = run.trainer.stdout
    assert run.trainer.returncode == 0, output[-3000:]
    assert "Training finished." in output and "Hot-swap failed" not in output
    names = [*(f"adapter_step_{step}" for step in range(1, STEPS + 1)), "final_adapter"]
    assert all((run.adapters / name / "adapter_config.json").is_file() for name in names)
    # The mean of the trainer's probability over ours, on the sampled tokens of the first batch: its
    # rows are what was sampled. Its weights are bfloat16, with dropout in the adapter.
    ratios = [float(ratio) for ratio in re.findall(r"ratio=([\d.]+)", output)]
    assert len(ratios) == STEPS and abs(ratios[0] - 1) < 0.05


def test_the_adapter_arrived_and_answers(run: TrainedRun) -> None:
    final = run.adapters / "final_adapter"
    listed = httpx.get(f"{run.server.url}/v1/models", trust_env=False).json()["data"]
    assert [card["id"] for card in listed] == [MODEL, f"step_{STEPS}", "final"]

    body = {"model": f"{MODEL}@newest", "messages": [{"role": "user", "content": "who did it"}],
            "logprobs": True, "max_tokens": 8, "return_token_ids": True}  # fmt: skip
    url = f"{run.server.url}/v1/chat/completions"
    answer = httpx.post(url, json=body, trust_env=False).json()
    assert answer["model"] == "final"
    prompt, (choice,) = answer["prompt_token_ids"], answer["choices"]
    served = torch.tensor([entry["logprob"] for entry in choice["logprobs"]["content"]])
    assert (served - scored(prompt, choice["token_ids"], final)).abs().max() < 1e-4
    assert (served - scored(prompt, choice["token_ids"], None)).abs().max() > 1e-3


def test_later_games_are_played_with_it(run: TrainedRun) -> None:
    facts = run.latest["group_overrides"]["arena"]
    assert facts["game"] == "cluedo" and facts["newest_policy_version"] >= 1


def scored(prompt: list[int], ids: list[int], adapter: Path | None) -> torch.Tensor:
    """The log-probabilities of the tokens after a prompt, by transformers: [tokens]."""
    model = Qwen3ForCausalLM.from_pretrained(find_checkpoint(MODEL), dtype=torch.float32)
    if adapter is not None:
        tensors = load_file(adapter / "adapter_model.safetensors")
        for name in [name for name in tensors if ".lora_A." in name]:
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            up = tensors[name.replace(".lora_A.", ".lora_B.")]
            with torch.no_grad():
                model.get_parameter(f"{module}.weight").add_(ALPHA / RANK * up @ tensors[name])
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    chosen = torch.tensor(ids)
    return torch.log_softmax(logits, -1).gather(1, chosen[:, None])[:, 0]
