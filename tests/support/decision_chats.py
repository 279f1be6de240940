"""What a model reads at each information set of a small game, and its policy there, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from arena.agents.chat import Chat, ChatOptions, opening
from arena.core.game import Game
from arena.evaluation.exact import InformationSet, game_tree
from arena.llm.backend import Message
from backends.embedded.sampler import Sampler, SamplingParams


class DecisionChat(NamedTuple):
    """The chat before a decision, with the player's own earlier moves as answers."""

    place: InformationSet
    messages: tuple[Message, ...]
    actions: tuple[str, ...]
    """Texts of the legal actions."""


def decision_chats(game: Game) -> Iterator[DecisionChat]:
    """Yield the chat of each information set, in the order of the game's tree."""
    options = ChatOptions()
    for situation in game_tree(game).situations:
        first = opening(game, options, game.default_max_turns)
        chat = Chat(first, options.chat, "notes")
        for move in situation.before:
            chat.ask(move.observation)
            chat.add_reply(str(move.action))
        chat.ask(situation.observation)
        texts = tuple(map(str, situation.observation.legal_actions))
        place = InformationSet.of(situation.observation)
        yield DecisionChat(place, tuple(chat.messages), texts)


async def action_logprobs(sampler: Sampler, chat: DecisionChat) -> list[float]:
    """Return log p(action) = sum_t log p(token_t | chat, tokens before t) of each legal action.

    An action is its text and the end of the answer. Each is requested as the only choice, and the
    log-probabilities are those without the mask: the policy of unguided sampling at temperature 1.
    """
    prompt = sampler.encode(chat.messages)

    async def logprob(text: str) -> float:
        answer = sampler.generate(prompt, SamplingParams(guided_choice=(text,)))
        return math.fsum([token.logprob async for token in answer])

    return [await logprob(text) for text in chat.actions]
