"""Prices and capabilities of hosted models: litellm's table, and arena.toml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena.cli import run
from arena.llm.backend import Price
from arena.llm.service import LLMService
from arena.llm.settings import KeylessSettings, RunLimits
from backends.litellm_client import READ_ONLY_REMARK, load_litellm

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

DRY_RUN = "play kuhn_poker --dry-run"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARENA_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("spec", "thinks"),
    [
        ("openai:gpt-5", True),
        ("openai:gpt-4o-mini", False),
        ("anthropic:claude-haiku-4-5", False),  # Only if it is asked to.
        ("gemini:gemini-2.5-flash", True),
        ("litellm:deepseek/deepseek-reasoner", True),
        # Under the name of their maker in litellm's table.
        ("openrouter:anthropic/claude-haiku-4.5", False),
        ("openrouter:google/gemini-2.5-flash", True),
    ],
)
def test_models_of_litellms_table_have_a_price_and_are_known_to_think(
    spec: str, thinks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{DRY_RUN} --seat 0={spec} --games 2 --max-cost 1 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["cost"] > 0
    llm = LLMService(KeylessSettings.load(), RunLimits(max_cost=1))
    assert llm.traits(spec).always_thinks is thinks
    price = llm.traits(spec).price
    assert price and 0 < price.input < price.output < 1e-3


def test_an_unknown_model_gets_the_lines_that_make_it_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = f"{DRY_RUN} --seat 0=openai:gpt-99 --max-cost 1".split()
    assert run(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert '[models."openai:gpt-99"]' in line and "price_in = … and price_out = …" in line
    Path("arena.toml").write_text(
        '[models]\ntemperature = 0.5\n[models."openai:gpt-99"]\nprice_in = 2\nprice_out = 8\n'
        "thinks = true\ncontext = 9000\nmax_reply = 700\n"
        '[models."http://127.0.0.1:9/v1#tiny"]\nprice_in = 1\nprice_out = 3\nthinks = true\n'
    )
    assert run(command) == 0
    llm = LLMService(KeylessSettings.load(), RunLimits(max_cost=1))
    hosted, server = llm.traits("openai:gpt-99"), llm.traits("http://127.0.0.1:9/v1#tiny")
    assert hosted.price == Price(2 / 1e6, 8 / 1e6, 0.1 * 2 / 1e6) and hosted.always_thinks
    assert hosted.max_reply_tokens == 700 and hosted.cached_prefix == 1024
    assert llm.backend("openai:gpt-99").context_length == 9000
    assert server.price == Price(1 / 1e6, 3 / 1e6, 0.1 * 1 / 1e6) and server.always_thinks
    # litellm computes the cost of answers with these prices too.
    costs = load_litellm().cost_per_token(
        "gpt-99", prompt_tokens=10, completion_tokens=10, custom_llm_provider="openai"
    )
    assert costs == pytest.approx((2e-5, 8e-5))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[models."openai:x"]\nprice_in = -1\nprice_out = 1', "price_in: give at least"),
        ('[models."openai:x"]\nprice_in = 1', "price_in and price_out belong together"),
        ('[models."openai:x"]\nprise_in = 1', "prise_in: no such field"),
        ('[models."gtp:x"]\nprice_in = 1\nprice_out = 1', '[models."gtp:x"] is not a backend'),
    ],
)
def test_a_wrong_table_is_one_line(
    text: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("arena.toml").write_text(text)
    assert run(f"{DRY_RUN} --seat 0=openai:x --max-cost 1".split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert fault in line and "settings: " in line
