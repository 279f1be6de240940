"""System prompts by name.

They are the catalog's kind `prompt`: functions of the game, the form of an answer and the limit of
turns.
"""

from __future__ import annotations

from pathlib import Path

from arena.agents.chat import HOW_TO_ANSWER, AnswerForm, rule_details, system_message
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.plugins.catalog import catalog


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
    # Not `format`: the text may hold other braces, for example JSON.
    parts = {
        "{rules}": game.text.rules(),
        "{answer}": HOW_TO_ANSWER[answers],
        "{details}": rule_details(game, turn_limit),
    }
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def rules(game: Game, answers: AnswerForm, turn_limit: int | None) -> str:
    """Return the rules, the notation of actions and the answer format."""
    return system_message(game, answers, turn_limit).content


def brief(game: Game, answers: AnswerForm, turn_limit: int | None) -> str:
    """Return the notation only: one example of each type of action."""
    # In reverse, so that the first action of each type is the one that stays; then reversed again
    # for the order of the game.
    examples = {type(action): str(action) for action in reversed(game.actions)}
    forms = " | ".join(reversed(examples.values()))
    how = "Answer with one action, nothing else." if answers == "text" else HOW_TO_ANSWER[answers]
    return f"You play {game.name}. Actions look like: {forms}\n{how}"
