"""Panel of the last decision: answers of the model, beliefs, prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replays.analysis.documents import AttemptJson, DecisionJson
from replays.analysis.timeline import players_at
from replays.tui.frame import MAX_TEXT, printable_lines
from replays.tui.panels import PanelContext, heading, hint

MAX_OTHER = 2_000
"""Characters of the other details that an agent recorded."""


def decision_panel(context: PanelContext) -> RenderableType:
    """Return the decision of the ply that led to this position."""
    if context.position == 0:
        return hint("The game has not started.")
    decision = context.analysis.decision(context.position - 1, context.seat)
    if decision is not None:
        return Group(*_decision_parts(context, decision))
    if context.seat is None:
        return hint(f"A chance move. ]: the next move of seat {context.focus}")
    return hint(f"This was not a move of seat {context.seat}. ]: its next move")


def _decision_parts(context: PanelContext, decision: DecisionJson) -> Iterator[RenderableType]:
    player, choices = decision["player"], len(decision["legal"]) + decision["more_legal"]
    spec = players_at(context.replay.header, decision["ply"])[player].removeprefix("bot:")
    seconds = "" if decision["seconds"] is None else f" · {decision['seconds']:.2f} s"
    yield heading(
        printable_lines(f"Ply {decision['ply'] + 1}, seat {player} {spec}: {decision['action']}"),
        f" · one of {choices:,} legal actions{seconds}",
    )
    if decision["failure"] is not None:
        failure = printable_lines(f"! a fallback was played: {decision['failure']}")
        yield Text(failure, style="bold red")
    attempts = decision["attempts"]
    if not attempts:
        yield hint("There is no record of a request to a model.")
    for number, attempt in enumerate(attempts, start=1):
        yield from _draw_answer(attempt, f"Attempt {number} of {len(attempts)}")
    if decision["more_attempts"]:
        yield hint(f"and {decision['more_attempts']:,} more attempts")
    if decision["beliefs"]:
        table = Table("Beliefs", "stated", "exact", box=None, header_style="bold", pad_edge=False)
        for belief in decision["beliefs"]:
            cells = (belief["about"], belief["stated"], belief["exact"])
            table.add_row(*(Text(printable_lines(cell)) for cell in cells))
        yield from (Text(), table)
    for number, attempt in enumerate(attempts, start=1):
        yield Text()
        yield heading(f"Prompt of attempt {number}", ": + added, - removed since the last request")
        yield from _draw_prompt(attempt)
    if decision["other"]:
        yield Text()
        yield heading("Other details")
        yield _indented(json.dumps(decision["other"], ensure_ascii=False, indent=1), MAX_OTHER)


def _draw_answer(attempt: AttemptJson, title: str) -> Iterator[RenderableType]:
    yield Text()
    failure = attempt["failure"]
    if failure is None:
        yield heading(f"{title}: accepted")
    else:
        yield Text(f"! {title}: {printable_lines(failure)}", style="bold red")
    yield Text(printable_lines(" · ".join(_figures(attempt))), style="dim")
    for label, text in {"Failed at": attempt["excerpt"], "Cause": attempt["cause"]}.items():
        if text:
            yield Text(f"{label}: {printable_lines(text)}")
    # In the order in which a model produces them; an empty reply is shown as well.
    texts = {"reasoning": attempt["reasoning"], "reply": attempt["reply"]}
    for name, text in {**texts, "refusal": attempt["refusal"]}.items():
        if text.strip() or name == "reply":
            yield Text(f"{name.capitalize()}:", style="bold dim")
            yield _indented(text or "(empty)")
    if logprobs := [token["logprob"] for token in attempt["tokens"]]:
        mean, lowest = sum(logprobs) / len(logprobs), min(logprobs)
        count = f"{len(logprobs):,} tokens with log-probabilities"
        yield Text(f"{count}: mean {mean:.2f}, lowest {lowest:.2f}", style="dim")


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
    yield from (f"{name} {value}" for name, value in attempt["sampling"].items() if value)


def _indented(text: str, length: int = MAX_TEXT) -> RenderableType:
    return Padding(Text(printable_lines(text.strip("\n"), length)), (0, 0, 0, 2))


def _draw_prompt(attempt: AttemptJson) -> Iterator[RenderableType]:
    messages = attempt["messages"]
    repeated = [message for message in messages if message["sent_before"]]
    count = attempt["unchanged"] + len(repeated)
    if count:
        characters = sum(len(text) for message in repeated for _, text in message["parts"])
        characters += attempt["unchanged_characters"]
        yield hint(f"{count:,} messages as in the last request, {characters:,} characters")
    for message in messages:
        if not message["sent_before"]:
            yield Text(f"{printable_lines(message['role'])}:", style="bold dim")
            yield from (_draw_part(kind, text) for kind, text in message["parts"])
    if attempt["more_messages"]:
        yield hint(f"and {attempt['more_messages']:,} more messages, not shown: too long")


def _draw_part(kind: str, text: str) -> RenderableType:
    if kind == "same":
        return hint(f"  {text.count(chr(10)) + 1} lines as before")
    sign, style = ("+", "green") if kind == "added" else ("-", "red")
    lines = printable_lines(text.rstrip("\n")).split("\n")
    return Text("\n".join(f"{sign} {line}" for line in lines), style)
