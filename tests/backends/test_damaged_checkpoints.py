"""Damaged checkpoints and adapters are one line, and choices have a bounded cache."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_model import build_tiny_model

from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded import token_sampling
from backends.embedded.architecture import read_model_config
from backends.embedded.layers import adapt, merged, read_state_dict
from backends.embedded.sampler import Sampler, SamplingParams
from backends.embedded.token_sampling import ConstraintFactory
from backends.embedded.tokenizer import ChatTokenizer

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
        ("chat_template.jinja", write("{% for message in %}")),
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


def configure(**fields: int) -> Callable[[Path], Any]:
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def sparse(path: Path) -> None:
    """Make a file of two gigabytes that takes no place."""
    with path.open("r+b") as file:
        file.truncate(2 << 30)


LOOPS = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
CALLS = "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}"
DOUBLED = (
    "{% set n = namespace(x='x') %}{% for a in range(60) %}{% set n.x = n.x OF n.x %}{% endfor %}"
)
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            ("config.json", configure(**{field: 10**9}))
            for field in ("num_hidden_layers", "vocab_size")
        ),
        ("config.json", configure(num_hidden_layers=10**6, hidden_size=10**6)),
        ("config.json", configure(num_attention_heads=10**6, num_key_value_heads=10**6)),
        *((name, pipe) for name in (*FILES, "chat_template.jinja")),
        *((name, sparse) for name in ("config.json", "tokenizer.json", "chat_template.jinja")),
        *(
            ("chat_template.jinja", write(text))
            for text in (
                LOOPS,
                CALLS,
                LOOPS.replace("range(9999)", "('x' * 9999)"),
                DOUBLED.replace("OF", "~"),
                DOUBLED.replace("OF", "+"),
                "{{ 'x' * 3000000000 }}",
                "{{ 3000000000 * ['x'] }}",
                "{{ '%3000000000d' % 1 }}",
                "{{ '{:3000000000}'.format(1) }}",
                "{{ 'x'.ljust(3000000000) }}",
                "{{ 'x'.encode() * 3000000000 }}",
                "{{ 'x'|center(3000000000) }}",
                "{{ ('x' * 99999)|replace('x', 'y' * 99999) }}",
                "{{ ('x' * 99999).join('y' * 99999) }}",
                "{{ 9 ** (9 ** 9) }}",
                "{{ " + "(" * 99999 + " }}",
                "{{ 1|tojson(indent=3000000000) }}",
                "{{ lipsum(3000000000) }}",
                "{% for a in range(9999) %}{{ 'x' * 9999999 }}{% endfor %}",
                "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
                "{{ 1 / 0 }}",
                "{{ ''.__class__.__mro__ }}",
            )
        ),
    ],
)
def test_a_checkpoint_of_a_stranger_is_refused_within_bounds(
    model: Path, tmp_path: Path, name: str, damage: Callable[[Path], Any]
) -> None:
    """The limit of address space stands for the memory of the machine."""
    folder = shutil.copytree(model, tmp_path / "hostile")
    damage(folder / name)
    used = psutil.Process().memory_info().vms
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    started = time.thread_time()
    try:
        with pytest.raises(UsageError) as error:
            Sampler(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert "\n" not in str(error.value) and len(str(error.value)) < 600
    assert time.thread_time() - started < 3


def test_a_template_without_a_system_role_gets_its_text_from_the_user(
    model: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(model, tmp_path / "nosys")
    path = folder / "chat_template.jinja"
    refusal = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    path.write_text(refusal + path.read_text())
    config = read_model_config(folder)
    chat = (
        Message("system", "You play."),
        Message("user", "Your move?"),
        Message("assistant", "a"),
    )
    joined = (Message("user", "You play.\n\nYour move?"), chat[2])
    tokenizer = ChatTokenizer(folder, config)
    assert (
        tokenizer.encode(chat)
        == tokenizer.encode(joined)
        == ChatTokenizer(model, config).encode(joined)
    )


def test_the_choices_of_a_client_are_bounded(model: Path) -> None:
    tokenizer = ChatTokenizer(model, read_model_config(model)).tokenizer
    factory = ConstraintFactory(tokenizer, 0)
    with pytest.raises(UsageError, match="guided_choice: 100001 texts"):
        factory.create(SamplingParams(guided_choice=("a",) * 100_001))
    with pytest.raises(UsageError, match="guided_choice: 1 texts of 9000000 characters"):
        factory.create(SamplingParams(guided_choice=("a" * 9_000_000,)))


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
    assert not merged(adapt(state, good))[f"{TARGET}.weight"].equal(state[f"{TARGET}.weight"])
    with pytest.raises(UsageError, match=place):
        merged(adapt(state, write_adapter(tmp_path / "bad", tensors, **config)))
    lonely = {f"{prefix}_B.weight": up}
    with pytest.raises(UsageError, match="unknown tensor"):
        merged(adapt(state, write_adapter(tmp_path / "lonely", lonely)))
    with pytest.raises(UsageError, match="no tensors"):
        merged(adapt(state, write_adapter(tmp_path / "empty", {})))


def test_the_cache_of_choices_is_bounded_by_bytes(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    tokenizer = ChatTokenizer(model, read_model_config(model))
    factory = ConstraintFactory(tokenizer.tokenizer, tokenizer.end_ids[0])
    monkeypatch.setattr(token_sampling, "MAX_CACHED_BYTES", 2_000_000)
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
    factory = ConstraintFactory(tokenizer.tokenizer, tokenizer.end_ids[0])
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
