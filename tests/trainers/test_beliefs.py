"""Exact knowledge as a target: where it stands in a chat, the head, its figures, and the stages."""

from __future__ import annotations

import itertools
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from preloaded import arena_command

from arena.core.analysis import PlacedKnowledge
from arena.core.errors import UsageError
from arena.plugins.loader import make_game
from trainers.pretrain import pretrain as pretraining
from trainers.pretrain.belief_head import (
    BeliefHead,
    ChatBeliefs,
    ScoreSums,
    cross_entropy,
    kl_of_chat,
)
from trainers.pretrain.beliefs import placed_knowledge
from trainers.pretrain.corpus import Demonstration, Mixture, demonstrations
from trainers.pretrain.pretrain import STATE, examples_of, pretrain, tokenizer_for
from trainers.pretrain.recipe import CurriculumStage, CurvePoint, Recipe, make_recipe

MIXTURE = Mixture({3: 1.0}, {"events": 1.0}, {"events": {"detective": 1.0}}, losers=1.0,
                  beliefs=True)  # fmt: skip
SMALL_DECK = {"suspects": 3, "weapons": 3, "rooms": 3}
RECIPE = Recipe(
    options=SMALL_DECK, beliefs=True, levels={"events": 1.0}, bots={"events": {"detective": 1.0}},
    epochs=1, tokens_per_batch=512, hidden_size=32, layers=1, mlp_size=64, warmup_steps=2,
    stages=(CurriculumStage({}, {2: 1.0}, 8, 0.0),
            CurriculumStage({}, {3: 1.0}, 8, 1.0, "names_seed")),
)  # fmt: skip


def chats(game: str = "cluedo", seeds: range = range(3)) -> list[Demonstration]:
    mixture = MIXTURE
    if game != "cluedo":
        mixture = replace(MIXTURE, players={}, bots={"events": {"random": 1.0}})
    return [chat for seed in seeds for chat in demonstrations(game, {}, mixture, seed)]


def test_knowledge_stands_where_its_event_is_told() -> None:
    for chat in chats():
        assert chat.beliefs
        for belief in chat.beliefs:
            if belief.chars:
                message = chat.messages[belief.message]
                assert message.role == "user"
                assert message.content[belief.chars] == "\n", "an event is told in whole lines"
            else:
                assert chat.messages[belief.message].role == "assistant"


def test_knowledge_only_grows_and_begins_with_the_own_hand() -> None:
    for chat in chats():
        rows = [belief.probabilities() for belief in chat.beliefs]
        # Nothing that is impossible becomes possible, within one chat of one seat.
        for before, after in itertools.pairwise(rows):
            dealt = before.sum(-1) > 0
            assert not (after[dealt] > 0)[before[dealt] == 0].any()
        first = next(belief for belief in chat.beliefs if not belief.chars)
        assert (first.probabilities().max(-1) == 1).any()


def test_names_are_drawn_anew_and_belong_to_their_cards() -> None:
    mixture = replace(MIXTURE, redrawn="names_seed")
    one, other = (
        next(iter(demonstrations("cluedo", SMALL_DECK, mixture, seed))).beliefs[0]
        for seed in (5, 6)
    )
    assert one.things != other.things
    assert one.things == make_game("cluedo", **SMALL_DECK, names_seed=5).deck.cards  # type: ignore[attr-defined]


@pytest.mark.parametrize("game", ["avalon", "battleship", "leduc_poker", "liars_dice", "werewolf"])
def test_every_game_with_placed_knowledge_has_targets(game: str) -> None:
    found = chats(game)
    recipe = make_recipe(game, games=50, beliefs=True)
    tokenizer = tokenizer_for(recipe, found)
    examples = examples_of(found, tokenizer, recipe)
    assert isinstance(make_game(game).analysis.knowledge(0), PlacedKnowledge)
    for example in examples:
        assert example.beliefs
        sums = example.beliefs.targets.sum(-1)
        assert np.allclose(sums[sums > 0], 1, atol=1e-5)


def test_a_game_without_exact_places_is_refused() -> None:
    with pytest.raises(UsageError, match="codenames does not compute exactly where"):
        placed_knowledge(make_game("codenames"), 0)


def drawn(seed: int, single: int = 2) -> ChatBeliefs:
    rng = np.random.default_rng(seed)
    weights = rng.random((4, 5, 3), np.float32)
    return ChatBeliefs(
        np.arange(4),
        np.array([[3, -1], [4, 5], [6, -1], [7, 8], [9, -1]]),
        weights / weights.sum(-1, keepdims=True),
        np.array([0, 0, 1, 1, 1]),
        np.ones(3, bool),
        single,
        0,
    )


def test_the_head_finds_things_by_their_names() -> None:
    torch.manual_seed(0)
    head, states, embedding = BeliefHead(8, "abc"), torch.randn(4, 8), torch.randn(10, 8)
    chat = drawn(0)
    order = [3, 1, 4, 0, 2]
    other = replace(chat, names=chat.names[order])
    assert torch.allclose(
        head(states, embedding, chat)[:, order], head(states, embedding, other), atol=1e-6
    )


def test_places_that_do_not_exist_have_no_probability(tmp_path: Path) -> None:
    torch.manual_seed(0)
    head, states, embedding = BeliefHead(8, "abcd"), torch.randn(4, 8), torch.randn(10, 8)
    chat = drawn(0)
    targets = np.concatenate([chat.targets, np.zeros((4, 5, 1), np.float32)], -1)
    chat = replace(chat, targets=targets, is_place=np.array([True, True, True, False]))
    said = head(states, embedding, chat)
    assert torch.isneginf(said[..., 3]).all()
    assert torch.isfinite(cross_entropy(said, chat)[0])
    head.save(tmp_path)
    again = BeliefHead.load(tmp_path)
    assert again.places == ("a", "b", "c", "d")
    assert torch.equal(again(states, embedding, chat), said)


@pytest.mark.parametrize("single", [2, -1])
def test_the_figures_of_exact_and_of_equal_probabilities(single: int) -> None:
    chat = drawn(1, single)
    exact = torch.from_numpy(chat.targets).log()
    kl, even = kl_of_chat(exact, chat)
    assert kl == pytest.approx(0, abs=1e-4)
    assert even > 0.1
    kl, even = kl_of_chat(torch.full((4, 5, 3), 1 / 3).log(), chat)
    assert kl == pytest.approx(even, abs=1e-4)
    sums = ScoreSums()
    sums.add(exact, chat)
    assert sums.scores().explained == pytest.approx(1, abs=1e-3)
    assert sums.scores().calibration == pytest.approx(0, abs=1e-3)


def test_the_loss_is_least_at_the_exact_posterior() -> None:
    chat = drawn(2)
    exact = torch.from_numpy(chat.targets)
    best, rows = cross_entropy(exact.log(), chat)
    assert rows == 20
    other, _ = cross_entropy(((exact + 0.2) / 1.6).log(), chat)
    assert best < other


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes() + BeliefHead.load(
        folder
    ).key.weight.detach().numpy().tobytes()


def test_an_interrupted_run_continues_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretraining, "MEASURE_EVERY", 2)
    monkeypatch.setattr(pretraining, "SAMPLED_GAMES", 4)
    said: list[str] = []
    figures = pretrain(RECIPE, tmp_path / "whole", said.append)
    stages = [point.stage for point in figures.curve]
    assert stages.count(0) == 1, "the first stage ends at its first measure: its criterion is 0"
    assert stages.count(1) > 2
    assert figures.curve[-1].step == figures.curve[-1].of
    assert all(point.beliefs for point in figures.curve)
    assert not (tmp_path / "whole" / STATE).exists()

    def stop(point: CurvePoint) -> None:
        if point.stage == 1 and point.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(RECIPE, tmp_path / "part", said.append, progress=stop)
    assert (tmp_path / "part" / STATE).exists()
    with pytest.raises(UsageError, match="with other settings"):
        pretrain(replace(RECIPE, seed=1), tmp_path / "part", said.append, resume=True)
    again = pretrain(RECIPE, tmp_path / "part", said.append, resume=True)
    assert weights_of(tmp_path / "part") == weights_of(tmp_path / "whole")
    assert again.chats == figures.chats
    assert [p.loss for p in again.curve] == [p.loss for p in figures.curve]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["codenames", "--beliefs"], "codenames does not compute exactly where hidden things are"),
        (["cluedo", "--beliefs", "--base-model", "x"], "leave --base-model out"),
        (["cluedo", "--beliefs", "--resume"], "holds no interrupted run"),
        (["cluedo", "--beliefs", "--bot", "nobody"], "cluedo has no such bot"),
    ],
)
def test_what_cannot_be_learned_is_one_line(flags: list[str], message: str, tmp_path: Path) -> None:
    words = [*arena_command(), "pretrain", *flags, "--out", str(tmp_path / "out")]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert message in found.stderr
    assert len(found.stderr.strip().splitlines()) <= 2


def test_the_recipe_of_cluedo_has_a_curriculum() -> None:
    recipe = make_recipe("cluedo", beliefs=True)
    assert [stage.redrawn for stage in recipe.stages] == ["", *["names_seed"] * 3]
    assert recipe.bots == {"events": {"detective": 1.0}}
    assert not make_recipe("cluedo", games=60, beliefs=True).stages
    assert json.dumps(pretraining._facts(recipe))
