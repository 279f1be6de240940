"""A player as an A2A server, made with the official SDK; a test starts it as a process.

    python a2a_player.py BEHAVIOUR [LOG]

It prints its URL. BEHAVIOUR is one of the methods of `Player`. With LOG, the parts of each message
and its context are appended to that file, one JSON object to a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from a2a.helpers import (
    get_data_parts,
    get_text_parts,
    new_data_part,
    new_message,
    new_task_from_user_message,
    new_text_part,
)
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette


class Player(AgentExecutor):
    """Plays the first legal action, and answers as its behaviour says."""

    def __init__(self, behaviour: str, log: Path | None) -> None:
        self.behaviour, self.log, self.asked = behaviour, log, 0

    async def execute(self, context: Any, event_queue: Any) -> None:
        message = context.message
        data = get_data_parts(message.parts)
        if self.log is not None:
            texts = get_text_parts(message.parts)
            line = json.dumps({"context": message.context_id, "texts": texts, "data": data})
            with self.log.open("a") as file:
                file.write(line + "\n")
        self.asked += 1
        action = data[-1]["legal_actions"][0]
        if context.current_task is None and self.behaviour not in ("data", "text", "prose"):
            await event_queue.enqueue_event(new_task_from_user_message(message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await getattr(self, self.behaviour)(task, action)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _say(self, task: Any, *parts: Any) -> None:
        await task.event_queue.enqueue_event(new_message([*parts], task.context_id))

    async def data(self, task: Any, action: str) -> None:
        answer = {"action": action, "comment": "the first one"}
        await self._say(task, new_text_part("Here:"), new_data_part(answer))

    async def text(self, task: Any, action: str) -> None:
        await self._say(task, new_text_part(f"I think about it.\nAction: {action}"))

    async def prose(self, task: Any, action: str) -> None:
        await self._say(task, new_text_part("What a fine day."))

    async def artifact(self, task: Any, action: str) -> None:
        await task.add_artifact([new_text_part(f"Action: {action}")])
        await task.complete(task.new_agent_message([new_text_part("Done.")]))

    async def conversation(self, task: Any, action: str) -> None:
        await task.add_artifact([new_text_part("Action: fly away")])
        await task.requires_input(task.new_agent_message([new_text_part(f"Action: {action}")]))

    async def refusal(self, task: Any, action: str) -> None:
        if self.asked > 1:
            await self.artifact(task, action)
        else:
            await task.failed(task.new_agent_message([new_text_part("out of tokens")]))

    async def silence(self, task: Any, action: str) -> None:
        await asyncio.sleep(3600)

    async def death(self, task: Any, action: str) -> None:
        if self.asked == 2:
            os._exit(1)
        await self.artifact(task, action)


def card(url: str, version: str = "1.0") -> AgentCard:
    return AgentCard(
        name="first of all",
        description="plays the first legal action",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(),
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version)
        ],
        skills=[AgentSkill(id="play", name="play", description="plays", tags=["game"])],
    )


def main(behaviour: str, log: str = "", version: str = "1.0") -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    player = Player(behaviour, Path(log) if log else None)
    # As many agents do, the card names a host that only the agent knows.
    stated = card(f"http://0.0.0.0:{port}/", version)
    handler = DefaultRequestHandler(player, InMemoryTaskStore(), stated)
    routes = create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)
    app = Starlette(routes=[*create_agent_card_routes(stated), *routes])
    print(f"http://127.0.0.1:{port}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
