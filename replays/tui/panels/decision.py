"""How a move came about: what a model answered, what it believed, what it had been sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from arena import Json
from replays.analysis.documents import (
    AttemptJson,
    BeliefJson,
    DecisionJson,
    MessageJson,
    TokenJson,
)
from replays.tui.panels.view import SEEKING, Marked, View, cut, heading, hint, legible

MOST_OTHER = 2_000
"""Characters of whatever else an agent noted."""


def decision(view: View) -> RenderableType:
    """Of the ply that led here."""
    if view.position == 0:
        return hint("Nothing has been decided yet.")
    found = view.findings.decision(view.position - 1, view.seat)
    if found.value is None:
        return hint(_nothing(view) if found.complete else SEEKING)
    return Group(*_parts(view, found.value))


def _nothing(view: View) -> str:
    if view.seat is None:
        return f"Chance moved here. ]: on to the next move of seat {view.focus}"
    return f"This was no move of seat {view.seat}. ]: on to its next one"


def _parts(view: View, made: DecisionJson) -> Iterator[RenderableType]:
    choices = len(made["legal"]) + made["more_legal"]
    seconds = "" if made["seconds"] is None else f" · {made['seconds']:.2f} s"
    more = f" · one of {choices:,} legal moves{seconds}"
    seat = f"seat {view.name(made['player'])}"
    yield heading(f"Ply {made['ply'] + 1}, {seat}: {legible(made['action'])}", more)
    if made["failure"] is not None:
        words = legible(cut(f"a fallback was played: {made['failure']}"))
        yield Marked("!", "bold red", Text(words))
    attempts = made["attempts"]
    if not attempts:
        yield hint("No request to a model is noted.")
    for number, attempt in enumerate(attempts, start=1):
        yield from _answer(attempt, f"Attempt {number} of {len(attempts)}")
    if made["more_attempts"]:
        yield hint(f"and {made['more_attempts']:,} further attempts")
    yield from _beliefs(made["beliefs"])
    for number, attempt in enumerate(attempts, start=1):
        yield Text()
        yield heading(f"Sent in attempt {number}", ": + new, - gone since its last request")
        yield from _request(attempt)
    yield from _other(made["other"])


def _answer(attempt: AttemptJson, title: str) -> Iterator[RenderableType]:
    yield Text()
    failure = attempt["failure"]
    if failure is None:
        yield heading(f"{title}: accepted")
    else:
        yield Text(f"! {title}: {legible(failure)}", style="bold red")
    yield Text(legible(" · ".join(_figures(attempt))), style="dim")
    if attempt["excerpt"]:
        yield Text(f"At fault: {legible(cut(attempt['excerpt']))}")
    if attempt["cause"]:
        yield Text(f"Cause: {legible(cut(attempt['cause']))}")
    for name in ("reasoning", "reply", "refusal"):
        text = str(attempt[name])
        if text.strip() or name == "reply":
            yield Text(f"{name.capitalize()}:", style="bold dim")
            yield _quoted(text or "(empty)")
    yield from _tokens(attempt["tokens"])


def _figures(attempt: AttemptJson) -> Iterator[str]:
    yield attempt["model"] or "a model without a name"
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
    given = [f"{name} {value}" for name, value in attempt["sampling"].items() if value]
    yield from map(cut, given)


def _tokens(tokens: Sequence[TokenJson]) -> Iterator[RenderableType]:
    if tokens:
        logprobs = [token["logprob"] for token in tokens]
        mean, lowest = sum(logprobs) / len(logprobs), min(logprobs)
        yield Text(
            f"{len(tokens):,} tokens with log-probabilities: mean {mean:.2f}, lowest {lowest:.2f}",
            style="dim",
        )


def _quoted(text: str) -> RenderableType:
    return Padding(Text(legible(cut(text.strip("\n")))), (0, 0, 0, 2))


def _beliefs(beliefs: Sequence[BeliefJson]) -> Iterator[RenderableType]:
    if not beliefs:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(heading("Beliefs"), heading("stated"), heading("exact"))
    for each in beliefs:
        cells = (each["about"], each["stated"], each["exact"])
        table.add_row(*(Text(legible(cell)) for cell in cells))
    yield Text()
    yield table


def _request(attempt: AttemptJson) -> Iterator[RenderableType]:
    messages = attempt["messages"]
    again = [message for message in messages if message["sent_before"]]
    count = attempt["unchanged"] + len(again)
    if count:
        told = sum(len(text) for message in again for _, text in message["parts"])
        length = attempt["unchanged_characters"] + told
        yield hint(f"{count:,} messages as in its last request, {length:,} characters")
    yield from _new(messages)
    if attempt["more_messages"]:
        yield hint(f"and {attempt['more_messages']:,} further messages: too much to show")


def _new(messages: Sequence[MessageJson]) -> Iterator[RenderableType]:
    for message in messages:
        if not message["sent_before"]:
            yield Text(f"{legible(message['role'])}:", style="bold dim")
            yield from (_part(what, text) for what, text in message["parts"])


def _part(what: str, text: str) -> RenderableType:
    if what == "same":
        return hint(f"  {text.count(chr(10)) + 1} lines as before")
    sign, style = ("+", "green") if what == "new" else ("-", "red")
    return Marked(sign, style, Text(legible(cut(text.rstrip("\n")))), every=True)


def _other(other: Mapping[str, Json]) -> Iterator[RenderableType]:
    if other:
        yield Text()
        yield heading("Also noted")
        yield _quoted(cut(json.dumps(other, ensure_ascii=False, indent=1), MOST_OTHER))
