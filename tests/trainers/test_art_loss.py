"""Parity with ART: tokens, weights, losses and gradients of the same games."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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

from art_groups import Talk, choice
from tiny_model import build_tiny_model
from transformers import AutoTokenizer, Qwen3ForCausalLM

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from backends.embedded.architecture import read_model_config
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.loss import LossOptions, ReferenceLogprobs, policy_loss
from trainers.algorithms.network import score_tokens
from trainers.algorithms.sequences import TokenSequence, shared_prefix_length, token_sequences
from trainers.hosts.art import History, Trajectory, TrajectoryGroup

pytestmark = pytest.mark.usefixtures("one_thread")

EVERYTHING = 10**9
SMALL: dict[str, Any] = {
    "layers": 2,
    "width": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "inner": 64,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALL)


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


def art_row(
    tokenizer: Any, groups: Sequence[TrajectoryGroup], scale: bool, balance: float
) -> ArtRow:
    from art.preprocessing.pack import packed_tensors_from_tokenized_results
    from art.preprocessing.tokenize import tokenize_trajectory_groups

    results = list(
        tokenize_trajectory_groups(
            tokenizer,
            list(groups),
            allow_training_without_logprobs=False,
            scale_rewards=scale,
            shuffle_group_trajectories=False,
        )
    )
    assume(results)
    tensors = packed_tensors_from_tokenized_results(
        results, 8192, pad_token_id=0, advantage_balance=balance
    )
    assert len(tensors["tokens"]) == 1, "all must fit one row, whose mean ART takes"
    return ArtRow(tensors, results)


LEVELS = ("token", "sequence", "average", "geometric_average")
optional = st.none() | st.floats(0.05, 3.0)


@st.composite
def loss_options(draw: st.DrawFn) -> LossOptions:
    return LossOptions(
        loss_fn=draw(st.sampled_from(["cispo", "ppo"])),
        epsilon=draw(st.none() | st.floats(0.05, 1.0)),
        epsilon_high=draw(optional),
        kl_penalty_coef=draw(st.sampled_from([0.0, 0.1, 2.0])),
        importance_sampling_level=draw(st.sampled_from(LEVELS)),
        truncated_importance_sampling=draw(optional),
        max_negative_advantage_importance_sampling_weight=draw(optional),
        mask_prob_ratio=draw(st.booleans()),
        kimi_k2_tau=draw(st.none() | st.floats(0.01, 1.0)),
    )


def art_config(options: LossOptions) -> dict[str, object]:
    """As ART's own backends hand it on: what is not set is not there."""
    names = LossOptions.__slots__
    values = {name: getattr(options, name) for name in names if name != "loss_fn"}
    ppo = options.loss_fn == "ppo"
    return {"ppo": ppo} | {name: value for name, value in values.items() if value is not None}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow],
          derandomize=True)  # fmt: skip
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    options=loss_options(),
    scale=st.booleans(),
    balance=st.sampled_from([0.0, 0.3, -0.4]),
)
def test_tokens_weights_loss_and_gradient_are_arts(
    chat: ChatTokenizer,
    arts_tokenizer: Any,
    seed: int,
    sizes: list[int],
    options: LossOptions,
    scale: bool,
    balance: float,
) -> None:
    talk = Talk(chat, random.Random(seed))
    groups = [talk.group(size) for size in sizes]
    theirs = art_row(arts_tokenizer, groups, scale, balance)
    sequences = token_sequences(groups, chat.encode, scale)
    for sequence, result in zip(sequences, theirs.results, strict=True):
        sampled = [at for at, trained in enumerate(result.assistant_mask) if trained]
        assert sequence.sampled_positions == sampled
        assert sequence.ids == result.token_ids[: sampled[-1] + 1]
        assert sequence.weight == pytest.approx(result.weight)
        assert sequence.advantage == pytest.approx(result.advantage)
    [[batch]] = minibatches(sequences, 1, EVERYTHING, balance, "0")
    # Our groups are shuffled; log-probabilities are all different, so they say which is which.
    ours, art = batch.targets.sampled_logprobs.argsort(), theirs.trained("logprobs").argsort()
    close = torch.testing.assert_close
    close(batch.targets.sampled_logprobs[ours], theirs.trained("logprobs")[art])
    close(batch.packed.targets[ours], theirs.trained("tokens")[art])
    close(batch.targets.weights[ours], theirs.trained("weights")[art])
    close(batch.targets.advantages[ours], theirs.trained("advantages")[art])

    generator = torch.Generator().manual_seed(seed)
    count = len(batch.targets)
    old = theirs.trained("logprobs")
    new = (old + 0.7 * torch.randn(count, generator=generator)).requires_grad_()
    reference = old + torch.randn(count, generator=generator)
    place = torch.empty_like(art)
    place[ours] = art
    expected = theirs.loss(new, reference, art_config(options))
    (gradient,) = torch.autograd.grad(expected, new)
    loss = policy_loss(
        new[place],
        batch.targets,
        options,
        ReferenceLogprobs(reference[place]) if options.kl_penalty_coef else None,
    )
    (found,) = torch.autograd.grad(loss.loss / count, new)
    close(loss.loss / count, expected, rtol=1e-5, atol=1e-6)
    close(found * count, gradient * count, rtol=1e-5, atol=1e-5)


# The network


def hugging_face(model: Qwen3ForCausalLM, sequence: TokenSequence) -> Tensor:
    """Log-probabilities of the trained tokens, one sequence by itself: [sampled]."""
    logits = model(torch.tensor([sequence.ids[:-1]])).logits[0]
    every = logits.log_softmax(-1)
    return torch.stack([every[at - 1, sequence.ids[at]] for at in sequence.sampled_positions])


@pytest.mark.parametrize("shape", [{}, {"tied": False}, {"kv_heads": 4}, {"kv_heads": 1}])
def test_log_probabilities_and_all_gradients_are_transformers(
    tmp_path: Path, chat: ChatTokenizer, shape: dict[str, Any]
) -> None:
    folder = build_tiny_model(tmp_path / "m", **(SMALL | shape))
    model = Qwen3ForCausalLM.from_pretrained(folder)
    talk = Talk(chat, random.Random(1))
    sequences = token_sequences([talk.group(3), talk.group(2)], chat.encode)
    assert shared_prefix_length(sequences[:3]) > 5, "the group must share something"
    [[batch]] = minibatches(sequences, 1, EVERYTHING, 0.0, "0")
    assert len(batch.packed.tokens) < sum(len(sequence.ids) - 1 for sequence in sequences)
    learner = Learner(folder)
    scores = score_tokens(learner.weights(), learner.architecture, batch.packed)
    expected = torch.cat([hugging_face(model, sequence) for sequence in sequences])
    told = torch.tensor([value for sequence in sequences for value in sequence.sampled_logprobs])
    order, place = told.argsort(), batch.targets.sampled_logprobs.argsort()
    torch.testing.assert_close(scores.logprobs[place], expected[order], rtol=0, atol=1e-4)
    factors = torch.randn(len(told), generator=torch.Generator().manual_seed(0))
    torch.autograd.backward((scores.logprobs[place] * factors).sum())
    torch.autograd.backward((expected[order] * factors).sum())
    for name, weight in model.named_parameters():
        found, wanted = learner.weights()[name].grad, weight.grad
        assert found is not None and wanted is not None
        assert (found - wanted).norm() <= 1e-4 * wanted.norm(), name


def split_history(chat: ChatTokenizer) -> Trajectory:
    """A chat whose first answer's ids are not those of its text: "rope" letter by letter."""
    letters = [chat.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "rope"]
    assert letters != chat.tokenizer.encode("rope", add_special_tokens=False)
    end = chat.end_ids[0]
    return Trajectory(
        messages_and_choices=[
            {"role": "user", "content": "who"},
            choice("rope", [*letters, end], [-1.0, -2.0, -3.0, -4.0, -5.0]),
            {"role": "user", "content": "where"},
            choice("is", [*chat.tokenizer.encode("is", add_special_tokens=False), end],
                   [-0.5] * (len(chat.tokenizer.encode("is", add_special_tokens=False)) + 1)),
        ],
        reward=1.0,
    )  # fmt: skip


LOSSES = {
    "cispo": LossOptions(),
    "ppo by sequences, anchored": LossOptions(
        loss_fn="ppo", importance_sampling_level="sequence", kl_penalty_coef=0.5
    ),
}


def gradient(
    folder: Path, sequences: Sequence[TokenSequence], tokens: int, loss: LossOptions
) -> dict[str, Tensor]:
    """Return the gradient of the whole loss, computed in micro-batches of `tokens` rows."""
    learner = Learner(folder)
    [batches] = minibatches(sequences, 1, tokens, 0.2, "0")
    longest = max(len(sequence.ids) for sequence in sequences)
    assert all(len(batch.packed.tokens) <= max(tokens, longest) for batch in batches)
    assert (len(batches) == 1) == (tokens == EVERYTHING)
    generator = torch.Generator().manual_seed(5)
    reference = {
        name: weight + 0.1 * torch.randn(weight.shape, generator=generator)
        for name, weight in learner.state().items()
    }
    learner._optimizer_step(batches, UpdateOptions(**asdict(loss), max_grad_norm=1e9), reference)
    return {
        name: tensor.grad for name, tensor in learner._trained.items() if tensor.grad is not None
    }


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_how_games_are_batched_changes_nothing(
    folder: Path, chat: ChatTokenizer, loss: LossOptions
) -> None:
    talk = Talk(chat, random.Random(3))
    groups = [talk.group(3, told_anew=1), talk.group(2)]
    groups[0].trajectories.append(split_history(chat))
    sequences = token_sequences(groups, chat.encode)
    whole = gradient(folder, sequences, EVERYTHING, loss)
    for tokens in (150, 1):
        parts = gradient(folder, sequences, tokens, loss)
        for name, expected in whole.items():
            assert (parts[name] - expected).norm() <= 1e-5 * expected.norm(), name


def test_a_shared_beginning_changes_nothing(
    folder: Path, chat: ChatTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = token_sequences([Talk(chat, random.Random(4)).group(4)], chat.encode)
    # The answers differ from their first token on: its logits belong to each game.
    assert (
        shared_prefix_length(sequences)
        == min(sequence.sampled_positions[0] for sequence in sequences) - 1
    )
    shared = gradient(folder, sequences, EVERYTHING, LossOptions())
    monkeypatch.setattr("trainers.algorithms.batching.shared_prefix_length", lambda _sequences: 0)
    alone = gradient(folder, sequences, EVERYTHING, LossOptions())
    for name, expected in alone.items():
        assert (shared[name] - expected).norm() <= 1e-5 * expected.norm(), name


def test_a_shared_token_before_a_trained_one_is_computed_by_each() -> None:
    def sequence(ids: list[int], sampled: list[int]) -> TokenSequence:
        return TokenSequence(0, 0, 1.0, ids, sampled, [-1.0] * len(sampled))

    first, same = sequence([5, 6, 7, 8], [3]), sequence([5, 6, 7, 9], [3])
    assert shared_prefix_length([first, same]) == 2
    assert shared_prefix_length([first, sequence([5, 6, 7, 8, 9], [1, 4])]) == 0
    assert shared_prefix_length([first, sequence([5, 4, 7, 8], [3]), same]) == 1


# What is trained is what was sampled


def told(chat: ChatTokenizer, *items: Any, anew: Sequence[Any] = ()) -> list[TokenSequence]:
    """The sequences of a trajectory that won, in a group with one that lost."""
    histories = [History(messages_and_choices=list(anew))] if anew else []
    won = Trajectory(messages_and_choices=list(items), additional_histories=histories, reward=1.0)
    lost = Trajectory(messages_and_choices=[{"role": "user", "content": "who"}], reward=0.0)
    return token_sequences([TrajectoryGroup([won, lost])], chat.encode)


def ask(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_other_ids_than_the_texts_begin_a_new_sequence(chat: ChatTokenizer) -> None:
    one, two = token_sequences(
        [TrajectoryGroup([split_history(chat), Trajectory(messages_and_choices=[], reward=0.0)])],
        chat.encode,
    )
    first = chat.encode([Message("user", "who")])
    letters = [chat.tokenizer.encode(letter)[0] for letter in "rope"]
    assert one.ids == [*first, *letters, chat.end_ids[0]]
    assert [one.ids[at] for at in one.sampled_positions] == one.ids[len(first) :]
    assert one.sampled_logprobs == [-1.0, -2.0, -3.0, -4.0, -5.0]
    prompt = chat.encode(
        [Message("user", "who"), Message("assistant", "rope"), Message("user", "where")]
    )
    assert two.ids[: len(prompt)] == prompt and two.sampled_positions[0] == len(prompt)
    assert (
        one.weight
        == two.weight
        == pytest.approx(1 / (len(one.sampled_positions) + len(two.sampled_positions)))
    )
    assert one.index != two.index


def test_what_was_served_must_be_what_is_trained(chat: ChatTokenizer) -> None:
    prompt = chat.encode([Message("user", "who")])
    [sequence] = told(chat, ask("who"), choice("", chat.end_ids[:1], [-1.0], prompt=prompt))
    assert sequence.ids == [*prompt, chat.end_ids[0]]
    wrong = [*prompt[:-1], prompt[-1] + 1]
    with pytest.raises(ArenaError, match=rf"differ at token {len(prompt) - 1}; .*chat template"):
        told(chat, ask("who"), choice("", chat.end_ids[:1], [-1.0], prompt=wrong))
    with pytest.raises(ArenaError, match="differ at token 4"):
        told(chat, ask("who"), choice("", chat.end_ids[:1], [-1.0], prompt=prompt[:4]))


def test_words_without_ids_are_refused(chat: ChatTokenizer) -> None:
    answer = choice("is", [7], [-1.0])
    assert answer.logprobs is not None and answer.logprobs.content is not None
    answer.logprobs.content[0].token = "is"
    with pytest.raises(ArenaError, match="has no id .'is'.*--tokens-as-ids"):
        told(chat, ask("who"), answer)


def test_cut_and_empty_answers_and_chats_told_anew(chat: ChatTokenizer) -> None:
    end, rope = chat.end_ids[0], chat.tokenizer.encode("rope")
    cut = choice("rope", rope, [-1.0] * len(rope), finish="length")
    sequences = told(
        chat, ask("who"), cut, ask("where"), choice("", [], []), ask("with"),
        choice("", [end], [-2.0]), ask("never answered"), anew=[ask("why"), cut],
    )  # fmt: skip
    first, anew = sequences
    chat_so_far = [Message("user", "who"), Message("assistant", "rope"), Message("user", "where"),
                   Message("assistant", ""), Message("user", "with")]  # fmt: skip
    assert first.ids == [*chat.encode(chat_so_far), end]  # The cut answer's end is not trained.
    assert [first.ids[at] for at in first.sampled_positions] == [*rope, end]
    assert anew.ids == [*chat.encode([Message("user", "why")]), *rope]
    assert first.weight == anew.weight == pytest.approx(1 / (2 * len(rope) + 1))
