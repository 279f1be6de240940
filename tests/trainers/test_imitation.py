"""Making a playing model from scratch: the chats, the tokenizer, and a run small enough to test."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from arena.agents.chat import HOW_TO_ANSWER, system_prompt
from arena.core.errors import ArenaError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.plugins.catalog import make_game
from backends.embedded.architecture import read_architecture
from trainers.pretrain import corpus as corpus_module
from trainers.pretrain.corpus import SHORT_INSTRUCTION, Demonstration, demonstrations
from trainers.pretrain.new_model import write_new_model
from trainers.pretrain.pretrain import pretrain
from trainers.pretrain.recipe import Recipe, Stage, make_recipe
from trainers.pretrain.student import DemonstrationEncoder, batches

SMALL = Recipe(
    stages=(Stage(12, {2: 0.05, 3: 0.2, 4: 0.35, 5: 0.2, 6: 0.2}),),
    tokens_per_batch=2048,
    hidden_size=32,
    layers=1,
    mlp_size=64,
    warmup_steps=2,
)


@pytest.fixture(scope="module")
def corpus() -> list[Demonstration]:
    return [
        demonstration
        for seed in range(12)
        for demonstration in demonstrations(SMALL, SMALL.stages[0], seed)
    ]


def test_a_demonstration_is_a_chat_in_which_every_answer_was_legal(
    corpus: Sequence[Demonstration],
) -> None:
    assert len(corpus) >= 15
    game = make_game("cluedo", players=6)
    for demonstration in corpus:
        roles = [message.role for message in demonstration.messages]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]
        for number, message in enumerate(demonstration.messages):
            if message.role != "assistant" or number in demonstration.only_read:
                continue
            assert str(game.actions.parse(message.content)) == message.content


class Failing:
    """Plays the first legal action: as a fallback move, or after an error."""

    def __init__(self, failure: str | None) -> None:
        self.failure = failure

    async def act(self, observation: Observation) -> Decision:
        if self.failure is None:
            raise KeyError("no plan")
        return Decision(observation.legal_actions[0], self.failure)


@pytest.mark.parametrize(
    ("failure", "message"),
    [("refused", "it gave no move: refused"), (None, r"it has failed: KeyError\('no plan'\)")],
)
def test_fallback_moves_are_not_imitated(
    monkeypatch: pytest.MonkeyPatch, failure: str | None, message: str
) -> None:
    recipe = make_recipe("kuhn_poker", level="notes")
    monkeypatch.setattr(corpus_module, "make_agent", lambda spec, seat: Failing(failure))
    with pytest.raises(ArenaError, match=f"Failing cannot be imitated, {message}"):
        demonstrations(recipe, recipe.stages[0], 1)


@pytest.fixture(scope="module")
def model(corpus: Sequence[Demonstration], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_new_model(SMALL, corpus, tmp_path_factory.mktemp("new") / "model")


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Any:
    return AutoTokenizer.from_pretrained(model)


def encoder(model: Path) -> DemonstrationEncoder:
    return DemonstrationEncoder(model, read_architecture(model), SMALL)


def test_only_the_answers_have_the_whole_weight(
    corpus: Sequence[Demonstration], model: Path, tokenizer: Any
) -> None:
    # As if the first reply had been learned in a longer form of the chat.
    demonstration = dataclasses.replace(corpus[0], only_read=frozenset({2}))
    [example] = encoder(model).examples([demonstration])
    as_template = tokenizer.apply_chat_template(
        [dataclasses.asdict(message) for message in demonstration.messages], return_dict=False
    )
    assert example.ids.tolist() == as_template[: len(example.ids)]
    said = tokenizer.decode(example.ids[example.is_target])
    answers = [
        message.content
        for number, message in enumerate(demonstration.messages)
        if message.role == "assistant" and number not in demonstration.only_read
    ]
    assert said == "".join(f"{answer}<|end|>" for answer in answers)
    context = example.weights[1:][~example.is_target[1:]]
    assert example.weights[0] == 0 and np.allclose(context, SMALL.context_weight)


def test_names_are_one_token(tokenizer: Any) -> None:
    assert len(tokenizer.encode("suggest Miss Scarlett, Lead Piping, Billiard Room")) == 4


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_batches_hold_every_example_once(corpus: Sequence[Demonstration], model: Path) -> None:
    examples = encoder(model).examples(corpus)
    longest = max(len(example.ids) for example in examples)
    found = list(batches(examples, longest + 100, np.random.default_rng(0)))
    assert all(sum(len(e.ids) for e in batch) <= longest + 100 for batch in found)
    assert sorted(id(e) for batch in found for e in batch) == sorted(map(id, examples))
    alone = list(batches(examples, 1, np.random.default_rng(0)))
    assert len(alone) == len(examples) > len(found)


def test_the_same_recipe_gives_the_same_weights_and_they_answer(tmp_path: Path) -> None:
    few = dataclasses.replace(SMALL, stages=(Stage(6, {3: 1.0}),))
    for name in ("one", "two"):
        figures: dict[str, Any] = pretrain(few, tmp_path / name)
        assert figures["curve"][-1]["held_out"] < 7
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]
    stored = json.loads((tmp_path / "one" / "pretraining.json").read_text())["recipe"]
    assert [stage["games"] for stage in stored["stages"]] == [6]


def test_the_template_leaves_out_the_details_of_the_rules_only(tokenizer: Any) -> None:
    game = make_game("cluedo", players=3)
    text = f"{system_prompt('rules', game, 'text', 300)}\nThink first."
    lines = text.replace(HOW_TO_ANSWER["text"], SHORT_INSTRUCTION).splitlines()
    kept = "\n".join(line for line in lines if not line.startswith("Details: "))
    assert len(kept) < len(text)
    chat = [{"role": "system", "content": text}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == f"<|system|>{kept}<|end|>"
