"""Functions for the form of answers "tools": one for each kind of action of a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pydantic import JsonValue

from arena.core.action import Action, field_names
from arena.core.errors import InvalidAction
from arena.core.game import Game
from arena.core.text import shorten
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
    text = _schema({"text": []}, with_values=False)
    for speech in game.actions.speech:
        tools.append(Tool(speech.__name__, f"Take this action: {speech.notation()}", text))
    return tuple(tools)


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


def called_action(
    game: Game, name: str, arguments: Mapping[str, JsonValue], others: Sequence[str] = ()
) -> Action:
    """Return the action that a call of one of the functions means; `thoughts` do not count.

    The action need not be legal now. Case does not matter, neither in the name nor in the values.
    `others` are functions that the caller has beside those of the game, for the error. Raises
    InvalidAction if there is no such function, or its arguments make no action of the game.
    """
    values = {key: value for key, value in arguments.items() if key != "thoughts"}
    for kind in game.actions.speech:
        if kind.__name__.casefold() == name.casefold():
            _check_names(name, values, ["text"])
            return kind.read(str(values["text"]))
    calls = _calls(game)
    kind_name = next((kind for kind in calls if kind.casefold() == name.casefold()), None)
    if kind_name is None:
        known = ", ".join([*(tool.name for tool in action_tools(game)), *others])
        raise InvalidAction(f"there is no function {_quoted(name)}; the functions are: {known}")
    fields, actions = calls[kind_name]
    _check_names(kind_name, values, fields)
    action = actions.get(tuple(str(values[field]).casefold() for field in fields))
    if action is None:
        given = ", ".join(f"{field}={_quoted(values[field])}" for field in fields)
        example = next(iter(actions.values()))
        raise InvalidAction(f"{kind_name}({given}) is no action of this game, but {example} is one")
    return action


def _check_names(name: str, values: Mapping[str, JsonValue], fields: list[str]) -> None:
    """Raise InvalidAction unless exactly these fields have values."""
    missing = [field for field in fields if field not in values]
    unknown = [key for key in values if key not in fields]
    if missing or unknown:
        takes = ", ".join(fields) or "no arguments"
        fault = f"lacks {', '.join(missing)}" if missing else f"has {_quoted(unknown[0])}"
        raise InvalidAction(f"the call of {name} {fault}; it takes {takes}")


def _quoted(value: JsonValue) -> str:
    """Return a value from outside as a short text in quotes."""
    return f"'{shorten(str(value), 60)}'"


@lru_cache(maxsize=32)
def _calls(game: Game) -> dict[str, tuple[list[str], dict[tuple[str, ...], Action]]]:
    """Return for each kind of action its fields, and its actions by the values of the fields."""
    calls: dict[str, tuple[list[str], dict[tuple[str, ...], Action]]] = {}
    for action in game.actions:
        fields, actions = calls.setdefault(type(action).__name__, (field_names(action), {}))
        actions[tuple(str(getattr(action, field)).casefold() for field in fields)] = action
    return calls
