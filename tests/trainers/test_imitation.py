"""Making a playing model from scratch: the chats, the tokenizer, and a run small enough to test."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena.core.errors import UsageError
from arena.plugins.loader import make_game
from trainers.pretrain.corpus import Lesson, Shares, lessons
from trainers.pretrain.pretrain import Batch, batches, encode, pretrain, tokenizer_for
from trainers.pretrain.recipe import Recipe, recipe_of

SMALL = Recipe(
    games=12, epochs=1, tokens_per_batch=2048, hidden_size=32, layers=1, mlp_size=64, warmup_steps=2
)


@pytest.fixture(scope="module")
def corpus() -> list[Lesson]:
    shares = Shares(SMALL.players, SMALL.levels, SMALL.bots)
    return [lesson for seed in range(12) for lesson in lessons("cluedo", {}, shares, seed)]


def test_a_lesson_is_a_chat_in_which_every_answer_was_legal(corpus: Sequence[Lesson]) -> None:
    assert len(corpus) >= 15
    for lesson in corpus:
        game = make_game("cluedo", players=lesson.players)
        roles = [message.role for message in lesson.messages]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]
        for number, message in enumerate(lesson.messages):
            if message.role != "assistant" or number in lesson.slips:
                continue
            assert str(game.actions.parse(message.content)) == message.content


def test_the_same_seed_gives_the_same_lessons() -> None:
    shares = Shares(SMALL.players, SMALL.levels, SMALL.bots)
    first, again, other = (list(lessons("cluedo", {}, shares, seed)) for seed in (5, 5, 6))
    assert first == again != other


def test_some_chats_begin_in_the_middle_of_a_game(corpus: Sequence[Lesson]) -> None:
    assert any("left out" in lesson.messages[1].content for lesson in corpus)


def test_some_answers_are_wrong_corrected_and_not_to_be_learned(corpus: Sequence[Lesson]) -> None:
    slips = [(lesson, number) for lesson in corpus for number in lesson.slips]
    assert slips
    for lesson, number in slips:
        assert "For example: " in lesson.messages[number + 1].content
        assert lesson.messages[number].content != lesson.messages[number + 2].content


def test_only_the_answers_are_marked_as_written(corpus: Sequence[Lesson]) -> None:
    tokenizer = tokenizer_for(SMALL, corpus)
    lesson = next(lesson for lesson in corpus if lesson.slips)
    example = encode(lesson, tokenizer)
    as_template = tokenizer.apply_chat_template(
        [dataclasses.asdict(message) for message in lesson.messages], return_dict=False
    )
    assert example.ids.tolist() == as_template
    said = tokenizer.decode(example.ids[example.written])
    answers = [
        message.content
        for number, message in enumerate(lesson.messages)
        if message.role == "assistant" and number not in lesson.slips
    ]
    assert said == "".join(f"{answer}<|end|>" for answer in answers)


def test_names_are_one_token_and_a_game_fits_the_context(corpus: Sequence[Lesson]) -> None:
    tokenizer = tokenizer_for(SMALL, corpus)
    assert len(tokenizer.encode("suggest Miss Scarlett, Lead Piping, Billiard Room")) == 4
    assert max(len(encode(lesson, tokenizer).ids) for lesson in corpus) <= SMALL.context_length


@pytest.fixture(scope="module")
def tokenizer(corpus: Sequence[Lesson]) -> object:
    return tokenizer_for(SMALL, corpus)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_survives_the_tokenizer(tokenizer: object, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text  # type: ignore[attr-defined]


def test_batches_hold_every_example_once(corpus: Sequence[Lesson], tokenizer: object) -> None:
    examples = [encode(lesson, tokenizer) for lesson in corpus]  # type: ignore[arg-type]
    made: list[Batch] = list(batches(examples, SMALL, np.random.default_rng(0)))
    rows = [row for batch in made for row in batch.ids.tolist()]
    ids = [example.ids.tolist() for example in examples]
    assert sorted(len(i) for i in ids) == sorted(
        int((batch.weights[r] > 0).sum()) for batch in made for r in range(len(batch.ids))
    )
    assert all(any(row[: len(i)] == i for row in rows) for i in ids)


def test_the_same_recipe_gives_the_same_weights_and_they_answer(tmp_path: Path) -> None:
    heard: list[str] = []
    for name in ("one", "two"):
        figures = pretrain(SMALL, tmp_path / name, heard.append)
        assert figures["curve"][-1]["held_out"] < 7
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]
    assert json.loads((tmp_path / "one" / "pretraining.json").read_text())["recipe"]["games"] == 12
    assert "chats of 12 games" in heard[0]


def test_bad_requests_are_named() -> None:
    with pytest.raises(UsageError, match="imitates the bot 'novice', which tictactoe"):
        recipe_of("tictactoe")
    with pytest.raises(UsageError, match="there is no game 'clueo'"):
        recipe_of("clueo")


def test_the_command_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "arena", "pretrain", "cluedo", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "there is something already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["something"]
