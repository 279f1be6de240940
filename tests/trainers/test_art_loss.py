"""Parity with ART: tokens, losses and gradients of the same games."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

if find_spec("art") is None:
    pytest.skip("openpipe-art is not installed", allow_module_level=True)

from made_up_groups import Talk, credited
from tiny_model import SMALL, build_tiny_model
from transformers import AutoTokenizer

from backends.embedded.architecture import read_model_config
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import minibatches
from trainers.algorithms.loss import ReferenceLogprobs, policy_loss
from trainers.config.config import UpdateOptions
from trainers.hosts.art.convert import ArtGroup, to_art
from trainers.trajectory import token_sequences

pytestmark = pytest.mark.usefixtures("one_thread")

EVERYTHING = 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny", layers=2, **SMALL)


@pytest.fixture(scope="module")
def chat(folder: Path) -> ChatTokenizer:
    return ChatTokenizer(folder, read_model_config(folder))


@pytest.fixture(scope="module")
def arts_tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


# ART's numbers


@dataclass(frozen=True)
class ArtRow:
    """ART's one packed row, and where the trained tokens stand in it."""

    tensors: Any
    results: Sequence[Any]

    @property
    def mask(self) -> Tensor:
        mask: Tensor = self.tensors["assistant_mask"][0]
        return mask

    def trained(self, name: str) -> Tensor:
        row: Tensor = self.tensors[name][0]
        return row[self.mask]

    def loss(self, new: Tensor, reference: Tensor | None, config: Mapping[str, object]) -> Tensor:
        """`new` and `reference` in the row's order, scattered to before their tokens."""
        from art.loss import loss_fn

        def spread(values: Tensor) -> Tensor:
            row = torch.linspace(-3, -1, len(self.mask))  # What stands elsewhere must not matter.
            return row.masked_scatter(self.mask.roll(-1), values)[None]

        inputs = dict(self.tensors)
        known = None if reference is None else spread(reference)
        return loss_fn(inputs, spread(new), known, None, dict(config)).policy_loss  # type: ignore[arg-type]


def art_row(tokenizer: Any, groups: Sequence[ArtGroup]) -> ArtRow:
    from art.preprocessing.pack import packed_tensors_from_tokenized_results
    from art.preprocessing.tokenize import tokenize_trajectory_groups

    results = list(
        tokenize_trajectory_groups(
            tokenizer,
            list(groups),
            allow_training_without_logprobs=False,
            scale_rewards=False,
            shuffle_group_trajectories=False,
        )
    )
    assume(results)
    tensors = packed_tensors_from_tokenized_results(results, 8192, pad_token_id=0)
    assert len(tensors["tokens"]) == 1, "all must fit one row, whose mean ART takes"
    return ArtRow(tensors, results)


optional = st.none() | st.floats(0.05, 3.0)


@st.composite
def loss_options(draw: st.DrawFn) -> UpdateOptions:
    return UpdateOptions(
        loss_fn=draw(st.sampled_from(["cispo", "ppo"])),
        epsilon=draw(st.none() | st.floats(0.05, 1.0)),
        epsilon_high=draw(optional),
        kl_penalty_coef=draw(st.sampled_from([0.0, 0.1, 2.0])),
    )


def art_config(options: UpdateOptions) -> dict[str, object]:
    """As ART's own backends hand it on: what is not set is not there."""
    names = ("epsilon", "epsilon_high", "kl_penalty_coef")
    values = {name: getattr(options, name) for name in names}
    ppo = options.loss_fn == "ppo"
    return {"ppo": ppo} | {name: value for name, value in values.items() if value is not None}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow],
          derandomize=True)  # fmt: skip
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    options=loss_options(),
)
def test_tokens_loss_and_gradient_are_arts(
    chat: ChatTokenizer,
    arts_tokenizer: Any,
    seed: int,
    sizes: list[int],
    options: UpdateOptions,
) -> None:
    talk = Talk(chat, random.Random(seed))
    groups = [talk.group(size) for size in sizes]
    theirs = art_row(arts_tokenizer, [to_art(group) for group in groups])
    sequences = token_sequences(credited(groups), chat)
    for sequence, result in zip(sequences, theirs.results, strict=True):
        sampled = [at for at, trained in enumerate(result.assistant_mask) if trained]
        assert sequence.sampled_positions == sampled
        assert sequence.ids == result.token_ids[: sampled[-1] + 1]
        assert sequence.advantages == pytest.approx([result.advantage] * len(sampled))
    [[batch]] = minibatches(sequences, 1, EVERYTHING, "0")
    # Our groups are shuffled; log-probabilities are all different, so they say which is which.
    ours, art = batch.targets.sampled_logprobs.argsort(), theirs.trained("logprobs").argsort()
    close = torch.testing.assert_close
    close(batch.targets.sampled_logprobs[ours], theirs.trained("logprobs")[art])
    close(batch.packed.targets[ours], theirs.trained("tokens")[art])

    generator = torch.Generator().manual_seed(seed)
    count = len(batch.targets)
    old = theirs.trained("logprobs")
    new = (old + 0.7 * torch.randn(count, generator=generator)).requires_grad_()
    reference = old + torch.randn(count, generator=generator)
    place = torch.empty_like(art)
    place[ours] = art
    # ART weighs games equally and scales the advantages of a call; arena does neither.
    weighted = replace(
        batch.targets,
        weights=theirs.trained("weights")[place],
        advantages=theirs.trained("advantages")[place],
        # ART's divergence is that of each token: each counts as an answer of its own.
        answer_ids=torch.arange(count),
    )
    expected = theirs.loss(new, reference, art_config(options))
    (gradient,) = torch.autograd.grad(expected, new)
    loss = policy_loss(
        new[place],
        weighted,
        options,
        ReferenceLogprobs(reference[place]) if options.kl_penalty_coef else None,
    )
    (found,) = torch.autograd.grad(loss.loss / count, new)
    close(loss.loss / count, expected, rtol=1e-5, atol=1e-6)
    close(found * count, gradient * count, rtol=1e-5, atol=1e-5)
