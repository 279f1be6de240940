"""System prompts by name.

They are the catalog's kind `prompt`: functions of the game, the form of an answer and the limit of
turns.
"""

from __future__ import annotations

from pathlib import Path

from arena.agents.chat import HOW_TO_ANSWER, AnswerForm, rule_details, system_message
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.plugins.loader import catalog


def system_prompt(
    name: str, game: Game, answers: AnswerForm = "text", turn_limit: int | None = None
) -> str:
    """Return the system prompt of a catalog name or of a file `….txt`.

    In a file, `{rules}` is replaced by the rules of the game, `{answer}` by the answer format and
    `{details}` by details of the rules. Raises UsageError for an unknown name or a file that cannot
    be read.
    """
    if not name.endswith(".txt"):
        prompt: str = catalog().load("prompt", name)(game, answers, turn_limit)
        return prompt
    try:
        text = Path(name).read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prompt {name}: {error}") from error
    if not text:
        raise UsageError(f"--prompt {name}: the file is empty")
    return fill_in(text, game, answers, turn_limit)


def fill_in(
    text: str, game: Game, answers: AnswerForm = "text", turn_limit: int | None = None
) -> str:
    """Replace `{rules}`, `{answer}` (how to answer) and `{details}` (of the rules)."""
    # Not `format`: the text may hold other braces, for example JSON.
    parts = {
        "{rules}": game.text.rules(),
        "{answer}": HOW_TO_ANSWER[answers],
        "{details}": rule_details(game, turn_limit),
    }
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def rules(game: Game, answers: AnswerForm, turn_limit: int | None) -> str:
    """Return the rules, the notation of actions and the answer format."""
    return system_message(game, answers, turn_limit).content


THINK_FIRST = (
    "Before you act, think step by step, in a few short lines: what is certain by now, what the "
    "last moves tell you, and which action gains most. {then}"
)
ANSWER_LAST: dict[AnswerForm, str] = {
    "text": "Then write your action alone on the last line.",
    "json": "These lines belong into the thoughts.",
    "tools": "These lines belong into the thoughts.",
}


def reason(game: Game, answers: AnswerForm, turn_limit: int | None) -> str:
    """Return the rules with a request to think in a few steps before acting."""
    return f"{rules(game, answers, turn_limit)}\n{THINK_FIRST.format(then=ANSWER_LAST[answers])}"


def brief(game: Game, answers: AnswerForm, turn_limit: int | None) -> str:
    """Return the notation only: one example of each type of action."""
    # In reverse, so that the first action of each type is the one that stays; then reversed again
    # for the order of the game.
    examples = {type(action): str(action) for action in reversed(game.actions)}
    forms = " | ".join(reversed(examples.values()))
    how = "Answer with one action, nothing else." if answers == "text" else HOW_TO_ANSWER[answers]
    return f"You play {game.name}. Actions look like: {forms}\n{how}"
