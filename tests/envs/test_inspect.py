"""The recipe for inspect_ai, with its own command, models and reader of logs."""

# ruff: noqa: E402 - the imports below need inspect_ai.

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make test-mcp")
pytestmark = [
    pytest.mark.inspect,
    # inspect_ai calls tenacity in an old way and leaves streams of anyio to the garbage collector.
    pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

RECIPE = "docs/examples/inspect_task.py"
USAGE = ModelUsage(input_tokens=30, output_tokens=4, total_tokens=34)
Answer = Callable[[list[Any]], str]


def run(answer: Answer, folder: Path, game: str, games: int = 1, **given: Any) -> Any:
    """Evaluate the recipe with a model that answers by a function of the messages."""

    def output(messages: list[Any], *_: Any) -> Any:
        # With its usage: inspect_ai would count tokens with a file of the network.
        content = ModelOutput.from_content("mock", answer(messages)).model_dump()
        return ModelOutput(**{**content, "usage": USAGE})

    model = get_model("mockllm/model", memoize=False, custom_outputs=output)
    arguments = {"game": game, "games": games}
    logs = str(folder / "logs")
    [log] = evaluate(
        RECIPE, model=model, task_args=arguments, log_dir=logs, display="none", **given
    )
    return log


def test_the_model_plays_each_deal_from_each_seat_and_its_games_are_scored(tmp_path: Path) -> None:
    systems: list[str] = []

    def answer(messages: list[Any]) -> str:
        systems.append(messages[0].role)
        return "Action: pass"

    log = run(answer, tmp_path, "kuhn_poker", games=2)
    assert log.status == "success" and {*systems} == {"system"}
    assert [sample.id for sample in log.samples] == ["0/0", "0/1"]
    for sample in log.samples:
        scores = sample.scores["game_score"].value
        assert scores["fallbacks"] == 0 and abs(scores["return"]) in {1, 2}
        assert scores["won"] == (scores["return"] > 0)


def test_the_limits_of_a_sample_and_errors_of_a_model_are_those_of_inspect(tmp_path: Path) -> None:
    log = run(lambda _: "Action: pass", tmp_path, "cluedo", token_limit=100)
    [sample] = log.samples
    assert sample.limit.type == "token" and log.status == "success"
    assert math.isnan(sample.scores["game_score"].value)

    def broken(_messages: list[Any]) -> str:
        raise RuntimeError("no such model")

    log = run(broken, tmp_path, "kuhn_poker")
    assert log.status == "error" and "no such model" in log.error.message
