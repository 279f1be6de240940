"""Tokenizer files are read as transformers reads them, without its import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from jinja2 import TemplateError
from tiny_model import build_tiny_model
from transformers import AutoTokenizer

from arena.core.errors import UsageError
from backends.embedded import find_checkpoint
from backends.embedded.tokenizer import CheckpointTokenizer

TEXTS = (
    "",
    " a  b.\n\nC ",
    "Who did it? — nobody 😀 knows",
    "<|im_start|>user\nx<|im_end|>",
    "é\u0301ß",
)
CHAT = [
    {"role": "system", "content": "rules\nDetails: none\n"},
    {"role": "user", "content": " who\n\ndid it? "},
    {"role": "assistant", "content": "end turn"},
]
TEMPLATES = (
    "{%- for m in messages %}\n  {%- if loop.first %}{{ bos_token }}{% endif %}\n"
    "    {{ m.role }}: {{ m['content'] | trim }}\n  {% endfor %}{{ eos_token }}",
    "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
    "{{ m | tojson }}{% endfor %}{% if tools is none %}no tools{% endif %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
    "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ ns.n }}{{ enable_thinking }}",
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=1)


@pytest.mark.parametrize("name", ["tiny", "clue-tiny"])
def test_texts_tokens_and_chats_are_those_of_transformers(name: str, tiny: Path) -> None:
    folder = tiny if name == "tiny" else find_checkpoint(name)
    ours, theirs = CheckpointTokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert len(ours) == len(theirs) and ours.eos_token_id == theirs.eos_token_id
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == theirs.encode(text)
        assert ours.encode_batch([text, "x"])[0] == theirs.encode(text, add_special_tokens=False)
        assert ours.decode(ids) == theirs.decode(ids)
        assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(
            ids, skip_special_tokens=True
        )
        assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)
    for start in (True, False):
        expected = theirs.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=start)
        assert ours.render(CHAT, add_generation_prompt=start) == expected


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_are_rendered_as_by_transformers(template: str, tiny: Path) -> None:
    ours, theirs = CheckpointTokenizer(tiny), AutoTokenizer.from_pretrained(tiny)
    ours.chat_template = theirs.chat_template = template
    variables: dict[str, Any] = {"enable_thinking": False, "add_generation_prompt": True}
    assert ours.render(CHAT, **variables) == theirs.apply_chat_template(
        CHAT, tokenize=False, **variables
    )


def test_older_files_name_tokens_and_templates_in_other_places(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((tiny / "tokenizer.json").read_bytes())
    named = [
        {"name": "tool_use", "template": "t"},
        {"name": "default", "template": "d{{ eos_token }}"},
    ]
    config = {"chat_template": named, "eos_token": {"content": "<|im_end|>"}, "bos_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": "<|endoftext|>"}')
    tokenizer = CheckpointTokenizer(tmp_path)
    assert tokenizer.render(CHAT) == "d<|im_end|>"
    assert tokenizer.eos_token_id == CheckpointTokenizer(tiny).eos_token_id


def test_a_template_may_refuse_a_chat_and_reaches_nothing(tiny: Path) -> None:
    for template in ("{{ raise_exception('no system') }}", "{{ ''.__class__.__mro__ }}"):
        tokenizer = CheckpointTokenizer(tiny)
        tokenizer.chat_template = template
        with pytest.raises(TemplateError):
            tokenizer.render(CHAT)


def test_damaged_files_are_named(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no tokenizer\.json"):
        CheckpointTokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((tiny / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(UsageError, match=r"tokenizer_config\.json: .* is not a JSON object"):
        CheckpointTokenizer(tmp_path)


def test_an_embedded_model_starts_without_transformers() -> None:
    """Its import takes more processor time than all the rest."""
    code = (
        "import sys; from backends.embedded import find_checkpoint;"
        "from backends.embedded.sampler import Sampler; Sampler(find_checkpoint('clue-tiny'));"
        "print('transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
