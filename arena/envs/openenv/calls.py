"""The functions that a session may call, and the actions that calls mean."""

from __future__ import annotations

from openenv.core.env_server.mcp_types import CallToolAction, Tool
from pydantic import JsonValue

from arena.agents.action_tools import action_tools, called_action
from arena.core.action import Action
from arena.core.errors import InvalidAction, UsageError
from arena.core.game import Game

REPLY = "reply"
"""The function that takes a reply in words, for models that call no functions."""
MAX_ARGUMENTS = 65_536
"""Characters of the arguments of one call."""


def served_tools(game: Game) -> list[Tool]:
    """Return the functions of a game: one for each kind of action, and `reply`."""
    tools = []
    for tool in action_tools(game):
        properties = tool.parameters["properties"]
        assert isinstance(properties, dict)
        # Models in training think in their reply, not in an argument.
        fields = {name: field for name, field in properties.items() if name != "thoughts"}
        schema = _schema(fields)
        tools.append(Tool(name=tool.name, description=tool.description, input_schema=schema))
    about = "Answer in words; the action is read from the text, for example 'Action: …'."
    schema = _schema({"text": {"type": "string"}})
    return [*tools, Tool(name=REPLY, description=about, input_schema=schema)]


def _schema(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the JSON schema of arguments, all of which are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def read_call(game: Game, action: CallToolAction) -> Action | str:
    """Return the action of a call, or the text of a `reply`. Raises InvalidAction."""
    arguments = action.arguments
    length = len(str(arguments)) + len(action.tool_name)
    if length > MAX_ARGUMENTS:
        raise InvalidAction(
            f"the call has {length:,} characters; at most {MAX_ARGUMENTS:,} are read"
        )
    if action.tool_name != REPLY:
        return called_action(game, action.tool_name, arguments)
    text = arguments.get("text")
    if not isinstance(text, str) or len(arguments) != 1:
        raise InvalidAction("the call of reply takes one argument, text, a string")
    return text


def turn_number(action: CallToolAction) -> int | None:
    """Return the decision that an action answers. Raises UsageError if it is no whole number."""
    turn = action.metadata.get("turn")
    if turn is not None and type(turn) is not int:
        raise UsageError(f"metadata.turn={turn!r}: give the turn of the observation")
    return turn
