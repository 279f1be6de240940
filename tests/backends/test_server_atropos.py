"""The calls of Atropos' stock trainer and environments, in their own form and order."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("torch")
pytest.importorskip("uvicorn")

import torch  # noqa: E402
from pydantic import SecretStr  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tiny_model import build_tiny_model, write_adapter  # noqa: E402
from trajectory_servers import serving  # noqa: E402
from transformers import Qwen3ForCausalLM  # noqa: E402

from arena.llm.backend import Completion, Message, Request, Sampling  # noqa: E402
from arena.llm.settings import Settings  # noqa: E402
from backends.embedded.sampler import Sampler  # noqa: E402
from backends.openai_http import HTTPBackend  # noqa: E402
from backends.server import ServeOptions  # noqa: E402
from backends.server.app import make_app  # noqa: E402

NAME = "tiny"
IDS = [5, 9, 40, 41, 17]
STOCK: dict[str, Any] = {
    "prompt": {"prompt_token_ids": IDS}, "logprobs": 0, "max_tokens": 6, "temperature": 1.0,
    "top_p": 1.0, "stop": ["User:", "Human:"],
}  # fmt: skip
"""What `VLLMServer` of atroposlib sends to `/generate`."""


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

    def generate(self, **fields: Any) -> Any:
        answer = self.post("/generate", STOCK | {"seed": 3} | fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def status(self) -> Any:
        return self.client.get("/lora/status").json()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / NAME, layers=2, width=64)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    root = tmp_path_factory.mktemp("adapters") / "root"
    root.mkdir()
    for step in (1, 2, 3):
        write_adapter(root / f"adapter_step_{step}", folder, seed=step)
    write_adapter(root.parent / "outside", folder)
    (root / "link").symlink_to(root.parent / "outside")
    (root / "empty").mkdir()
    first = root / "adapter_step_1"
    down, up = load_file(first / "adapter_model.safetensors").values()
    for name, layer, tensors in (
        ("foreign", 0, (torch.zeros(2, 7), up)),
        ("other_layers", 7, (down, up)),
    ):
        shutil.copytree(first, root / name)
        module = f"base_model.model.model.layers.{layer}.mlp.down_proj"
        named = zip(("lora_A", "lora_B"), tensors, strict=True)
        save_file(
            {f"{module}.{side}.weight": tensor for side, tensor in named},
            root / name / "adapter_model.safetensors",
        )
    config = json.loads((first / "adapter_config.json").read_text())
    shutil.copytree(first, root / "wrong_rank")
    (root / "wrong_rank" / "adapter_config.json").write_text(json.dumps(config | {"r": 4}))
    shutil.copytree(first, root / "no_rank")
    del config["r"]
    (root / "no_rank" / "adapter_config.json").write_text(json.dumps(config))
    return root


@pytest.fixture
def server(folder: Path, root: Path) -> Iterator[ServedSampler]:
    yield from run_server(folder, root)


def run_server(
    folder: Path, root: Path | None, key: SecretStr | None = None, **options: Any
) -> Iterator[ServedSampler]:
    sampler = Sampler(folder, slots=4, threads=1, context_length=256)
    app = make_app(sampler, ServeOptions(lora_root=root, **options), key=key)
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
    for ids, scores in zip(answer["token_ids"], answer["logprobs"], strict=True):
        expected = logprobs_of(reference, [*IDS, *ids], adapter)
        for place, (token, [entry]) in enumerate(zip(ids, scores, strict=True), len(IDS) - 1):
            assert int(next(iter(entry))) == token
            assert abs(next(iter(entry.values())) - expected[place][token]) < 1e-4


def test_generate_has_the_shape_of_the_stock_server(shared: ServedSampler, reference: Any) -> None:
    answer = shared.generate(n=2)
    assert set(answer) == {
        "text", "prompt", "finish_reasons", "logprobs", "prompt_token_ids", "token_ids"
    }  # fmt: skip
    assert answer["prompt_token_ids"] == IDS
    assert len(answer["text"]) == len(answer["token_ids"]) == len(answer["finish_reasons"]) == 2
    assert answer["token_ids"][0] != answer["token_ids"][1]
    assert set(answer["finish_reasons"]) <= {"stop", "length"}
    check_weights(answer, reference, None)

    # Without `logprobs` there are three fields; a text is a prompt as well, in either form.
    text = "who did it"
    for prompt in (text, {"prompt": text}):
        plain = shared.generate(prompt=prompt, logprobs=None)
        assert set(plain) == {"text", "prompt", "finish_reasons"} and plain["prompt"] == text
    more = shared.generate(logprobs=3)
    assert all(3 <= len(entry) <= 4 for [entry] in more["logprobs"][0])
    check_weights(more, reference, None)


def test_prompts_are_scored_as_the_stock_client_reads_them(
    shared: ServedSampler, reference: Any
) -> None:
    answer = shared.generate(
        logprobs=None, prompt_logprobs=2, n=1, temperature=0.0, top_p=1.0, max_tokens=1
    )
    first, *entries = answer["prompt_logprobs"]
    assert first is None and len(entries) == len(IDS) - 1
    expected = logprobs_of(reference, IDS)
    for place, (token, entry) in enumerate(zip(IDS[1:], entries, strict=True)):
        best = [str(int(each)) for each in expected[place].topk(2).indices]
        assert list(entry) == [*dict.fromkeys([str(token), *best])]
        for each, logprob in entry.items():
            assert abs(logprob - expected[place][int(each)]) < 1e-4


def test_the_newest_adapter_answers(server: ServedSampler, reference: Any, root: Path) -> None:
    nothing = {
        "lora_available": True, "active_adapter_path": None, "active_adapter_name": None,
        "active_adapter_id": None, "load_count": 0,
        "available_adapters": sorted(
            place.name for place in root.iterdir() if place.name not in {"link", "empty"}
        ),
    }  # fmt: skip
    assert server.status() == nothing
    # The trainer's first call is vLLM's, with an absolute path.
    path = str(root / "adapter_step_1")
    first = {"lora_name": "step_1", "lora_path": path}
    assert server.post("/v1/load_lora_adapter", first).status_code == 200
    check_weights(server.generate(n=2), reference, root / "adapter_step_1")
    assert server.status() == nothing | {
        "active_adapter_path": path, "active_adapter_name": "step_1", "active_adapter_id": 1,
        "load_count": 1,
    }  # fmt: skip

    # A second run has the same names: vLLM's call fails, and the trainer's own one replaces.
    assert "already been loaded" in server.post("/v1/load_lora_adapter", first).text
    second = {"adapter_path": "adapter_step_2", "adapter_name": "step_1"}
    answer = server.post("/lora/load", second)
    assert answer.status_code == 200 and answer.json() == {
        "status": "ok", **second, "adapter_id": 2, "load_count": 2,
        "adapter_config": {
            "r": 2, "lora_alpha": 4, "target_modules": ["down_proj"], "base_model": None
        },
    }  # fmt: skip
    check_weights(server.generate(), reference, root / "adapter_step_2")
    # A request may still choose.
    check_weights(server.generate(model=NAME), reference, None)

    unnamed = server.post("/lora/load", {"adapter_path": "adapter_step_3"}).json()
    assert unnamed["adapter_name"] == "adapter_2" and unnamed["adapter_id"] == 3
    check_weights(server.generate(), reference, root / "adapter_step_3")

    # Without a body, as FastAPI accepts it too.
    removed = server.post("/lora/unload")
    assert removed.json() == {
        "status": "ok", "previous_adapter": "adapter_step_3", "previous_name": "adapter_2"
    }  # fmt: skip
    check_weights(server.generate(), reference, None)
    assert server.status() == nothing | {"load_count": 3}
    assert server.sampler.adapters == ("step_1",)
    again = server.post("/lora/unload", {})
    assert again.json() == {"status": "ok", "previous_adapter": None, "previous_name": None}
    assert server.post("/lora/unload", Origin="http://evil.example").status_code == 403


def test_chats_reach_the_newest_adapter_by_name(server: ServedSampler) -> None:
    limits = Settings.model_validate({}).service.limits("http")
    backend = HTTPBackend(f"{server.url}/v1", f"{NAME}@newest", limits, None)
    ask = Request((Message("user", "who did it"),), Sampling(max_tokens=4, temperature=0.0))

    async def before_and_after() -> tuple[Completion, Completion]:
        try:
            base = await backend.complete(ask)
            body = {"adapter_path": "adapter_step_2", "adapter_name": "step_2"}
            loaded = await asyncio.to_thread(server.post, "/lora/load", body)
            assert loaded.status_code == 200
            return base, await backend.complete(ask)
        finally:
            await backend.close()

    base, newest = asyncio.run(before_and_after())
    assert (base.model, base.policy_version) == (NAME, None)
    # The name by which the trainer calls its step is the version of the weights.
    assert (newest.model, newest.policy_version) == ("step_2", 2)
    assert newest.choices[0].text != base.choices[0].text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("../outside", 400, "must be a folder below the server's --lora-root"),
        ("/etc", 400, "must be a folder below the server's --lora-root"),
        ("link", 400, "must be a folder below the server's --lora-root"),
        ("nothing", 404, "contains no adapter"),
        ("empty", 404, "contains no adapter"),
        ("foreign", 400, "does not fit this model"),
        ("other_layers", 400, "does not fit this model"),
        ("wrong_rank", 400, "does not fit this model with r=4"),
        ("no_rank", 400, "adapter_config.json: r: Field required"),
    ],
)
def test_unsuitable_adapters_change_nothing(
    shared: ServedSampler, root: Path, path: str, status: int, words: str
) -> None:
    before = shared.status()
    for route, field, body in (
        ("/lora/load", "adapter_path", {"adapter_path": path, "adapter_name": "bad"}),
        ("/v1/load_lora_adapter", "lora_path", {"lora_path": path, "lora_name": "bad"}),
    ):
        answer = shared.post(route, body)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (status, field)
        assert words in error["message"] and "\n" not in error["message"]
        assert str(root) not in answer.text
    assert shared.status() == before


@pytest.mark.parametrize(
    ("route", "body", "param", "words"),
    [
        ("/lora/load", {}, "adapter_path", "Field required"),
        ("/lora/load", None, "adapter_path", "Field required"),
        ("/lora/load", {"adapter_path": 3}, "adapter_path", "valid string"),
        ("/lora/load", {"adapter_path": "a", "lora_name": "b"}, "lora_name", "does not know it"),
        ("/lora/load", {"adapter_path": "adapter_step_1", "adapter_name": NAME}, "adapter_name",
         "name of the base model"),
        ("/lora/unload", {"adapter_name": "a"}, "adapter_name", "does not know it"),
        ("/generate", {}, "prompt", "Field required"),
        ("/generate", None, "prompt", "Field required"),
        ("/generate", {"prompt": 7}, "prompt", "an object"),
        ("/generate", {"prompt": {}}, "prompt", "at least one token"),
        ("/generate", {"prompt": {"prompt_token_ids": [1, -2]}}, "prompt.prompt_token_ids.1",
         "greater than or equal to 0"),
        ("/generate", {"prompt": {"prompt_token_ids": [10**6]}}, "prompt", "of the vocabulary"),
        ("/generate", {"prompt": {"prompt_token_ids": [1] * 300}}, "prompt", "maximum context"),
        ("/generate", {"prompt": {"multi_modal_data": {}}}, "multi_modal_data", "not know it"),
        ("/generate", {"prompt": "a", "logprobs": 99}, "logprobs", "less than or equal to 20"),
        ("/generate", {"prompt": "a", "stream": True}, "stream", "does not support it"),
        ("/generate", {"prompt": "a", "model": "other"}, "model", "does not exist"),
        ("/generate", {"prompt": "a", "temperature": "hot"}, "temperature", "valid number"),
    ],
)  # fmt: skip
def test_bad_requests_are_answered_with_field_and_reason(
    shared: ServedSampler, route: str, body: Any, param: str, words: str
) -> None:
    answer = shared.post(route, body)
    assert answer.status_code in {400, 404}
    error = answer.json()["error"]
    assert error["param"] == param and words in error["message"], error


def test_without_a_root_no_adapter_can_be_loaded(folder: Path) -> None:
    for server in run_server(folder, None):
        status = server.status()
        assert status["lora_available"] is False and status["available_adapters"] == []
        for route, body in (
            ("/lora/load", {"adapter_path": "adapter_step_1"}),
            ("/lora/unload", None),
        ):
            answer = server.post(route, body)
            assert answer.status_code == 403 and "--lora-root" in answer.text


def test_the_oldest_adapters_make_room(folder: Path, root: Path, reference: Any) -> None:
    for server in run_server(folder, root, max_adapters=2):
        for step in (1, 2, 3):
            body = {"lora_name": f"step_{step}", "lora_path": f"adapter_step_{step}"}
            assert server.post("/v1/load_lora_adapter", body).status_code == 200
            assert len(server.sampler.adapters) == min(step, 2)
        assert server.sampler.adapters == ("step_2", "step_3")
        check_weights(server.generate(), reference, root / "adapter_step_3")
        # A replaced one is the newest, whatever its place was.
        server.post("/lora/load", {"adapter_path": "adapter_step_1", "adapter_name": "step_2"})
        assert set(server.sampler.adapters) == {"step_2", "step_3"}
        server.post("/lora/load", {"adapter_path": "adapter_step_2", "adapter_name": "new"})
        check_weights(server.generate(), reference, root / "adapter_step_2")
        assert "new" in server.sampler.adapters and len(server.sampler.adapters) == 2


def test_a_server_with_a_key_asks_for_it(folder: Path, root: Path) -> None:
    for server in run_server(folder, root, key=SecretStr("sk-planted")):
        assert server.client.get("/health").status_code == 200
        status = server.client.get("/lora/status")
        bodies = ("/generate", STOCK), ("/lora/load", {"adapter_path": "a"}), ("/lora/unload", None)
        for refused in (status, *(server.post(route, body) for route, body in bodies)):
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (401, "invalid_api_key")
        allowed = server.post("/generate", STOCK, Authorization="Bearer sk-planted")
        assert allowed.status_code == 200
