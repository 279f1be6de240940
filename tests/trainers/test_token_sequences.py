"""Token sequences and their gradients: beside transformers, and however games are batched."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from made_up_groups import Talk, credited, turn
from tiny_model import SMALL, build_tiny_model
from torch import Tensor

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from backends.embedded.architecture import read_model_config
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import Learner
from trainers.config.config import UpdateOptions
from trainers.credit import Credit
from trainers.trajectory import (
    TokenSequence,
    Trajectory,
    TrajectoryGroup,
    Turn,
    shared_prefix_length,
    token_sequences,
)

pytestmark = pytest.mark.usefixtures("one_thread")

EVERYTHING = 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny", layers=2, **SMALL)


@pytest.fixture(scope="module")
def chat(folder: Path) -> ChatTokenizer:
    return ChatTokenizer(folder, read_model_config(folder))


# The network


def split_history(chat: ChatTokenizer) -> Trajectory:
    """A chat whose first answer's ids are not those of its text: "rope" letter by letter."""
    letters = [chat.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "rope"]
    assert letters != chat.tokenizer.encode("rope", add_special_tokens=False)
    end = chat.end_ids[0]
    plain = chat.tokenizer.encode("is", add_special_tokens=False)
    turns = (
        turn("rope", [*letters, end], [-1.0, -2.0, -3.0, -4.0, -5.0], messages=[ask("who")]),
        turn("is", [*plain, end], [-0.5] * (len(plain) + 1), messages=[ask("where")]),
    )
    return Trajectory(turns, 1.0)


LOSSES = {
    "cispo": UpdateOptions(),
    "ppo by sequences, anchored": UpdateOptions(loss_fn="ppo", kl_penalty_coef=0.5),
}


def gradient(
    folder: Path, sequences: Sequence[TokenSequence], tokens: int, loss: UpdateOptions
) -> dict[str, Tensor]:
    """Return the gradient of the whole loss, computed in micro-batches of `tokens` rows."""
    learner = Learner(folder)
    [batches] = minibatches(sequences, 1, tokens, "0")
    longest = max(len(sequence.ids) for sequence in sequences)
    assert all(len(batch.packed.tokens) <= max(tokens, longest) for batch in batches)
    assert (len(batches) == 1) == (tokens == EVERYTHING)
    generator = torch.Generator().manual_seed(5)
    reference = {
        name: weight + 0.1 * torch.randn(weight.shape, generator=generator)
        for name, weight in learner.merged().items()
    }
    options = UpdateOptions(**asdict(loss))
    learner._optimizer_step(batches, options, reference, divisor=100.0)
    return {
        name: tensor.grad for name, tensor in learner.trained.items() if tensor.grad is not None
    }


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_how_games_are_batched_changes_nothing(
    folder: Path, chat: ChatTokenizer, loss: UpdateOptions
) -> None:
    talk = Talk(chat, random.Random(3))
    groups = [talk.group(3, told_anew=1), talk.group(2)]
    groups[0] = replace(groups[0], trajectories=(*groups[0].trajectories, split_history(chat)))
    sequences = token_sequences(credited(groups), chat)
    whole = gradient(folder, sequences, EVERYTHING, loss)
    for tokens in (150, 1):
        parts = gradient(folder, sequences, tokens, loss)
        for name, expected in whole.items():
            assert (parts[name] - expected).norm() <= 1e-5 * expected.norm(), name


def test_a_shared_beginning_changes_nothing(
    folder: Path, chat: ChatTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = token_sequences(credited([Talk(chat, random.Random(4)).group(4)]), chat)
    # The answers differ from their first token on: its logits belong to each game.
    assert (
        shared_prefix_length(sequences)
        == min(sequence.sampled_positions[0] for sequence in sequences) - 1
    )
    shared = gradient(folder, sequences, EVERYTHING, UpdateOptions())
    monkeypatch.setattr("trainers.algorithms.batching.shared_prefix_length", lambda _sequences: 0)
    alone = gradient(folder, sequences, EVERYTHING, UpdateOptions())
    for name, expected in alone.items():
        assert (shared[name] - expected).norm() <= 1e-5 * expected.norm(), name


# What is trained is what was sampled


def told(chat: ChatTokenizer, *turns: Turn) -> list[TokenSequence]:
    """The sequences of a trajectory that won, in a group with one that lost."""
    won, lost = Trajectory(turns, 1.0), Trajectory(())
    return token_sequences(credited([TrajectoryGroup((won, lost))]), chat)


def ask(text: str) -> Message:
    return Message("user", text)


def test_other_ids_than_the_texts_begin_a_new_sequence(chat: ChatTokenizer) -> None:
    one, two = told(chat, *split_history(chat).turns)
    first = chat.encode([Message("user", "who")])
    letters = [chat.tokenizer.encode(letter)[0] for letter in "rope"]
    assert one.ids == [*first, *letters, chat.end_ids[0]]
    assert [one.ids[at] for at in one.sampled_positions] == one.ids[len(first) :]
    assert one.sampled_logprobs == [-1.0, -2.0, -3.0, -4.0, -5.0]
    prompt = chat.encode(
        [Message("user", "who"), Message("assistant", "rope"), Message("user", "where")]
    )
    assert two.ids[: len(prompt)] == prompt and two.sampled_positions[0] == len(prompt)
    assert one.answers == [0] * 5 and set(two.answers) == {0}
    assert one.weight == two.weight == 1.0


def test_what_was_served_must_be_what_is_trained(chat: ChatTokenizer) -> None:
    prompt = chat.encode([Message("user", "who")])

    def served(read: Sequence[int]) -> Turn:
        return turn("", chat.end_ids[:1], [-1.0], messages=[ask("who")], prompt=read)

    [sequence] = told(chat, served(prompt))
    assert sequence.ids == [*prompt, chat.end_ids[0]]
    wrong = [*prompt[:-1], prompt[-1] + 1]
    with pytest.raises(ArenaError, match=rf"differ at token {len(prompt) - 1}; .*chat template"):
        told(chat, served(wrong))
    with pytest.raises(ArenaError, match="differ at token 4"):
        told(chat, served(prompt[:4]))


def test_cut_and_empty_answers_and_chats_told_anew(chat: ChatTokenizer) -> None:
    end, rope = chat.end_ids[0], chat.tokenizer.encode("rope")
    known = [-1.0] * len(rope)
    unknown = [ask("where"), Message("assistant", ""), ask("with")]
    sequences = told(
        chat,
        turn("rope", rope, known, messages=[ask("who")], finish="length"),
        turn("", [end], [-2.0], messages=unknown),
        turn("rope", rope, known, messages=[ask("why")], starts_chat=True, finish="length"),
    )
    first, anew = sequences
    chat_so_far = [Message("user", "who"), Message("assistant", "rope"), Message("user", "where"),
                   Message("assistant", ""), Message("user", "with")]  # fmt: skip
    assert first.ids == [*chat.encode(chat_so_far), end]  # The cut answer's end is not trained.
    assert [first.ids[at] for at in first.sampled_positions] == [*rope, end]
    assert anew.ids == [*chat.encode([Message("user", "why")]), *rope]
    assert first.answers == [*(0 for _ in rope), 1]


def test_with_judged_credit_the_advantage_is_that_of_the_action(chat: ChatTokenizer) -> None:
    """The tokens of a notebook's entry before the action are trained by penalties only."""
    entry, action = "<notes>\nrope 2\n</notes>\n", "suggest rope"
    parts = [chat.encode_answer(text) for text in (entry, action)]
    ids = [*parts[0], *parts[1], chat.end_ids[0]]
    assert chat.encode_answer(entry + action) == ids[:-1], "no token spans the end of the entry"
    first = turn(entry + action, ids, [-1.0] * len(ids), messages=[ask("who")])
    first = replace(first, action="suggest Rope")
    illegal = replace(turn("rope", ids[:2], [-1.0] * 2, messages=[ask("no")]), is_legal=False)
    won = Trajectory((first, illegal), 1.0).with_judgements({})
    lost = Trajectory(())
    group = TrajectoryGroup((won, lost))
    whole, of_action = (
        token_sequences(Credit(name, {"illegal": 2.0}).assign([group]), chat)[0]
        for name in ("game", "judged")
    )
    assert whole.advantages == [0.5] * (len(ids) + 2)
    rest = len(parts[1]) + 1
    assert of_action.advantages == [0.0] * len(parts[0]) + [0.5] * rest + [-1.5] * 2
    assert of_action.sampled_positions == whole.sampled_positions
    assert whole.in_action == [False] * len(parts[0]) + [True] * rest + [False] * 2
