"""The policy of a language model as a table of action probabilities by information set.

For a small game this makes the strength of a model exact: `exact.exploitability` takes
the table as a policy. At each information set the chat is the one that a `ChatAgent` would send,
with the model's own earlier answers. The probability of an action is that of its text followed by
the end of the answer. Other texts that name the action (a sentence around it, another tokenization)
count as illegal. The legal actions are scaled to sum to 1; `PolicyRow.illegal` is the rest.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from exact_policies import information_sets

from arena.agents.chat import Chat, ChatOptions, opening
from arena.core.action import Action
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.evaluation.exact.game_tree import InformationSet, Situation
from arena.llm.backend import Message, Request
from arena.llm.service import LLMService


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The policy at one information set."""

    probabilities: Mapping[Action, float]
    """Probabilities of the legal actions, scaled to sum to 1."""
    illegal: float
    """Probability of all other answers, before scaling."""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The policy of a model at every information set. Call it with an observation."""

    rows: Mapping[InformationSet, PolicyRow]

    def __call__(self, observation: Observation) -> Mapping[Action, float]:
        return self.rows[InformationSet.of(observation)].probabilities


async def tabulate(
    game: Game,
    llm: LLMService,
    spec: str,
    options: ChatOptions | None = None,
    text_level: TextLevel = "notes",
) -> PolicyTable:
    """Compute the probability of each legal action at each information set of a model.

    The backend must follow `guided_choice` and report log-probabilities without the mask, as the
    embedded one does. Each legal action is requested as the only choice, and the log-probabilities
    of its tokens are summed: log p(action) = sum_t log p(token_t | chat, tokens before t). This is
    the policy of unconstrained sampling at temperature 1.

    Raises:
        UsageError: The options or the backend do not support this.
        BackendError: A request failed.
    """
    options = options or ChatOptions()
    situations = information_sets(game)
    source = _RowSource(game, llm, spec, options, text_level)
    # One task per row: the service limits the number of concurrent calls.
    rows = await asyncio.gather(*(source.row(situation) for situation in situations.values()))
    return PolicyTable(dict(zip(situations, rows, strict=True)))


@dataclass(frozen=True, slots=True)
class _RowSource:
    """The model and the options of all requests."""

    game: Game
    llm: LLMService
    spec: str
    options: ChatOptions
    text_level: TextLevel

    async def row(self, situation: Situation) -> PolicyRow:
        chat = self._chat(situation)
        legal = situation.observation.legal_actions
        # log p(action) in nats, in the order of the legal actions.
        logs = await asyncio.gather(*(self._log_probability(chat, str(a)) for a in legal))
        # The texts differ, so the answers exclude each other and their probabilities add up.
        legal_mass = math.fsum(map(math.exp, logs))
        # Softmax with the maximum subtracted: exp(logs) may underflow to 0 for all legal actions.
        weights = [math.exp(log - max(logs)) for log in logs]
        total = math.fsum(weights)
        probabilities = {a: weight / total for a, weight in zip(legal, weights, strict=True)}
        # Rounding may bring the sum slightly above 1.
        return PolicyRow(probabilities, illegal=max(0.0, 1.0 - legal_mass))

    def _chat(self, situation: Situation) -> tuple[Message, ...]:
        """Return the chat up to the decision, with the player's own moves as answers."""
        limit = self.game.default_max_turns
        first = opening(self.game, self.options, self.text_level, limit)
        chat = Chat(first, self.options.chat, self.text_level)
        for move in situation.before:
            chat.ask(move.observation)
            chat.add_reply(str(move.action))
        chat.ask(situation.observation)
        return tuple(chat.messages)

    async def _log_probability(self, chat: tuple[Message, ...], text: str) -> float:
        request = Request(
            chat,
            # With one choice sampling has no freedom: the seed does not matter. A stop text could
            # cut the answer before its end token, whose probability belongs to the action.
            replace(self.options.sampling, stop=(), seed=0, n=1),
            logprobs=True,
            guided_choice=(text,),
        )
        choice = (await self.llm.complete(self.spec, request)).choices[0]
        if choice.text != text or choice.finish_reason != "stop" or not choice.tokens:
            raise UsageError(
                f"{self.spec} got '{text}' as its only choice and answered {choice.text!r} "
                f"({choice.finish_reason}) with {len(choice.tokens)} log-probabilities: to "
                "tabulate a policy, the backend must follow guided_choice to its end"
            )
        return math.fsum(token.logprob for token in choice.tokens)
