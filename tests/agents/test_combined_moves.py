"""Replies that decide a whole turn, and the examples in a prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from random_games import walk

from arena.agents.chat import AnswerForm, Chat, ChatOptions, opening
from arena.agents.reply.reader import read_reply
from arena.core.event import Ply
from arena.core.observation import CombinedMove
from arena.episodes.match import Match, play
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend
from games.cluedo.rules.events import Refuted, Suggest

CLUEDO = make_game("cluedo", players=3)
SUGGESTION = "suggest Mrs White, Rope, Hall"


def combined_move() -> CombinedMove:
    assert CLUEDO.text.combined_move is not None
    return CLUEDO.text.combined_move


def played(announcement: str, seed: int) -> tuple[Sequence[Ply], ScriptedBackend]:
    """Play with a model that suggests the same cards in each turn."""

    def reply(request: Request) -> str:
        question = request.messages[-1].content
        _, shows, cards = question.rpartition("Show one of your cards: ")
        if shows:
            return f"Action: show {cards.split(' | ')[0].rstrip('.').removeprefix('show ')}"
        return (
            f"Action: {SUGGESTION}{announcement}" if "suggest SUSPECT" in question else "end turn"
        )

    backend = ScriptedBackend(reply)

    async def go() -> Sequence[Ply]:
        async with LLMService() as llm:
            llm.add("scripted", backend)
            specs = ["scripted", "bot:novice", "bot:novice"]
            match = Match(CLUEDO, specs, seed, chat=ChatOptions(combined=True), max_turns=9)
            episode = await play(match, llm=llm)
            tally = llm.ledger.tally("scripted")
            asked = [ply for ply in episode.plies if ply.player == 0 and ply.decision.details]
            assert tally.decisions == len(asked) and not tally.fallbacks
            return episode.plies

    return asyncio.run(go()), backend


def test_a_turn_needs_one_call() -> None:
    plies, backend = played("; end turn", seed=1)
    plies = [ply for ply in plies if ply.player == 0 and ply.decision.details]
    kinds = [str(ply.decision.action).split()[0] for ply in plies]
    assert kinds.count("end") == kinds.count("suggest") > 1
    assert len(backend.requests) == len(plies) - kinds.count("end")
    ends = [ply.decision for ply in plies if str(ply.decision.action) == "end turn"]
    assert all(decision.details == {"announced": "end turn"} for decision in ends)


def test_an_accusation_follows_only_if_nobody_refutes() -> None:
    accused = ended = 0
    for seed in range(30):
        plies = played("; accuse if nobody refutes.", seed)[0]
        refuted = False
        for ply in plies:
            action = str(ply.decision.action)
            if ply.player == 0 and action == SUGGESTION:
                refuted = False
            refuted |= any(isinstance(event, Refuted) for event in ply.events)
            if "announced" in ply.decision.details:
                assert action == (
                    "end turn" if refuted else SUGGESTION.replace("suggest", "accuse")
                )
                accused += not refuted
                ended += refuted
    assert accused and ended


@pytest.mark.parametrize(
    ("reply", "announced"),
    [
        (f"Action: {SUGGESTION}; accuse if nobody refutes", "accuse if nobody refutes"),
        (f"Action: {SUGGESTION}; then accuse if no one can refute.", "accuse if no one can refute"),
        (f"**Action: {SUGGESTION}; end turn**\n", "end turn"),
        (json.dumps({"thoughts": "", "action": f"{SUGGESTION}; end turn"}), "end turn"),
        (f"Action: {SUGGESTION}", ""),
        (f"I could add '; accuse if nobody refutes'.\nAction: {SUGGESTION}", ""),
    ],
)
def test_announcements_are_read_at_the_end_only(reply: str, announced: str) -> None:
    rest, found = combined_move().split(reply)
    assert found == announced
    assert str(read_reply(rest, next(walk(CLUEDO, 1)).observe(0)).action) == SUGGESTION


def test_an_announcement_without_a_suggestion_is_dropped() -> None:
    """It fits no later decision."""
    observation = next(walk(CLUEDO, 1)).observe(0)
    assert observation.legal_actions.of(Suggest)
    assert combined_move().follow_up(observation, "end turn") is None


def test_the_instruction_is_given_only_if_wanted() -> None:
    for game, offered in ((CLUEDO, True), (make_game("kuhn_poker"), False)):
        for combined in (False, True):
            text = opening(game, ChatOptions(combined=combined), "notes")[0].content
            assert ("accuse if nobody refutes" in text) == (offered and combined)


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
