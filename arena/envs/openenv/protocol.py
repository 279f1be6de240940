"""Messages of a session (calls, observation, state), and a client that sends them.

An action is OpenEnv's `CallToolAction`: the name of a function and its arguments. With
`metadata={"turn": N}` it answers the decision of that number only. A program that trains plays so:

    with GameClient("http://127.0.0.1:8000").sync() as env:
        result = env.reset(seed=7)
        while not result.done:
            action = call("Suggest", suspect="Miss Scarlett", weapon="Rope", room="Hall")
            result = env.step(action)
"""

from __future__ import annotations

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool
from openenv.core.env_server.types import State
from pydantic import Field, JsonValue

from arena.agents.action_tools import action_tools, called_action
from arena.core.action import Action
from arena.core.errors import InvalidAction, UsageError
from arena.core.game import Game


class GameObservation(CallToolObservation):
    """What the seat of this session may know, when it must decide or the game is over.

    `result` is the text: everything after a reset, then what is new. `error` says why a call was
    refused; the game has not advanced then, and the same decision is awaited.
    """

    tool_name: str = Field(default="", description="The function that was called; '' for a reset")
    rules: str = Field(default="", description="Rules and notation, after a reset")
    seat: int = Field(description="Seat of this session, from 0")
    turn: int = Field(description="Number of the decision that is awaited, from 0")
    legal_actions: list[str] = Field(description="The actions that are legal now, as text")
    outcome: str = Field(default="", description="Why the game has ended, '' while it goes on")
    terms: dict[str, float] = Field(
        default_factory=dict, description="Terms of the reward, at the end"
    )


class GameState(State):
    """Public facts of a session. It holds neither the seed nor anything that is hidden."""

    game: str = Field(description="Name of the game")
    players: int = Field(description="Number of seats")
    seat: int | None = Field(default=None, description="Seat of this session")
    turn: int = Field(default=0, description="Number of the decision that is awaited, from 0")
    done: bool = Field(default=False, description="Whether the episode is over")


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
        return called_action(game, action.tool_name, arguments, [REPLY])
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


def call(function: str, turn: int | None = None, /, **arguments: JsonValue) -> CallToolAction:
    """Return the call of a function, as the answer to the decision of number `turn`."""
    metadata = {} if turn is None else {"turn": turn}
    return CallToolAction(tool_name=function, arguments=arguments, metadata=metadata)


class GameClient(EnvClient[CallToolAction, GameObservation, GameState]):
    """Plays one session of a server. It is async; `sync()` returns a client without `await`."""

    def _step_payload(self, action: CallToolAction) -> dict[str, JsonValue]:
        payload: dict[str, JsonValue] = action.model_dump(mode="json")
        return payload

    def _parse_result(self, payload: dict[str, JsonValue]) -> StepResult[GameObservation]:
        fields = payload["observation"]
        assert isinstance(fields, dict)
        reward, done = payload["reward"], payload["done"]
        observation = GameObservation.model_validate({**fields, "reward": reward, "done": done})
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, JsonValue]) -> GameState:
        state: GameState = GameState.model_validate(payload)
        return state
