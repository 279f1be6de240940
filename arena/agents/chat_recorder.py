"""Recorder of bots' decisions as the answers of a chat, for demonstrations and estimates."""

from __future__ import annotations

from arena.agents.agent import Agent
from arena.agents.chat import Chat
from arena.core.action import Action
from arena.core.event import Decision
from arena.core.observation import Observation


class ChatRecorder:
    """Plays as `bot`, and records its decisions as answers in `chat`.

    Subclasses extend `on_request` and `reply`. A recorder is an agent, so the `bot` may be another
    recorder: one game then gives several forms of the chat.
    """

    def __init__(self, bot: Agent, chat: Chat) -> None:
        self.chat = chat
        self._bot = bot

    async def act(self, observation: Observation) -> Decision:
        self.chat.ask(observation)
        self.on_request(observation)
        decision = await self._bot.act(observation)
        self.chat.add_reply(self.reply(decision.action))
        return decision

    def on_request(self, observation: Observation) -> None:
        """Do nothing; called when the chat ends with the question for a decision."""

    def reply(self, action: Action) -> str:
        """Return the reply for an action: its text alone."""
        return str(action)
