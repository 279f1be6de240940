"""Prices and capabilities of hosted models: `arena models show` and `update`, arena.toml."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from list_server import ListServer

from arena.cli import run
from arena.core.errors import UsageError
from arena.llm.backend import Price
from arena.llm.service import LLMService
from arena.llm.settings import KeylessSettings
from backends.litellm_client import READ_ONLY_REMARK, load_litellm
from backends.model_facts import (
    BUNDLED,
    FactList,
    ModelFacts,
    bundled_lists,
    facts_file,
    read_lists,
    today,
    write_lists,
)

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

DRY_RUN = "play kuhn_poker --dry-run"
NEWEST = (
    *("anthropic:claude-sonnet-5-5", "anthropic:claude-fable-5-1", "anthropic:claude-opus-5-5"),
    *("anthropic:claude-mythos-5-1", "anthropic:claude-haiku-5-5", "openai:gpt-6-astra"),
    *("openai:gpt-6-sol", "openai:gpt-6-luna", "openai:gpt-6.1-sol", "openai:gpt-6.1-terra"),
    *("openai:gpt-6-rosalind", "openai:gpt-6-astra-law", "openai:gpt-5.5-cyber"),
    *("litellm:xai/grok-4.20-beta", "gemini:gemini-3.8-flash", "gemini:gemini-4-argon"),
    *("cohere:command-a-plus-05-2026", "litellm:xai/grok-4.7", "litellm:xai/grok-build-latest"),
    *("litellm:xai/grok-4.20-reasoning-gv2", "litellm:moonshot/kimi-k3.1-pro"),
    *("litellm:mistral/mistral-large-4", "litellm:mistral/zai-glm-5-3", "litellm:zai/glm-5.2"),
    *("litellm:zai/glm-5v-turbo", "litellm:deepseek/deepseek-flash"),
    *("litellm:dashscope/qwen3.8-flash", "openrouter:openai/gpt-6.1-sol"),
    *("openrouter:anthropic/claude-opus-5.5", "openrouter:google/gemini-4-argon"),
)
"""Chat models that litellm 1.109 lists and 1.100 does not, and three of them behind a router."""
ROUTER = {
    "data": [
        {
            "id": "new/model-9",
            "context_length": 200_000,
            "pricing": {
                "prompt": "0.000002",
                "completion": "0.00001",
                "input_cache_read": "0.0000002",
            },
            "top_provider": {"max_completion_tokens": 32_000},
            "supported_parameters": ["tools", "reasoning"],
        },
        {"id": "new/auto", "pricing": {"prompt": "-1", "completion": "-1"}},
    ]
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARENA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("ARENA_CONFIG", raising=False)


def shown(spec: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["models", "show", spec, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["facts"]
    return {fact["name"]: fact for fact in facts}


def update(body: object, monkeypatch: pytest.MonkeyPatch, kind: str = "application/json") -> int:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    with ListServer(content, kind) as server:
        monkeypatch.setenv("OPENROUTER_API_BASE", server.url)
        return run(["models", "update"])


@pytest.mark.parametrize("spec", NEWEST)
def test_the_newest_models_have_a_price_and_are_known_to_think(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"{DRY_RUN} --seat 0={spec} --games 2 --max-cost 1 --json"
    assert run(command.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["budgets"] == [
        {
            "flag": "--max-cost",
            "limit": 1.0,
            "estimate": found["cost"][found["chat"]],
            "exceeded": False,
        }
    ]
    (model,) = found["models"]
    asked_only = "haiku" in spec
    assert model["thinking_per_call"] == (0 if asked_only else 1500)


def test_each_fact_has_its_source_and_age(capsys: pytest.CaptureFixture[str]) -> None:
    facts = shown("openai:gpt-6.1-sol", capsys)
    (bundled,) = bundled_lists()
    source = {"name": bundled.source, "date": str(bundled.date)}
    assert facts["price of prompts"] == {
        "name": "price of prompts",
        "value": "$2",
        "source": source,
    }
    values = {name: fact["value"] for name, fact in facts.items()}
    assert values["price of cached prompts"] == "$0.1" and values["thinks"] == "yes"
    assert values["context"] == "922,000 tokens" and values["calls functions"] == "yes"
    assert run(["models", "show", "openai:gpt-6.1-sol"]) == 0
    text = capsys.readouterr().out
    days = (today() - bundled.date).days
    assert f"{bundled.date}, {days} day" in text and max(map(len, text.splitlines())) <= 100
    # No list has it: each fact is unknown, and nothing is made up.
    assert {fact["value"] for fact in shown("openai:unheard", capsys).values()} == {"–"}
    assert shown("http://127.0.0.1:9/v1#tiny", capsys)["thinks"]["value"] == "–"


def test_an_unknown_model_gets_the_lines_that_make_it_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = f"{DRY_RUN} --seat 0=openai:gpt-99 --max-cost 1".split()
    assert run(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert '[models."openai:gpt-99"]' in line and "price_in = … and price_out = …" in line
    Path("arena.toml").write_text(
        '[models]\ntemperature = 0.5\n[models."openai:gpt-99"]\nprice_in = 2\nprice_out = 8\n'
        "thinks = true\ncontext = 9000\n"
        '[models."http://127.0.0.1:9/v1#tiny"]\nprice_in = 1\nprice_out = 3\nthinks = true\n'
    )
    assert run(command) == 0
    facts = shown("openai:gpt-99", capsys)
    assert facts["price of cached prompts"]["value"] == "$0.2"
    assert {f["source"]["name"] for f in facts.values() if f["value"] != "–"} == {"arena.toml"}
    llm = LLMService(KeylessSettings.load(), max_cost=1)
    hosted, server = llm.traits("openai:gpt-99"), llm.traits("http://127.0.0.1:9/v1#tiny")
    assert hosted.price == Price(2 / 1e6, 8 / 1e6, 0.1 * 2 / 1e6) and hosted.always_thinks
    assert server.price == Price(1 / 1e6, 3 / 1e6, 0.1 * 1 / 1e6) and server.always_thinks
    # litellm computes the cost of answers with these prices too.
    costs = load_litellm().cost_per_token(
        "gpt-99", prompt_tokens=10, completion_tokens=10, custom_llm_provider="openai"
    )
    assert costs == pytest.approx((2e-5, 8e-5))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[models."openai:x"]\nprice_in = -1\nprice_out = 1', "price_in: Input should be greater"),
        ('[models."openai:x"]\nprice_in = 1', "price_in and price_out belong together"),
        ('[models."openai:x"]\nprise_in = 1', "prise_in: Extra inputs"),
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


def test_update_reads_a_providers_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert update(ROUTER, monkeypatch) == 0
    assert "2 models of OpenRouter" in capsys.readouterr().out
    facts = shown("openrouter:new/model-9", capsys)
    assert facts["price of prompts"]["value"] == "$2" and facts["thinks"]["value"] == "yes"
    assert facts["follows JSON schemas"]["value"] == "no"
    assert facts["context"]["source"] == {"name": "OpenRouter", "date": str(today())}
    assert shown("openrouter:new/auto", capsys)["price of prompts"]["value"] == "–"
    # The newer of litellm's tables still counts, and a failed update keeps what it had.
    assert shown("openai:gpt-6.1-sol", capsys)["price of prompts"]["value"] == "$2"
    assert update("<html>", monkeypatch, "text/html") == 1
    assert shown("openrouter:new/model-9", capsys)["price of prompts"]["value"] == "$2"


NEGATIVE = {"data": [{"id": "a/b", "pricing": {"prompt": "-0.1", "completion": "1"}}]}


@pytest.mark.parametrize(
    ("body", "kind", "fault"),
    [
        ("<html>sign in</html>", "text/html", "answered text/html instead of JSON"),
        ("<html>sign in</html>", "application/json", "Invalid JSON"),
        ({"data": []}, "application/json", "data: List should have at least 1 item"),
        (NEGATIVE, "application/json", "a/b: input_cost_per_token: Input should be greater"),
    ],
)
def test_a_list_that_is_none_is_one_line(
    body: object,
    kind: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert update(body, monkeypatch, kind) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("arena: OpenRouter's list was not read: ") and fault in line
    (litellm,) = read_lists(facts_file())
    assert litellm.source.startswith("litellm ")


def written(days: int = 0, **facts: Any) -> dict[str, Any]:
    """The document of a file with one model."""
    models = {"openai/gpt-x": ModelFacts.model_construct(**facts)}
    date = today() + dt.timedelta(days)
    each = FactList.model_construct(source="litellm 9.0.0", date=date, models=models)
    write_lists(facts_file(), [each])
    document: dict[str, Any] = json.loads(facts_file().read_text())
    return document


@pytest.mark.parametrize(
    ("days", "facts", "change", "fault"),
    [
        (0, {}, {"version": 2}, "has version 2, but this arena reads 1"),
        (400, {}, {}, "in the future: check the clock"),
        (0, {"input_cost_per_token": -1.0}, {}, "input_cost_per_token: Input should be greater"),
        (0, {}, {"sha256": "0"}, "its hash differs"),
        (0, {}, {"lists": {}}, "its hash differs"),
    ],
)
def test_a_file_that_is_not_what_was_written_is_refused(
    days: int,
    facts: dict[str, Any],
    change: dict[str, Any],
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts_file().parent.mkdir()
    facts_file().write_text(json.dumps(written(days, **facts) | change))
    assert run(f"{DRY_RUN} --seat 0=openai:gpt-x".split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(facts_file()) in line and fault in line and "`arena models update`" in line
    assert update(ROUTER, monkeypatch) == 0
    assert run(f"{DRY_RUN} --seat 0=openai:gpt-x".split()) == 0


def test_a_file_that_is_no_json_is_refused() -> None:
    facts_file().parent.mkdir()
    facts_file().write_text("[" * 100_000)
    with pytest.raises(UsageError, match="is not a list of models: run `arena models update`"):
        read_lists(facts_file())


def test_the_bundled_list_is_small() -> None:
    assert BUNDLED.stat().st_size < 150_000
    (bundled,) = bundled_lists()
    assert 300 < len(bundled.models) < 600
