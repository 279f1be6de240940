"""Adapters of `arena serve`, the weights that answer, and what its sampler does meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from arena_server import CHAT, NAME
from command_line import wait_until
from safetensors.torch import load_file
from tiny_model import build_tiny_model, write_adapter
from trajectory_servers import serving
from transformers import Qwen3ForCausalLM

from arena.llm.backend import Completion, Message, Request, Sampling
from arena.llm.settings import Settings
from backends.embedded.sampler import Sampler
from backends.openai_http import HTTPBackend
from backends.server import ServeOptions
from backends.server.app import make_app


@dataclass(frozen=True)
class ServedSampler:
    """`arena serve` in this process, on the loopback interface."""

    url: str
    sampler: Sampler
    client: Any

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        content = None if body is None else json.dumps(body)
        if content is not None:
            headers = {"Content-Type": "application/json"} | headers
        return self.client.post(path, content=content, headers=headers)

    def load(self, name: str, path: str, **fields: Any) -> Any:
        body = {"lora_name": name, "lora_path": path, **fields}
        return self.post("/v1/load_lora_adapter", body)

    def complete(self, model: str = "") -> Any:
        body = {"model": model, "messages": CHAT, "max_tokens": 6, "n": 2, "seed": 3,
                "logprobs": True, "return_token_ids": True}  # fmt: skip
        answer = self.post("/v1/chat/completions", body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / NAME, layers=2, width=64)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    root = tmp_path_factory.mktemp("adapters") / "root"
    root.mkdir()
    for step in (1, 2, 3):
        write_adapter(root / f"adapter_step_{step}", folder, seed=step)
    return root


@pytest.fixture
def server(folder: Path, root: Path) -> Iterator[ServedSampler]:
    yield from run_server(folder, root)


def run_server(folder: Path, root: Path | None, **options: Any) -> Iterator[ServedSampler]:
    sampler = Sampler(folder, slots=4, threads=1, context_length=256)
    app = make_app(sampler, ServeOptions(lora_root=root, **options), key=None)
    # Without certificates, whose loading takes longer than a request.
    with serving(app) as url, httpx.Client(base_url=url, timeout=60, verify=False) as client:
        yield ServedSampler(url, sampler, client)
    sampler._finalizer()


@pytest.fixture(scope="module")
def shared(folder: Path, root: Path) -> Iterator[ServedSampler]:
    """A server whose adapters no test changes."""
    yield from run_server(folder, root)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    return Qwen3ForCausalLM.from_pretrained(folder)


def logprobs_of(reference: Any, ids: list[int], adapter: Path | None = None) -> torch.Tensor:
    """The log-probabilities [position, vocabulary] after each token, by transformers."""
    weight = reference.model.layers[0].mlp.down_proj.weight.data
    before = weight.clone()
    if adapter is not None:
        down, up = load_file(adapter / "adapter_model.safetensors").values()
        weight += 2 * up @ down  # alpha / r = 4 / 2
    try:
        with torch.inference_mode():
            return torch.log_softmax(reference(torch.tensor([ids])).logits[0].double(), -1)
    finally:
        weight.copy_(before)


def check_weights(answer: Any, reference: Any, adapter: Path | None) -> None:
    """Check that each choice's log-probabilities are those of these weights."""
    prompt = answer["prompt_token_ids"]
    for choice in answer["choices"]:
        expected = logprobs_of(reference, [*prompt, *choice["token_ids"]], adapter)
        scores = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        for place, (token, score) in enumerate(zip(choice["token_ids"], scores, strict=True)):
            assert abs(score - expected[len(prompt) - 1 + place][token]) < 1e-4


def test_an_adapter_answers_by_its_name_and_the_newest_by_another(
    server: ServedSampler, reference: Any, root: Path
) -> None:
    for name in ("", NAME, f"{NAME}@newest"):
        check_weights(server.complete(name), reference, None)
    assert server.load("step_1", str(root / "adapter_step_1")).status_code == 200
    assert "already been loaded" in server.load("step_1", "adapter_step_2").text
    assert server.load("step_2", "adapter_step_2").status_code == 200
    check_weights(server.complete("step_1"), reference, root / "adapter_step_1")
    check_weights(server.complete(f"{NAME}@newest"), reference, root / "adapter_step_2")
    check_weights(server.complete(NAME), reference, None)
    assert server.load("step_1", "adapter_step_3", load_inplace=True).status_code == 200
    check_weights(server.complete("step_1"), reference, root / "adapter_step_3")
    assert server.complete(f"{NAME}@newest")["model"] == "step_1"
    assert server.post("/v1/unload_lora_adapter", {"lora_name": "step_1"}).status_code == 200
    check_weights(server.complete(f"{NAME}@newest"), reference, None)
    assert server.sampler.adapters == ("step_2",)


def test_chats_reach_the_newest_adapter_by_name(server: ServedSampler) -> None:
    limits = Settings.model_validate({}).service.limits("http")
    backend = HTTPBackend(f"{server.url}/v1", f"{NAME}@newest", limits, None)
    ask = Request((Message("user", "who did it"),), Sampling(max_tokens=4, temperature=0.0))

    async def before_and_after() -> tuple[Completion, Completion]:
        try:
            base = await backend.complete(ask)
            loaded = await asyncio.to_thread(server.load, "step_2", "adapter_step_2")
            assert loaded.status_code == 200
            return base, await backend.complete(ask)
        finally:
            await backend.close()

    base, newest = asyncio.run(before_and_after())
    assert (base.model, base.policy_version) == (NAME, None)
    # The name by which Atropos' trainer calls its step is the version of the weights.
    assert (newest.model, newest.policy_version) == ("step_2", 2)
    assert newest.choice.text != base.choice.text


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "lora_name", "a value is missing"),
        ({"lora_name": "a", "lora_path": 3}, "lora_path", "give a text"),
        ({"lora_name": "a", "lora_path": "b", "odd": 1}, "odd", "does not support it"),
        ({"lora_name": NAME, "lora_path": "adapter_step_1"}, "lora_name", "of the base model"),
    ],
)
def test_bad_requests_are_answered_with_field_and_reason(
    shared: ServedSampler, body: Any, param: str, words: str
) -> None:
    answer = shared.post("/v1/load_lora_adapter", body)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == param and words in error["message"]


def test_without_a_root_no_adapter_can_be_loaded(folder: Path) -> None:
    for server in run_server(folder, None):
        for verb, body in (("load", {"lora_path": "adapter_step_1"}), ("unload", {})):
            answer = server.post(f"/v1/{verb}_lora_adapter", {"lora_name": "a", **body})
            assert answer.status_code == 403 and "--lora-root" in answer.text


def test_the_oldest_adapters_make_room(folder: Path, root: Path) -> None:
    for server in run_server(folder, root, max_adapters=2):
        for step in (1, 2, 3):
            assert server.load(f"step_{step}", f"adapter_step_{step}").status_code == 200
            assert len(server.sampler.adapters) == min(step, 2)
        assert server.sampler.adapters == ("step_2", "step_3")
        # A replaced one is the newest, whatever its place was.
        server.load("step_2", "adapter_step_1", load_inplace=True)
        assert set(server.sampler.adapters) == {"step_2", "step_3"}
        server.load("new", "adapter_step_2")
        assert set(server.sampler.adapters) == {"step_3", "new"}


# The sampler


def test_a_client_that_leaves_stops_its_answer(shared: ServedSampler) -> None:
    batcher = shared.sampler._batcher
    long = {"messages": CHAT, "n": 12, "max_tokens": 200, "min_tokens": 200}

    def left_in_the_middle() -> bool:
        with shared.client.stream(
            "POST", "/v1/chat/completions", json=long | {"stream": True}
        ) as s:
            next(s.iter_lines())
            return bool(batcher.running)

    # The answer is over soon, so that this process may be too late to leave before its end.
    wait_until(left_in_the_middle)
    wait_until(lambda: not batcher.running)
    with pytest.raises(httpx.ReadTimeout):
        shared.client.post("/v1/chat/completions", json=long, timeout=httpx.Timeout(60, read=0.1))
    wait_until(lambda: not (batcher.running or batcher.waiting))
