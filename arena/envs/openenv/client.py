"""Client of a hosted game, for programs that train.

with GameClient("http://127.0.0.1:8000").sync() as env:
    result = env.reset(seed=7)
    while not result.done:
        result = env.step(call("Suggest", suspect="Miss Scarlett", weapon="Rope", room="Hall"))
"""

from __future__ import annotations

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction
from pydantic import JsonValue

from arena.envs.openenv.protocol import GameObservation, GameState


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
