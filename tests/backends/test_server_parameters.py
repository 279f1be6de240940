"""Sampling parameters, tools and guides of `arena serve`, by the official OpenAI client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from arena_server import CHAT, NAME, finish, start  # noqa: E402
from tiny_model import build_tiny_model  # noqa: E402

SUGGEST = {
    "type": "function",
    "function": {
        "name": "suggest",
        "description": "Make a suggestion.",
        "parameters": {
            "type": "object",
            "properties": {"suspect": {"$ref": "#/$defs/Suspect"}},
            "required": ["suspect"],
            "additionalProperties": False,
            "$defs": {"Suspect": {"enum": ["Plum", "Green"]}},
        },
    },
}
END_TURN = {
    "type": "function",
    "function": {
        "name": "end_turn",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}

NAMED = {"type": "function", "function": {"name": "suggest"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / NAME, layers=2)


@pytest.fixture(scope="module")
def started(folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    process = start(str(folder), "--port", "0")
    yield [process]
    finish(process)


def ask(client: Any, extra: dict[str, Any] | None = None, **fields: Any) -> Any:
    body = {"model": NAME, "messages": CHAT, "max_tokens": 40, "seed": 1} | fields
    return client.chat.completions.create(
        **body, extra_body={"return_token_ids": True} | (extra or {})
    )


def ids(answer: Any) -> list[int]:
    return [token for choice in answer.choices for token in choice.token_ids]


def test_one_token_left_is_the_greedy_answer(client: Any) -> None:
    greedy = ids(ask(client, temperature=0))
    assert ids(ask(client)) != greedy
    assert ids(ask(client, {"top_k": 1})) == greedy
    assert ids(ask(client, {"min_p": 1.0})) == greedy
    assert ids(ask(client, {"top_k": -1, "min_p": 0, "repetition_penalty": 1})) == ids(ask(client))


def test_a_bias_forces_and_forbids_tokens(client: Any) -> None:
    greedy = ids(ask(client, temperature=0))
    assert greedy[0] not in ids(ask(client, temperature=0, logit_bias={greedy[0]: -100}))[:1]
    assert set(ids(ask(client, logit_bias={"70": 100}))) == {70}
    with pytest.raises(openai.BadRequestError, match="logit_bias"):
        ask(client, logit_bias={"100000": 1})


@pytest.mark.parametrize(
    "fields",
    [{"presence_penalty": 2}, {"frequency_penalty": 2}, {"extra": {"repetition_penalty": 5}}],
)
def test_penalties_make_answers_more_varied(client: Any, fields: dict[str, Any]) -> None:
    plain = ids(ask(client, logit_bias={"70": 4, "71": 4}, n=8))
    varied = ids(ask(client, logit_bias={"70": 4, "71": 4}, n=8, **fields))
    assert len(set(varied)) > len(set(plain))


def test_an_answer_has_at_least_min_tokens(client: Any) -> None:
    eager: dict[str, Any] = {"logit_bias": {"2": 100}}  # 2 is the end token.
    assert ids(ask(client, **eager)) == [2]
    answer = ids(ask(client, {"min_tokens": 7}, **eager))
    assert len(answer) == 8 and answer.index(2) == 7


@pytest.mark.parametrize("form", ["guided_grammar", "structured_outputs"])
@pytest.mark.parametrize(
    "grammar", ['start: "who " ("did" | "it")', 'root ::= "who " ("did" | "it")']
)
def test_a_grammar(client: Any, form: str, grammar: str) -> None:
    fields = {form: grammar if form == "guided_grammar" else {"grammar": grammar}}
    answer = ask(client, fields, n=4)
    assert {choice.message.content for choice in answer.choices} <= {"who did", "who it"}


def test_json_has_no_endless_white_space(client: Any) -> None:
    """A bias for white space that a flexible grammar would follow until the last token."""
    schema = {"type": "object", "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}},
              "required": ["a", "b"], "additionalProperties": False}  # fmt: skip
    blanks = {str(token): 50 for token in blank_tokens(client)}
    answer = ask(client, {"guided_json": schema}, logit_bias=blanks)
    assert answer.choices[0].message.content == '{"a": 1, "b": 2}'
    assert answer.choices[0].finish_reason == "stop"


def blank_tokens(client: Any) -> list[int]:
    """Return the tokens of a space, a line feed, a tab and a carriage return."""
    found = []
    for blank in (" ", "\n", "\t", "\r"):
        answer = client.completions.create(
            model=NAME, prompt=blank, max_tokens=1, extra_body={"return_token_ids": True}
        )
        found += answer.choices[0].prompt_token_ids
    return found


def test_echo(client: Any) -> None:
    fields: dict[str, Any] = {"model": NAME, "prompt": "who did", "max_tokens": 4, "seed": 1}
    plain = client.completions.create(**fields).choices[0].text
    assert client.completions.create(**fields, echo=True).choices[0].text == "who did" + plain
    stream = client.completions.create(**fields, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "who did" + plain


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "suggest"}}]
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_required_call(client: Any, choice: Any, stream: bool) -> None:
    fields = {
        "tools": [SUGGEST, END_TURN],
        "tool_choice": choice,
        "n": 4,
        "stream": stream,
        "max_tokens": 150,
    }
    answers = ask(client, **fields)
    choices = [item for chunk in answers for item in chunk.choices] if stream else answers.choices
    messages = [item.delta if stream else item.message for item in choices]
    calls = [call for message in messages for call in message.tool_calls or ()]
    assert len(calls) == 4 and len({call.id for call in calls}) == 4
    assert [item.finish_reason for item in choices if item.finish_reason] == ["tool_calls"] * 4
    for call in calls:
        arguments = json.loads(call.function.arguments)
        if call.function.name == "suggest":
            assert arguments["suspect"] in {"Plum", "Green"}
        else:
            assert choice == "required" and not arguments
    assert not any(message.content for message in messages)


def test_a_chosen_call_in_tags(client: Any) -> None:
    """With "auto" the model writes tags; a grammar stands in for a model that can."""
    call = '<tool_call>{\\"name\\": \\"end_turn\\", \\"arguments\\": {}}</tool_call>'
    fields = {"guided_grammar": f'start: "I stop. {call}"'}
    (choice,) = ask(client, fields, tools=[END_TURN], max_tokens=200).choices
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I stop."
    assert choice.message.tool_calls[0].function.name == "end_turn"
    (choice,) = ask(client, fields, tools=[SUGGEST], max_tokens=200).choices
    assert choice.message.tool_calls is None and "end_turn" in choice.message.content


def test_results_of_tools_are_read(client: Any) -> None:
    called = {"id": "a", "type": "function", "function": {"name": "end_turn", "arguments": "{}"}}

    def prompt(*results: str) -> list[int]:
        call = {"role": "assistant", "content": None, "tool_calls": [called]}
        returned = [{"role": "tool", "tool_call_id": "a", "content": text} for text in results]
        chat = [*CHAT, call, *returned]
        answer = ask(client, messages=chat, tools=[END_TURN], max_tokens=1)
        assert len(answer.prompt_token_ids) == answer.usage.prompt_tokens
        return list(answer.prompt_token_ids)

    assert len(prompt("done")) < len(prompt("done", "and more"))
    assert prompt("done") != prompt("gone")
