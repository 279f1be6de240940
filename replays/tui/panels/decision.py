"""Panel of the last decision: answers of the model, beliefs, prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replays.analysis.documents import (
    AttemptJson,
    BeliefJson,
    DecisionJson,
    MessageJson,
    TokenJson,
)
from replays.tui.panels.base import (
    COMPUTING,
    MarkedText,
    PanelContext,
    cut,
    heading,
    hint,
    printable_lines,
)

MAX_OTHER = 2_000
"""Characters of the other details that an agent recorded."""


def decision_panel(context: PanelContext) -> RenderableType:
    """Return the decision of the ply that led to this position."""
    if context.position == 0:
        return hint("The game has not started.")
    decision = context.analysis.decision(context.position - 1, context.seat)
    if decision.value is not None:
        return Group(*_sections(context, decision.value))
    if not decision.complete:
        return hint(COMPUTING)
    if context.seat is None:
        return hint(f"A chance move. ]: the next move of seat {context.focus}")
    return hint(f"This was not a move of seat {context.seat}. ]: its next move")


def _sections(context: PanelContext, decision: DecisionJson) -> Iterator[RenderableType]:
    choices = len(decision["legal"]) + decision["more_legal"]
    seconds = "" if decision["seconds"] is None else f" · {decision['seconds']:.2f} s"
    detail = f" · one of {choices:,} legal actions{seconds}"
    seat = f"seat {context.name(decision['player'])}"
    yield heading(
        f"Ply {decision['ply'] + 1}, {seat}: {printable_lines(decision['action'])}", detail
    )
    if decision["failure"] is not None:
        failure = printable_lines(cut(f"a fallback was played: {decision['failure']}"))
        yield MarkedText("!", "bold red", Text(failure))
    attempts = decision["attempts"]
    if not attempts:
        yield hint("There is no record of a request to a model.")
    for number, attempt in enumerate(attempts, start=1):
        yield from _draw_answer(attempt, f"Attempt {number} of {len(attempts)}")
    if decision["more_attempts"]:
        yield hint(f"and {decision['more_attempts']:,} more attempts")
    yield from _draw_beliefs(decision["beliefs"])
    for number, attempt in enumerate(attempts, start=1):
        yield Text()
        yield heading(f"Prompt of attempt {number}", ": + added, - removed since the last request")
        yield from _draw_prompt(attempt)
    yield from _draw_other(decision["other"])


def _draw_answer(attempt: AttemptJson, title: str) -> Iterator[RenderableType]:
    yield Text()
    failure = attempt["failure"]
    if failure is None:
        yield heading(f"{title}: accepted")
    else:
        yield Text(f"! {title}: {printable_lines(failure)}", style="bold red")
    yield Text(printable_lines(" · ".join(_figures(attempt))), style="dim")
    if attempt["excerpt"]:
        yield Text(f"Failed at: {printable_lines(cut(attempt['excerpt']))}")
    if attempt["cause"]:
        yield Text(f"Cause: {printable_lines(cut(attempt['cause']))}")
    # In the order in which a model produces them; an empty reply is shown as well.
    texts = {"reasoning": attempt["reasoning"], "reply": attempt["reply"]}
    for name, text in {**texts, "refusal": attempt["refusal"]}.items():
        if text.strip() or name == "reply":
            yield Text(f"{name.capitalize()}:", style="bold dim")
            yield _indented(text or "(empty)")
    yield from _draw_tokens(attempt["tokens"])


def _figures(attempt: AttemptJson) -> Iterator[str]:
    yield attempt["model"] or "unnamed model"
    if attempt["policy_version"] is not None:
        yield f"policy version {attempt['policy_version']}"
    yield f"{attempt['prompt_tokens']:,} tokens in, {attempt['completion_tokens']:,} out"
    yield "cost unknown" if attempt["cost"] is None else f"${attempt['cost']:.6f}"
    first = attempt["seconds_to_first_token"]
    yield f"{attempt['seconds']:.2f} s" + ("" if first is None else f", first token {first:.2f} s")
    if attempt["finish_reason"]:
        yield f"finish {attempt['finish_reason']}"
    if attempt["cached"]:
        yield "from the cache"
    sampling = [f"{name} {value}" for name, value in attempt["sampling"].items() if value]
    yield from map(cut, sampling)


def _draw_tokens(tokens: Sequence[TokenJson]) -> Iterator[RenderableType]:
    if tokens:
        logprobs = [token["logprob"] for token in tokens]
        mean, lowest = sum(logprobs) / len(logprobs), min(logprobs)
        yield Text(
            f"{len(tokens):,} tokens with log-probabilities: mean {mean:.2f}, lowest {lowest:.2f}",
            style="dim",
        )


def _indented(text: str) -> RenderableType:
    return Padding(Text(printable_lines(cut(text.strip("\n")))), (0, 0, 0, 2))


def _draw_beliefs(beliefs: Sequence[BeliefJson]) -> Iterator[RenderableType]:
    if not beliefs:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(heading("Beliefs"), heading("stated"), heading("exact"))
    for belief in beliefs:
        cells = (belief["about"], belief["stated"], belief["exact"])
        table.add_row(*(Text(printable_lines(cell)) for cell in cells))
    yield Text()
    yield table


def _draw_prompt(attempt: AttemptJson) -> Iterator[RenderableType]:
    messages = attempt["messages"]
    repeated = [message for message in messages if message["sent_before"]]
    count = attempt["unchanged"] + len(repeated)
    if count:
        characters = sum(len(text) for message in repeated for _, text in message["parts"])
        characters += attempt["unchanged_characters"]
        yield hint(f"{count:,} messages as in the last request, {characters:,} characters")
    yield from _draw_new_messages(messages)
    if attempt["more_messages"]:
        yield hint(f"and {attempt['more_messages']:,} more messages, not shown: too long")


def _draw_new_messages(messages: Sequence[MessageJson]) -> Iterator[RenderableType]:
    for message in messages:
        if not message["sent_before"]:
            yield Text(f"{printable_lines(message['role'])}:", style="bold dim")
            yield from (_draw_part(kind, text) for kind, text in message["parts"])


def _draw_part(kind: str, text: str) -> RenderableType:
    if kind == "same":
        return hint(f"  {text.count(chr(10)) + 1} lines as before")
    sign, style = ("+", "green") if kind == "added" else ("-", "red")
    return MarkedText(sign, style, Text(printable_lines(cut(text.rstrip("\n")))), every_line=True)


def _draw_other(other: Mapping[str, JsonValue]) -> Iterator[RenderableType]:
    if other:
        yield Text()
        yield heading("Other details")
        yield _indented(cut(json.dumps(other, ensure_ascii=False, indent=1), MAX_OTHER))
