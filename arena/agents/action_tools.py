"""Functions for the form of answers "tools": one for each kind of action of a game."""

from __future__ import annotations

from functools import lru_cache

from pydantic import JsonValue

from arena.agents.reply.phrasebook import field_names
from arena.core.action import Action, Speech
from arena.core.game import Game
from arena.llm.backend import Tool

MAX_VALUES = 500
"""Values of all enumerations; OpenAI accepts no more. Without them a field is any string."""


@lru_cache(maxsize=32)
def action_tools(game: Game) -> tuple[Tool, ...]:
    """Return the functions of a game, named like the classes of its actions.

    They cover all actions of the game, not the legal ones of a position: providers cache prompts
    from their start, and functions come before everything else.
    """
    kinds: dict[str, list[Action]] = {}
    for action in game.actions:
        kinds.setdefault(type(action).__name__, []).append(action)
    values = {
        (kind, field): list(dict.fromkeys(str(getattr(action, field)) for action in actions))
        for kind, actions in kinds.items()
        for field in field_names(actions[0])
    }
    is_small = sum(map(len, values.values())) <= MAX_VALUES
    tools = [
        Tool(
            kind,
            f"Take this action, for example: {actions[0]}",
            _schema({f: values[kind, f] for f in field_names(actions[0])}, is_small),
        )
        for kind, actions in kinds.items()
    ]
    return (*tools, *map(_speech_tool, game.actions.speech))


def _speech_tool(kind: type[Speech]) -> Tool:
    schema = _schema({"text": []}, with_values=False)
    return Tool(kind.__name__, f"Take this action: {kind.notation()}", schema)


def _schema(fields: dict[str, list[str]], with_values: bool) -> dict[str, JsonValue]:
    # The thoughts come first, so that a model without thinking of its own thinks before it acts.
    properties: dict[str, JsonValue] = {"thoughts": {"type": "string"}}
    for name, values in fields.items():
        enumeration: dict[str, JsonValue] = {"enum": [*values]} if with_values else {}
        properties[name] = {"type": "string", **enumeration}
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
