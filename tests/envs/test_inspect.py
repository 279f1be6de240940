"""inspect_ai both ways: games as its tasks, replays as its logs, read by its own reader."""

# ruff: noqa: E402 - the imports below need inspect_ai.

from __future__ import annotations

import asyncio
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make test-inspect")
pytestmark = [
    pytest.mark.inspect,
    # inspect_ai calls tenacity in an old way and leaves streams of anyio to the garbage collector.
    pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]

from inspect_ai import eval as evaluate
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)

from arena.agents.chat import requests_of
from arena.core.errors import UsageError
from arena.envs.inspect_tasks import seat_attempts
from arena.episodes.replay import read_replay
from arena.evaluation.analysis import episode_of
from arena.llm.backend import Message, Request, Sampling
from arena.llm.settings import Settings
from backends.inspect_models import InspectBackend, inspect_model
from trainers.export.exporter import export_replays
from trainers.export.inspect_log import InspectExport

USAGE = ModelUsage(input_tokens=30, output_tokens=4, total_tokens=44, input_tokens_cache_read=10)
Answer = Callable[[list[Any]], str]


def output(text: str, *parts: Any, **fields: Any) -> Any:
    """Return an answer with its usage: inspect_ai would count tokens with a file of the network."""
    content = [*parts, ContentText(text=text)] if parts else text
    message = ChatMessageAssistant(content=content, model="mock", source="generate")
    choice = ChatCompletionChoice(message=message, stop_reason=fields.pop("stop_reason", "stop"))
    return ModelOutput(model="mock", choices=[choice], usage=USAGE, **fields)


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
        pytest.skip("mockllm counts tokens with a file that litellm brings: make test-inspect")
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


def test_a_replay_as_a_log_has_the_numbers_of_the_evaluation(tmp_path: Path) -> None:
    replays = tmp_path / "replays"
    given = {"games": 4, "opponents": "bot:random", "replays": str(replays)}
    log = run("arena/kuhn_poker", mock(passes), tmp_path, task_args=given)
    export_replays([replays], tmp_path / "x.eval", InspectExport)
    again = read_eval_log(str(tmp_path / "x.eval"))
    assert log.status == again.status == "success"
    assert (again.eval.task, again.eval.model) == (log.eval.task, "mock")
    expected = {sample.id: numbers(sample) for sample in log.samples}
    assert set(expected) == {"0/0", "0/1", "1/0", "1/1"}
    assert {numbers(sample)["legal_rate"] for sample in log.samples} <= {0.5, 1.0}
    for sample in again.samples:
        found = numbers(sample)
        found.pop("reward")
        place = f"{sample.metadata['deal']}/{sample.metadata['seat']}"
        assert found == pytest.approx(expected[place], nan_ok=True)
    before = {score.name: score.metrics["mean"].value for score in log.results.scores}
    after = {score.name: score.metrics["mean"].value for score in again.results.scores}
    after.pop("reward")
    assert after == pytest.approx(before, nan_ok=True)
    tokens = sum(each.model_usage["mock"].total_tokens for each in again.samples)
    requests = sum(event.event == "model" for each in log.samples for event in each.events)
    assert tokens == requests * USAGE.total_tokens


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


def test_a_model_of_a_role_takes_the_other_seats(tmp_path: Path) -> None:
    asked: list[str] = []

    def other(messages: list[Any]) -> str:
        asked.append(messages[-1].text)
        return "Action: pass"

    given = {"games": 2, "opponents": "inspect:opponent", "replays": str(tmp_path / "r")}
    roles = {"opponent": mock(other)}
    log = run("arena/kuhn_poker", mock(passes), tmp_path, task_args=given, model_roles=roles)
    assert log.status == "success" and asked
    assert {tuple(read_replay(path).header.players) for path in (tmp_path / "r").iterdir()} == {
        ("inspect", "inspect:opponent"),
        ("inspect:opponent", "inspect"),
    }


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"opponents": "bot:nobody"}, "no bot 'nobody'"), ({"players": 9}, "players")],
)
def test_a_wrong_argument_of_a_task_is_named(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        evaluate("arena/cluedo", model=mock(passes), task_args=wrong, display="none")


# The models of inspect_ai in arena


def ask(backend: InspectBackend, *messages: Message, **sampling: Any) -> Any:
    return asyncio.run(backend.complete(Request(messages, Sampling(**sampling))))


def test_a_model_of_inspect_answers_a_request() -> None:
    configs: list[Any] = []
    thought = ContentReasoning(reasoning="I think", signature="signed")

    def answer(messages: list[Any], _tools: Any, _choice: Any, config: Any) -> Any:
        configs.append((messages, config))
        return output("yes", thought, stop_reason="max_tokens")

    model = get_model("mockllm/model", memoize=False, custom_outputs=answer)
    question = Message("user", "?")
    completion = ask(InspectBackend(model), question, temperature=0.5, stop=("x",), max_tokens=512)
    choice, usage = completion.choices[0], completion.usage
    assert (choice.text, choice.reasoning, choice.finish_reason) == ("yes", "I think", "length")
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (40, 10, 4)
    [(_, config)] = configs
    assert (config.temperature, config.stop_seqs, config.max_tokens) == (0.5, ["x"], None)
    before = Message("assistant", "yes", choice.provider_turn)
    ask(InspectBackend(model), question, before, question)
    sent = configs[-1][0][1]
    assert sent.content[0].signature == "signed", "signed thoughts go back"


def test_an_unknown_model_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"inspect:nowhere/model: .*nowhere"):
        inspect_model("nowhere/model", Settings.load())


def test_a_log_of_several_games_has_all_numbers_in_each_sample(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    for game in ("kuhn_poker", "cluedo"):
        given = {"games": 1, "replays": str(folder / game)}
        run(f"arena/{game}", mock(passes), tmp_path, task_args=given)
    result = export_replays([folder], tmp_path / "x.eval", InspectExport)
    log = read_eval_log(str(tmp_path / "x.eval"))
    assert result.rows == 2 and log.eval.task == "arena/games"
    kuhn, cluedo = sorted(log.samples, key=lambda sample: -len(sample.metadata["game"]))
    assert numbers(kuhn).keys() == numbers(cluedo).keys()
    assert math.isnan(numbers(kuhn)["efficiency_early"])
    moves = [event.data for event in cluedo.events if event.event == "info"]
    assert any(re.match(r"player \d: ", move) for move in moves)
