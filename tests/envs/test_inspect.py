"""Games as tasks of inspect_ai, with its own command, models and reader of logs."""

# ruff: noqa: E402 - the imports below need inspect_ai.

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
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
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from arena.agents.chat import requests_of
from arena.core.errors import UsageError
from arena.envs.inspect_tasks import seat_attempts
from arena.episodes.replay import read_replay
from arena.evaluation.analysis import episode_of

USAGE = ModelUsage(input_tokens=30, output_tokens=4, total_tokens=34)
Answer = Callable[[list[Any]], str]


def output(text: str) -> Any:
    """Return an answer with its usage: inspect_ai would count tokens with a file of the network."""
    return ModelOutput(**{**ModelOutput.from_content("mock", text).model_dump(), "usage": USAGE})


def mock(answer: Answer) -> Any:
    """Return a model of inspect_ai that answers by a function of the messages."""
    return get_model(
        "mockllm/model", memoize=False, custom_outputs=lambda messages, *_: output(answer(messages))
    )


def passes(_messages: list[Any]) -> str:
    return "Action: pass"


def run(task: str, model: Any, folder: Path, **given: Any) -> Any:
    """Evaluate a task and read its log back from the file."""
    [log] = evaluate(task, model=model, log_dir=str(folder / "logs"), display="none", **given)
    return read_eval_log(log.location)


def numbers(sample: Any) -> dict[str, float]:
    return dict(sample.scores["game_score"].value)


def test_the_command_of_inspect_runs_a_game_by_its_name(tmp_path: Path) -> None:
    litellm = find_spec("litellm")
    if litellm is None or litellm.origin is None:
        pytest.skip("mockllm counts tokens with a file that litellm brings: make test-mcp")
    table = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
    words = "eval arena/cluedo --model mockllm/model -T games=2 -T players=3 --display plain"
    done = subprocess.run(
        [Path(sys.executable).with_name("inspect"), *words.split()],
        cwd=tmp_path,
        env=os.environ | {"TIKTOKEN_CACHE_DIR": str(table)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = (tmp_path / "logs").glob("*.eval")
    log = read_eval_log(str(file))
    assert log.status == "success" and log.eval.task == "arena/cluedo"
    assert [sample.id for sample in log.samples] == ["0/0", "0/1"], "the seats change"
    assert all(numbers(sample)["legal_rate"] == 0 for sample in log.samples)
    assert all(numbers(sample)["fallbacks"] > 0 for sample in log.samples)


def test_the_model_reads_the_chat_of_its_seat_and_nothing_else(tmp_path: Path) -> None:
    read: list[list[tuple[str, str]]] = []

    def answer(messages: list[Any]) -> str:
        read.append([(each.role, each.text) for each in messages])
        return "nothing" if len(read) == 1 else "Action: pass"

    given = {"games": 1, "seed": 7, "seat": 1, "replays": str(tmp_path / "r")}
    log = run("arena/kuhn_poker", mock(answer), tmp_path, task_args=given)
    [path] = (tmp_path / "r").glob("*.jsonl")
    replay = read_replay(path)
    attempts = seat_attempts(episode_of(replay), 1)
    requests = requests_of(attempts)
    assert read == [[(each.role, each.content) for each in request] for request in requests]
    [sample] = log.samples
    assert [each.text for each in sample.messages] == [
        *(each.content for each in requests[-1]),
        attempts[-1].reply,
    ]
    assert replay.header.players[1] == "inspect"


def test_the_limits_of_a_sample_and_errors_of_a_model_are_those_of_inspect(tmp_path: Path) -> None:
    given = {"games": 1, "players": 3}
    log = run("arena/cluedo", mock(passes), tmp_path, task_args=given, token_limit=100)
    [sample] = log.samples
    assert sample.limit.type == "token" and log.status == "success"
    assert math.isnan(sample.scores["game_score"].value)

    def broken(_messages: list[Any]) -> str:
        raise RuntimeError("no such model")

    log = run("arena/kuhn_poker", mock(broken), tmp_path, task_args={"games": 1})
    assert log.status == "error" and "no such model" in log.error.message


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"opponents": "bot:nobody"}, "no bot 'nobody'"), ({"players": 9}, "players")],
)
def test_a_wrong_argument_of_a_task_is_named(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        evaluate("arena/cluedo", model=mock(passes), task_args=wrong, display="none")
