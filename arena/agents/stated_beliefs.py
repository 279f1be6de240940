"""Beliefs of a model about hidden facts, which it states beside its chat.

After a decision the model is asked with the messages of the decision's last request; neither the
question nor the answer enters the chat. Models that keep a notebook in their replies are not asked:
it is read. The game scores both.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from arena.agents.agent import Seat
from arena.agents.chat import Attempt, attempts_in
from arena.agents.chat_agent import ChatAgent
from arena.agents.notebook import ModelNotebook, split_entry
from arena.core.analysis import PlacedKnowledge
from arena.core.errors import BackendError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.llm.backend import Message


class BeliefObserver:
    """Plays as a chat agent does, and adds to each decision what the model believes."""

    def __init__(self, agent: ChatAgent, seat: Seat) -> None:
        self._agent = agent
        self._seat = seat
        self._notebook: ModelNotebook | None = None

    async def act(self, observation: Observation) -> Decision:
        decision = await self._agent.act(observation)
        self._read(attempts_in(decision))
        text = observation.game.text
        question = text.belief_question(observation)
        if question is None:
            return decision
        if self._notebook is None:
            beliefs = await self._ask(question, observation)
        else:
            statement = self._notebook.statement()
            beliefs = {"reply": statement, **text.read_beliefs(statement, observation)}
        return replace(decision, details={"beliefs": beliefs, **decision.details})

    def follow(self, observation: Observation, decision: Decision) -> None:
        """Continue the chat by a recorded decision, as the chat agent does."""
        self._agent.follow(observation, decision)
        self._read(attempts_in(decision))

    async def _ask(self, question: str, observation: Observation) -> dict[str, JsonValue]:
        """Return the answer with its scores and its cost."""
        last = self._agent.last_request
        request = replace(
            last,
            messages=(*last.messages, Message("user", question)),
            sampling=replace(last.sampling, seed=self._seat.rng.getrandbits(31)),
            # The answer is free text, not an action, so no guidance.
            guided_choice=(),
            guided_json=None,
            tools=(),
        )
        try:
            completion = await self._agent.llm.complete(self._agent.spec, request)
        except BackendError as error:
            return {"failure": "provider_error", "cause": error.cause}
        return {
            "reply": completion.text,
            "prompt_tokens": completion.usage.prompt_tokens,
            "completion_tokens": completion.usage.completion_tokens,
            "cost": completion.cost,
            **observation.game.text.read_beliefs(completion.text, observation),
        }

    def _read(self, attempts: list[Attempt]) -> None:
        """Read the notebook entries of the replies, if there are any."""
        for attempt in attempts:
            notebook = self._notebook or self._new_notebook(attempt.reply)
            if notebook is not None:
                notebook.read(attempt.reply)
                # Other models may write notes of any form between the same marks.
                self._notebook = notebook if notebook.left else self._notebook

    def _new_notebook(self, reply: str) -> ModelNotebook | None:
        """Return an empty notebook if this reply has an entry and the game has places."""
        if not split_entry(reply)[0]:
            return None
        knowledge = self._seat.game.analysis.knowledge(self._seat.player)
        if not isinstance(knowledge, PlacedKnowledge):
            return None
        return ModelNotebook(knowledge.placement())
