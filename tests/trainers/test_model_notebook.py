"""The model's own notebook: its entries, and how it is learned."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_table import SPEC, table

from arena.agents.chat import ChatOptions
from arena.agents.notebook import (
    NOTES,
    NOTES_END,
    UNKNOWN,
    split_entry,
)
from arena.agents.reply.reader import read_reply
from arena.cli import pretrain as pretrain_command
from arena.cli import run
from arena.core.observation import Observation
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.llm.backend import Request
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend
from trainers.pretrain import pretrain as pretraining
from trainers.pretrain.corpus import Demonstration, demonstrations
from trainers.pretrain.new_model import ends_of_rows, write_new_model
from trainers.pretrain.notebook import ExactNotebook, placed_knowledge
from trainers.pretrain.pretrain import CurvePoint, pretrain, rate_factor
from trainers.pretrain.recipe import SMALL, Recipe, Stage, continuing, make_recipe
from trainers.pretrain.student import Student

CLUEDO = make_game("cluedo", players=3)
RECIPE = replace(
    make_recipe("cluedo", notebook=True), options=SMALL,
    tokens_per_batch=512, hidden_size=32, layers=1, mlp_size=64, warmup_steps=2,
    stages=(Stage(4, {2: 1.0}), Stage(8, {3: 1.0}, redrawn="names_seed", own_rows=0.5)),
)  # fmt: skip


def chats(seeds: range) -> list[Demonstration]:
    return [chat for seed in seeds for chat in demonstrations(RECIPE, Stage(1, {3: 1.0}), seed)]


def observations(seed: int) -> list[Observation]:
    """What seat 0 sees before each of its decisions."""
    episode = asyncio.run(play(Match(CLUEDO, ["bot:detective"] * 3, seed)))
    state, found = CLUEDO.initial_state(), []
    for ply in episode.plies:
        if ply.player == 0:
            found.append(state.observe(0))
        state.apply(ply.player, ply.decision.action)
    return found


def lines_of(entry: str) -> list[str]:
    return entry.removeprefix(NOTES).removesuffix(NOTES_END).splitlines()


def test_an_entry_has_the_exact_places_of_all_cards_that_are_not_in_the_own_hand() -> None:
    notebook, knowledge, read, certain = ExactNotebook(CLUEDO, 0), placed_knowledge(CLUEDO, 0), 0, 0
    for observation in observations(1):
        entry = notebook.entry(observation)
        for event in observation.events_since(read):
            knowledge.update(event)
        read, now = observation.num_events, knowledge.placement()
        if CLUEDO.text.belief_question(observation) is None:
            assert entry == "", "nothing is written before a card is shown"
            continue
        rows = dict(
            line.rsplit(" ", 1)
            for line in lines_of(entry)
            if " has " not in line and " lacks " not in line
        )
        for thing, row in zip(now.things, now.probabilities, strict=True):
            possible = "".join(c for c, p in zip("012E", row, strict=True) if p > 0)
            assert rows.get(thing) == (None if possible == "0" else possible)
        *_, last = lines_of(entry)
        in_envelope = [thing for thing, possible in rows.items() if possible == "E"]
        contents = last.removeprefix("Envelope: ").split("; ")
        assert [thing for thing in contents if thing != UNKNOWN] == in_envelope
        certain += len(in_envelope)
        notebook.read(entry)
        assert all(len(places) for places in notebook.possible.values())
    assert certain > 3


@pytest.mark.parametrize("seed", [1, 2, 4, 6])
def test_who_could_not_show_a_card_is_noted_once(seed: int) -> None:
    notebook, events, noted = ExactNotebook(CLUEDO, 0), list[str](), list[str]()
    for observation in observations(seed):
        events = observation.text("events").splitlines()
        noted += [line for line in lines_of(notebook.entry(observation)) if " lacks " in line]
    expected = []
    for suggestion, line in itertools.pairwise(events):
        seats, mark, _ = line.partition(" cannot refute.")
        others = [seat for seat in seats.split(", ") if mark and seat != "Player 0"]
        if others:
            cards = suggestion.partition(" suggests ")[2].removesuffix(".")
            expected.append(f"{', '.join(others)} lacks {cards}")
    # The last events may be newer than the last entry.
    assert noted and noted == expected[: len(noted)]


def test_each_card_that_a_rival_has_shown_is_listed_until_it_is_known() -> None:
    notebook, open_before, narrowed = ExactNotebook(CLUEDO, 0), list[str](), 0
    count = 0
    for observation in observations(4):
        entry = notebook.entry(observation)
        if not entry:
            continue
        now = notebook._knowledge.placement()
        lines = [line for line in lines_of(entry) if " has " in line]
        for place, things in now.one_of[count:]:
            # What is new is listed in any case.
            assert f"{place} has {' or '.join(things)}" in lines
        count = len(now.one_of)
        for place, things in now.one_of:
            rows = [now.probabilities[now.things.index(thing)] for thing in things]
            column = now.places.index(place)
            if len(things) == 1:
                assert rows[0][column] == 1
            else:
                assert all(0 < row[column] < 1 for row in rows)
                assert sum(row[column] for row in rows) >= 1 - 1e-9
                assert f"{place} has {' or '.join(things)}" in lines
        narrowed += any(" or " not in line and line not in open_before for line in lines)
        open_before = lines
    assert narrowed > 3


def test_a_shown_card_that_is_known_is_listed_until_the_notebook_names_it() -> None:
    *_, observation = observations(4)
    notebook = ExactNotebook(CLUEDO, 0)
    right = notebook.entry(observation)
    known = [line for line in lines_of(right) if " has " in line and " or " not in line]
    assert len(known) > 2
    notebook.read(right.replace(f"{known[0]}\n", ""))
    again = lines_of(notebook.entry(observation))
    assert known[0] in again and not set(known[1:]) & set(again)


def test_the_right_entry_does_not_depend_on_a_false_one() -> None:
    first, second = ExactNotebook(CLUEDO, 0), ExactNotebook(CLUEDO, 0)
    for number, observation in enumerate(observations(1)):
        right = first.entry(observation)
        assert second.entry(observation) == right
        first.read(right)
        if right:
            # The second notebook has a false row in each entry.
            second.read(re.sub(r"\b[0-9]*E\n", "1\n", right, count=1 + number % 3))
    assert first.possible != second.possible


@given(st.text(max_size=200))
def test_any_reply_can_be_read(reply: str) -> None:
    entry, rest = split_entry(reply)
    assert entry + rest == reply
    ExactNotebook(CLUEDO, 0).read(f"{NOTES}{reply}\n{NOTES_END}")


def test_an_entry_is_no_action() -> None:
    for observation in observations(2):
        entry = ExactNotebook(CLUEDO, 0).entry(observation)
        action = observation.legal_actions[0]
        assert read_reply(f"{entry}{action}", observation).action == action
        assert split_entry(f"{entry}{action}") == (entry, str(action))
        assert read_reply(entry, observation).action is None


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Student:
    folder = tmp_path_factory.mktemp("new") / "model"
    return Student(RECIPE, write_new_model(RECIPE, chats(range(12)), folder), "cpu")


def test_entries_are_learned(student: Student) -> None:
    tokenizer, count = student.encoder.tokenizer.tokenizer, 0
    for chat in chats(range(12)):
        [example] = student.encoder.examples([chat])
        written = [
            split_entry(message.content)[0]
            for number, message in enumerate(chat.messages)
            if message.content.startswith(NOTES) and number not in chat.only_read
        ]
        assert [tokenizer.decode(example.ids[a:b].tolist()) for a, b in example.entries] == written
        assert all(example.is_target[a:b].all() for a, b in example.entries)
        count += len(written)
    assert count > 50


def test_a_long_chat_is_shortened_as_in_play_and_each_reply_is_learned_once() -> None:
    deck = {"suspects": 6, "weapons": 6, "rooms": 9}
    others = {"novice": 0.5, "novice detective": 0.5}
    stage = Stage(1, {4: 1.0}, deck, others, longest_chat=10**9)
    shortened = 0
    for seed in range(5):
        # One seat is imitated, if it has decided at all.
        whole = list(demonstrations(RECIPE, stage, seed))
        assert len(whole) <= 1
        forms = list(demonstrations(RECIPE, replace(stage, longest_chat=8000), seed))
        assert [reply for form in forms for reply in learned(form)] == [
            reply for chat in whole for reply in learned(chat)
        ]
        for before, after in itertools.pairwise(forms):
            noted = [reply for reply in replies(before).values() if NOTES in reply]
            assert noted[-1:] == [r for r in replies(after).values() if r in noted][-1:]
            # The last reply was written after the question that fitted.
            assert sum(len(message.content) for message in before.messages[:-1]) < 8000
            shortened += 1
    assert shortened > 2


def replies(chat: Demonstration) -> dict[int, str]:
    return {n: m.content for n, m in enumerate(chat.messages) if m.role == "assistant"}


def learned(chat: Demonstration) -> list[str]:
    return [reply for number, reply in replies(chat).items() if number not in chat.only_read]


def test_a_model_reads_its_own_rows_and_learns_the_right_ones(student: Student) -> None:
    batch = student.encoder.examples(chats(range(4)))
    known = student.encoder.tokenizer.tokenizer.raw
    ends = np.array([known.token_to_id(end) for end in ends_of_rows(RECIPE)])
    assert student.with_own_rows(batch, 0.0) is batch
    changed = total = 0
    for before, after in zip(batch, student.with_own_rows(batch, 1.0), strict=True):
        # A new model draws at random: nearly all rows change, and nothing else.
        rows, differs = np.isin(before.ids, ends), before.ids != after.ids
        assert np.isin(after.ids[rows], ends).all() and not (differs & ~rows).any()
        assert after.weights is before.weights
        changed, total = changed + differs.sum(), total + rows.sum()
    assert 0.9 < changed / total <= 1
    some = [
        (before.ids != after.ids).any()
        for before, after in zip(batch, student.with_own_rows(batch, 0.5), strict=True)
    ]
    assert 0 < sum(some) < len(some)


def test_stages_follow_each_other_and_a_run_continues_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretraining, "MEASURE_EVERY", 2)
    monkeypatch.setattr(pretraining, "SAMPLED_GAMES", 4)
    figures = pretrain(RECIPE, tmp_path / "whole")
    curve = json.loads((tmp_path / "whole/pretraining.json").read_text())["curve"]
    assert curve == figures["curve"] and {point["stage"] for point in curve} == {0, 1}
    assert all(point["notebook"] is not None for point in curve)

    def stop(point: CurvePoint) -> None:
        if point.stage == 1 and point.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(RECIPE, tmp_path / "part", progress=stop)
    pretrain(RECIPE, tmp_path / "part", resume=True)
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "part")]
    assert weights[0] == weights[1]

    # A finished model goes on with new optimizers, and a killed run of it goes on, too.
    further = continuing(RECIPE, str(tmp_path / "whole"), games=3)
    with pytest.raises(KeyboardInterrupt):
        pretrain(further, tmp_path / "more", progress=stop_at_three)
    pretrain(further, tmp_path / "more", resume=True)
    pretrain(further, tmp_path / "again")
    weights += [(tmp_path / n / "model.safetensors").read_bytes() for n in ("more", "again")]
    assert weights[0] != weights[2] == weights[3]


def stop_at_three(point: CurvePoint) -> None:
    if point.step == 3:
        raise KeyboardInterrupt


def test_the_command_continues_a_model_by_the_last_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[Recipe] = []

    def note(recipe: Recipe, *_: object) -> dict[str, object]:
        asked.append(recipe)
        return {}

    monkeypatch.setattr(pretrain_command, "make_model", note)
    command = "pretrain cluedo --notebook --base-model clue-notebook --precision bf16 --games 700"
    assert run(command.split()) == 0
    [recipe] = asked
    [stage] = recipe.stages
    last = make_recipe("cluedo", notebook=True).stages[-1]
    assert stage == replace(last, games=700) and stage.rate == 0.2
    assert recipe.base_model.endswith("clue-notebook") and recipe.precision == "bf16"
    assert recipe.levels == {"events": 1.0} and recipe.bots == {"events": {"detective": 1.0}}
    # From 1/40 of the rate up to all of it, then down by half a cosine to 1/50.
    rates = [rate_factor(step, 240, recipe.warmup_steps) for step in range(240)]
    assert rates[0] == 1 / 40 and rates[39] == rates[40] == 1
    assert rates[140] == pytest.approx(0.51) and rates[239] == pytest.approx(0.02, abs=0.001)


def test_only_a_model_that_keeps_a_notebook_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["pretrain", "cluedo", "--notebook", "--base-model", "clue-tiny"]) == 2
    assert "has no tokens for the rows of a notebook of cluedo" in capsys.readouterr().err


FALSE_LINES = "Rope 1\nMrs White E\nDagger 12E\nSpanner E2"


def answer(request: Request) -> str:
    """Write a wrong notebook entry and a legal action."""
    question = request.messages[-1].content
    shown = re.search(r"(show [^|.]+?)(?: \||\.)", question)
    action = shown[1] if shown else "end turn"
    if "suggest SUSPECT" in question:
        deck = CLUEDO.deck.categories  # type: ignore[attr-defined]
        action = f"suggest {', '.join(cards[0] for cards in deck)}"
    return f"{NOTES}{FALSE_LINES}\nEnvelope: Mrs White; ?; ?\n{NOTES_END}{action}"


def noted_game(options: ChatOptions) -> tuple[Episode, ScriptedBackend]:
    async def go() -> tuple[Episode, ScriptedBackend]:
        seats, specs = table(answer), [SPEC, "bot:novice", "bot:novice"]
        async with seats.llm as llm:
            match = Match(CLUEDO, specs, 3, text_level="events", chat=options)
            return await play(match, llm=llm), seats.backend

    return asyncio.run(go())


def test_beliefs_are_read_from_the_notebook_and_not_asked_for() -> None:
    episode, backend = noted_game(ChatOptions(beliefs=True))
    asked = ["what do you believe" in r.messages[-1].content for r in backend.requests]
    assert not any(asked)
    stated = [
        ply.decision.details["beliefs"]
        for ply in episode.plies
        if ply.player == 0 and "beliefs" in ply.decision.details
    ]
    assert len(stated) > 3
    first = stated[0]
    assert isinstance(first, dict)
    assert "prompt_tokens" not in first, "no question has cost anything"
    # The notebook names one suspect and two weapons, and Player 1 as the one who holds the Rope.
    assert first["envelope"] == {"Mrs White": 1.0, "Dagger": 0.5, "Spanner": 0.5}
    assert first["sure"] == {"Rope": 1, "Mrs White": 3}
