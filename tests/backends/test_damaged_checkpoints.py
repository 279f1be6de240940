"""Damaged checkpoints and adapters are one line, and choices have a bounded cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402
from tiny_model import build_tiny_model  # noqa: E402

from arena.core.errors import UsageError  # noqa: E402
from backends.embedded import constrained_decoding  # noqa: E402
from backends.embedded.architecture import read_model_config  # noqa: E402
from backends.embedded.constrained_decoding import ConstraintFactory  # noqa: E402
from backends.embedded.layers import merge_lora, read_state_dict  # noqa: E402
from backends.embedded.sampler import Sampler, SamplingParams  # noqa: E402
from backends.embedded.tokenizer import ChatTokenizer  # noqa: E402

TARGET = "model.layers.0.mlp.down_proj"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=1)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swap_shapes(path: Path) -> None:
    state = load_file(path)
    state["model.layers.0.self_attn.q_proj.weight"] = torch.zeros(3, 5)
    save_file(state, path)


def write(text: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(text)


def spoil_template(path: Path) -> None:
    path.write_text("{% for message in %}")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", cut),
        ("model.safetensors", write("no tensors")),
        ("model.safetensors", swap_shapes),
        ("config.json", cut),
        ("config.json", write("[]")),
        ("config.json", write("[" * 100_000)),
        ("tokenizer.json", cut),
        ("tokenizer.json", write("{}")),
        ("generation_config.json", cut),
        ("generation_config.json", write("[]")),
        ("chat_template.jinja", spoil_template),
    ],
)
def test_a_damaged_checkpoint_is_one_line(
    model: Path, tmp_path: Path, name: str, damage: Callable[[Path], Any]
) -> None:
    folder = shutil.copytree(model, tmp_path / "damaged")
    assert (folder / name).is_file()
    damage(folder / name)
    with pytest.raises(UsageError) as error:
        Sampler(folder)
    assert "\n" not in str(error.value) and len(str(error.value)) < 600


def write_adapter(folder: Path, tensors: dict[str, Any], **config: Any) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    fields = {"peft_type": "LORA", "r": 2, "lora_alpha": 4} | config
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    return folder


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"r": 10**9}, "r: "),
        ({"r": 0}, "r: "),
        ({"r": "many"}, "r: "),
        ({"r": 3}, "does not fit"),
        ({"lora_alpha": None}, "lora_alpha"),
        ({"use_dora": True}, "use_dora"),
        ({"rank_pattern": {"x": 4}}, "rank_pattern"),
        ({"peft_type": "IA3"}, "peft_type"),
        ({"lora_alpha": 1e39}, "finite"),
    ],
)
def test_an_absurd_adapter_is_refused(
    model: Path, tmp_path: Path, config: dict[str, Any], place: str
) -> None:
    state = read_state_dict(model)
    rows, columns = state[f"{TARGET}.weight"].shape
    prefix = f"base_model.model.{TARGET}.lora"
    down, up = torch.ones(2, columns), torch.ones(rows, 2)
    tensors = {f"{prefix}_A.weight": down, f"{prefix}_B.weight": up}
    good = write_adapter(tmp_path / "good", tensors, use_dora=False, rank_pattern={})
    assert not merge_lora(state, good)[f"{TARGET}.weight"].equal(state[f"{TARGET}.weight"])
    with pytest.raises(UsageError, match=place):
        merge_lora(state, write_adapter(tmp_path / "bad", tensors, **config))
    lonely = {f"{prefix}_B.weight": up}
    with pytest.raises(UsageError, match="unknown tensor"):
        merge_lora(state, write_adapter(tmp_path / "lonely", lonely))


def test_an_adapter_without_tensors_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no tensors"):
        merge_lora(read_state_dict(model), write_adapter(tmp_path / "empty", {}))


def test_the_cache_of_choices_is_bounded_by_bytes(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    tokenizer = ChatTokenizer(model, read_model_config(model))
    factory = ConstraintFactory(tokenizer.tokenizer, 600, tokenizer.end_ids)
    monkeypatch.setattr(constrained_decoding, "MAX_CACHED_BYTES", 2_000_000)
    tracemalloc.start()
    for number in range(12):
        choices = tuple(f"suggest {number} {choice}" for choice in range(4000))
        factory.create(SamplingParams(guided_choice=choices))
        del choices
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 4_000_000  # A trie of one of these lists alone takes more.


def test_choices_are_followed_token_by_token(model: Path) -> None:
    """The constraint equals a plain search through all lists of tokens."""
    tokenizer = ChatTokenizer(model, read_model_config(model))
    factory = ConstraintFactory(tokenizer.tokenizer, 600, tokenizer.end_ids)
    choices = ("who", "who did it", "what", "who", "did it", "w")
    lists = [[*tokenizer.tokenizer.encode(text), tokenizer.end_ids[0]] for text in choices]
    for tokens in lists:
        constraint = factory.create(SamplingParams(guided_choice=choices))
        assert constraint is not None
        for place, token in enumerate(tokens):
            matching = [other for other in lists if other[:place] == tokens[:place]]
            expected = sorted({other[place] for other in matching})
            assert constraint.allowed().tolist() == expected
            constraint.advance(token)
