"""A language model's policy as a table: how likely each legal action is, at each information set.

On a small game that makes a model's strength exact: `arena.evaluation.exploitability` takes the
table as a policy. At each information set the chat is what a `ChatAgent` would have sent, the
model's own earlier answers included, and an action's probability is that of its text and the end of
the answer. Other ways to name the action (a sentence around it, other tokens for the same text)
count as illegal, and the legal actions are scaled to add up to 1, so the table says how much was
missing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from arena.agents.prompt import Chat, ChatOptions
from arena.core.action import Action
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.evaluation.exploitability import InformationSet, Situation, information_sets
from arena.llm.backend import Message, Request
from arena.llm.service import LLMService


@dataclass(frozen=True, slots=True)
class Row:
    """What the model does in one situation."""

    probabilities: Mapping[Action, float]
    """Of the legal actions, scaled to add up to 1."""
    illegal: float
    """The probability of everything else that it might have said."""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The policy of a model on every information set; call it with an observation."""

    rows: Mapping[InformationSet, Row]

    def __call__(self, observation: Observation) -> Mapping[Action, float]:
        return self.rows[InformationSet.of(observation)].probabilities

    @property
    def illegal(self) -> float:
        """The mean over information sets of what was not a legal action."""
        return math.fsum(row.illegal for row in self.rows.values()) / len(self.rows)


async def tabulate(
    game: Game,
    llm: LLMService,
    spec: str,
    options: ChatOptions | None = None,
    text_level: TextLevel = "notes",
    policy_version: int | None = None,
) -> PolicyTable:
    """Ask the model of SPEC for the probability of each legal action at each information set.

    The backend must follow `guided_choice` and report log-probabilities without the mask, as the
    embedded one does: each legal action is requested as the only choice, and its tokens'
    log-probabilities are added up. So the table is that of sampling at temperature 1 without a
    guide. Raises UsageError for other options and other backends, and BackendError.
    """
    options = options or ChatOptions()
    _check(options)
    situations = information_sets(game)
    asking = _Asking(game, llm, spec, options, text_level, policy_version)
    # One task per row, however many: the service limits how many calls are in flight.
    rows = await asyncio.gather(*(asking.row(situation) for situation in situations.values()))
    return PolicyTable(dict(zip(situations, rows, strict=True)))


@dataclass(frozen=True, slots=True)
class _Asking:
    game: Game
    llm: LLMService
    spec: str
    options: ChatOptions
    text_level: TextLevel
    policy_version: int | None

    async def row(self, situation: Situation) -> Row:
        chat = self._chat(situation)
        legal = situation.observation.legal_actions
        found = await asyncio.gather(*(self._log_probability(chat, str(a)) for a in legal))
        weights = [math.exp(value) for value in found]
        total = math.fsum(weights)
        # Scaled before exp, so that a model that hardly ever is legal has a policy, too.
        scaled = [math.exp(value - max(found)) for value in found]
        return Row(
            {a: w / math.fsum(scaled) for a, w in zip(legal, scaled, strict=True)},
            max(0.0, 1.0 - total),
        )

    def _chat(self, situation: Situation) -> tuple[Message, ...]:
        """The chat up to the decision, with the player's own moves as its answers."""
        chat = Chat(self.game, self.options.chat, self.text_level, system=self.options.system)
        for move in situation.before:
            chat.ask(move.observation)
            chat.answered(str(move.action))
        chat.ask(situation.observation)
        return tuple(chat.messages)

    async def _log_probability(self, chat: tuple[Message, ...], text: str) -> float:
        request = Request(
            chat,
            replace(self.options.sampling, stop=(), seed=0, n=1),
            logprobs=True,
            guided_choice=(text,),
            policy_version=self.policy_version,
        )
        choice = (await self.llm.complete(self.spec, request)).choices[0]
        if choice.text != text or choice.finish_reason != "stop" or not choice.tokens:
            raise UsageError(
                f"{self.spec} was given '{text}' as its only choice and answered {choice.text!r} "
                f"({choice.finish_reason}) with {len(choice.tokens)} log-probabilities: a policy "
                "can be tabulated only where guided_choice is followed to its end"
            )
        return math.fsum(token.logprob for token in choice.tokens)


def _check(options: ChatOptions) -> None:
    sampling = options.sampling
    if (sampling.temperature, sampling.top_p) != (1.0, 1.0) or options.guided:
        raise UsageError("a policy is tabulated at temperature=1, top_p=1 and without a guide")
    if options.answers != "text":
        raise UsageError(f"answers='{options.answers}': a policy is tabulated from text answers")
