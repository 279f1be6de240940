"""Beliefs of a model about hidden facts, which it states beside its chat.

They are asked for with the chat of a decision, and neither question nor answer enters it; or they
are read from the notebook that some models keep in their replies. The game scores them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import JsonValue

from arena.agents.notebook import ModelNotebook, split_entry
from arena.core.analysis import PlacedKnowledge
from arena.core.errors import BackendError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.llm.backend import Completion, Message, Request

SPENT = ("prompt_tokens", "completion_tokens", "cost")
"""Fields of an answer that say what it has cost."""
Complete = Callable[[Request], Awaitable[Completion]]
"""Sends a request to the model of the seat."""


class StatedBeliefs:
    """Statements of one seat in one game; `record` holds those of the present decision."""

    def __init__(self, game: Game, player: int) -> None:
        self._game = game
        self._player = player
        self._notebook: ModelNotebook | None = None
        self.record: dict[str, JsonValue] = {}

    def question(self, observation: Observation) -> str | None:
        """Begin a decision; return what to ask, None if nothing needs to be asked."""
        self.record = {}
        has_notebook = self._notebook is not None
        return None if has_notebook else observation.game.text.belief_question(observation)

    async def ask(
        self, question: str, request: Request, observation: Observation, complete: Complete
    ) -> None:
        """Ask with the chat of a request, and record the answer."""
        messages = (*request.messages, Message("user", question))
        # The answer is free text, not an action, so no guidance.
        request = replace(request, messages=messages, guided_choice=(), guided_json=None, tools=())
        try:
            completion = await complete(request)
        except BackendError as error:
            self.record = {"failure": "provider_error", "cause": error.cause}
            return
        usage = completion.usage
        # An answer from the cache is not paid for again.
        cost = 0.0 if completion.cached else completion.cost
        spent = (usage.prompt_tokens, usage.completion_tokens, cost)
        scores = observation.game.text.read_beliefs(completion.text, observation)
        self.record = {"reply": completion.text, **dict(zip(SPENT, spent, strict=True)), **scores}

    def read(self, reply: str) -> None:
        """Read the notebook entry of a reply, if it has one."""
        notebook = self._notebook or self._new_notebook(reply)
        if notebook is not None:
            notebook.read(reply)
            # Other models may write notes of any form between the same marks.
            self._notebook = notebook if notebook.left else self._notebook

    def score(self, observation: Observation) -> None:
        """Replace the record by what the notebook says, if there is one.

        What a question has cost, before the notebook was known, stays in the record.
        """
        text = observation.game.text
        if self._notebook is None or text.belief_question(observation) is None:
            return
        statement = self._notebook.statement()
        spent = {name: self.record[name] for name in SPENT if name in self.record}
        self.record = {"reply": statement, **spent, **text.read_beliefs(statement, observation)}

    def forget(self) -> None:
        """Begin the notebook again: the chat is rebuilt, without its entries."""
        if self._notebook is not None:
            self._notebook.forget()

    def _new_notebook(self, reply: str) -> ModelNotebook | None:
        """Return an empty notebook if this reply has an entry and the game has places."""
        if not split_entry(reply)[0]:
            return None
        knowledge = self._game.analysis.knowledge(self._player)
        if not isinstance(knowledge, PlacedKnowledge):
            return None
        return ModelNotebook(knowledge.placement())
