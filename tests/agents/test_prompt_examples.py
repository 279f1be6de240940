"""The examples in a prompt."""

from __future__ import annotations

import pytest
from random_games import walk

from arena.agents.chat import AnswerForm, Chat, ChatOptions, opening
from arena.agents.reply.reader import read_reply
from arena.plugins.loader import make_game

CLUEDO = make_game("cluedo", players=3)


@pytest.mark.parametrize("answers", ["text", "json", "tools"])
@pytest.mark.parametrize("variant", ["cards", "classic"])
def test_examples_are_legal_answers_in_the_form_that_is_asked_for(
    answers: AnswerForm, variant: str
) -> None:
    game = make_game("cluedo", variant=variant, players=4)
    examples = game.text.examples()
    kinds = [type(example.action).__name__ for example in examples]
    assert kinds[:3] == ["Suggest", "Show", "Accuse"] and len(set(kinds)) == len(kinds)
    messages = opening(game, ChatOptions(examples=3, answers=answers), "deductions", 300)
    assert [message.role for message in messages] == ["system", *("user", "assistant") * 3]
    for example, user, assistant in zip(examples, messages[1::2], messages[2::2], strict=False):
        assert user.content == example.observation.text("deductions")
        assert read_reply(assistant.content, example.observation).action == example.action


def test_examples_stay_when_the_chat_is_rebuilt() -> None:
    first = opening(CLUEDO, ChatOptions(examples=2), "notes")
    for mode in ("append", "fresh"):
        chat = Chat(first, mode)
        for state in walk(CLUEDO, 2):
            observation = state.observe(0)
            chat.ask(observation)
            chat.add_reply("Action: end turn")
            assert chat.messages[: len(first)] == first
        assert chat.repeated == (len(first) if mode == "fresh" else len(chat.messages))
        while chat.shorten(observation):
            assert len(chat.messages) == len(first) + 1
