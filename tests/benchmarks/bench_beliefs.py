"""How near are a model's beliefs to the exact posterior, on decks that it has and has not seen?

    arena pretrain cluedo --beliefs --out runs/deducer
    DEDUCER=runs/deducer pytest tests/benchmarks/bench_beliefs.py -s

For each deck: share of the KL of equal probabilities that the beliefs about the envelope explain,
at each event of held-out games; share of the certain places that are found; calibration. The own
hand alone explains about 0.44 of it on the deck of three of each kind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from trainers.pretrain.belief_head import BeliefHead
from trainers.pretrain.pretrain import NewModel, batches, encode, play_stage
from trainers.pretrain.recipe import CurriculumStage, Recipe, make_recipe

GAMES = 60
SEED = 900_000
"""Of deals that no training run has."""


def decks() -> Iterator[tuple[str, CurriculumStage]]:
    """Yield decks with their names for the table."""
    for players in (3, 4, 5, 6):
        yield f"6+6+9, {players} players", CurriculumStage({}, {players: 1.0}, GAMES)
    yield (
        "6+6+9, other order of names, 4 players",
        CurriculumStage({}, {4: 1.0}, GAMES, redrawn="names_seed"),
    )
    small: dict[str, Any] = {"suspects": 3, "weapons": 3, "rooms": 3}
    yield "3+3+3, 3 players", CurriculumStage(small, {3: 1.0}, GAMES, redrawn="names_seed")
    unseen: dict[str, Any] = {"suspects": 5, "weapons": 6, "rooms": 7}
    yield (
        "5+6+7, a size never seen, 4 players",
        CurriculumStage(unseen, {4: 1.0}, GAMES, redrawn="names_seed"),
    )


@pytest.mark.skipif("DEDUCER" not in os.environ, reason="DEDUCER names no checkpoint")
def test_beliefs() -> None:
    folder = Path(os.environ["DEDUCER"])
    model = Qwen3ForCausalLM.from_pretrained(folder)
    tokenizer, head = PreTrainedTokenizerFast.from_pretrained(folder), BeliefHead.load(folder)
    base: Recipe = replace(make_recipe("cluedo", beliefs=True), seed=SEED)
    print(f"\n{'deck':42} explained  bits  certain  calibration")
    for title, stage in decks():
        recipe = replace(base, stages=(stage,))
        examples = [encode(chat, tokenizer, head.places) for chat in play_stage(recipe, 0)]
        fits = [each for each in examples if len(each.ids) <= recipe.context_length]
        held_out = list(batches(fits, recipe, np.random.default_rng(0)))
        student = NewModel(model, head, [], held_out, torch.zeros(0, dtype=torch.bool))
        scores = student.measure().beliefs
        assert scores
        print(
            f"{title:42} {scores.explained:9.1%} {scores.kl:5.2f} {scores.certain:8.1%} "
            f"{scores.calibration:12.3f}"
        )
        assert scores.explained > 0.3
