"""System prompts by name: what a model is told before a game.

The catalog's kind `prompt`; each is a function of the game and of how the model is to answer.
"""

from __future__ import annotations

from pathlib import Path

from arena import Game
from arena.agents.prompt import HOW_TO_ANSWER, AnswerForm, system_message
from arena.core.errors import UsageError
from arena.plugins.loader import catalog


def system_prompt(name: str, game: Game, answers: AnswerForm = "text") -> str:
    """The system prompt that --prompt names: a name of the catalog, or a file `….txt`.

    In a file, `{rules}` stands for the rules of the game and `{answer}` for how to answer. Raises
    UsageError for an unknown name or a file that cannot be read.
    """
    if name.endswith(".txt"):
        return _read(Path(name), game, answers)
    text: str = catalog().load("prompt", name)(game, answers)
    return text


def _read(path: Path, game: Game, answers: AnswerForm) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prompt {path}: {error}") from error
    if not text:
        raise UsageError(f"--prompt {path}: the file is empty")
    return text.replace("{rules}", game.rules()).replace("{answer}", HOW_TO_ANSWER[answers])


def rules(game: Game, answers: AnswerForm) -> str:
    """The rules, the notation of actions, and how to answer."""
    return system_message(game, answers).content


STEPS = (
    "Before you act, think step by step, in a few short lines: what is certain by now, what the "
    "last moves tell you, and which action gains most. {then}"
)
THEN: dict[AnswerForm, str] = {
    "text": "Then write your action alone on the last line.",
    "json": "These lines belong into the thoughts.",
}


def reason(game: Game, answers: AnswerForm) -> str:
    """The rules, and to think in a few steps before acting."""
    return f"{rules(game, answers)}\n{STEPS.format(then=THEN[answers])}"


def brief(game: Game, answers: AnswerForm) -> str:
    """How actions are written, by one example of each kind, and no rules."""
    examples = {type(action): str(action) for action in reversed(game.actions)}
    forms = " | ".join(reversed(examples.values()))
    how = HOW_TO_ANSWER["json"] if answers == "json" else "Answer with one action, nothing else."
    return f"You play {game.name}. Actions look like: {forms}\n{how}"
