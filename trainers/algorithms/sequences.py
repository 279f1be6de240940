"""Token sequences of trajectory groups: the tokens that were sampled, and their context.

The trained tokens are the ids that the sampler returned; a text is never tokenised again. The next
prompt of a chat usually starts with all tokens so far. A new sequence starts where it does not:
the chat was rebuilt, or the text of an answer has another tokenisation than its ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import NamedTuple

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from trainers.trajectory import SampledToken, TrajectoryGroup, Turn

Encode = Callable[[Sequence[Message]], list[int]]
"""Tokenise a chat with its template, up to where the next answer starts."""


@dataclass(slots=True)
class TokenSequence:
    """One sequence of a trajectory, up to its last sampled token."""

    trajectory: int
    """Index of the trajectory in the call."""
    group: int
    """Index of its group in the call."""
    ids: list[int] = field(default_factory=list)
    sampled_positions: list[int] = field(default_factory=list)
    """Positions of the trained tokens in `ids`, ascending. All others are context only."""
    sampled_logprobs: list[float] = field(default_factory=list)
    """Log-probability of each trained token as it was drawn, in nats: with the temperature, and
    among the tokens that a grammar allowed. The old log-probabilities of importance ratios."""
    policy_logprobs: list[float] = field(default_factory=list)
    """Log-probability of each trained token, in nats, without temperature and grammar."""
    weight: float = 1.0
    """Weight of each of its tokens."""
    index: int = 0
    """Index of the sequence in the call. Importance ratios may be averaged over a sequence."""
    advantages: list[float] = field(default_factory=list)
    """Advantage of each trained token."""
    answers: list[int] = field(default_factory=list)
    """Number of the answer of each trained token within the sequence. Empty: unknown, so that each
    token counts as an answer of its own."""
    temperature: float = 1.0
    """Logits are divided by it before log p_new is taken."""

    def add(self, answer: AnswerTokens) -> None:
        """Append the new part of the prompt as context, then the answer as trained tokens."""
        # The prompt starts with `ids`, which the caller has checked.
        # What the prompt adds, such as role tokens and new messages, is context and not trained.
        self.ids.extend(answer.prompt[len(self.ids) :])
        number = self.answers[-1] + 1 if self.answers else 0
        for token in answer.tokens:
            self.sampled_positions.append(len(self.ids))
            self.ids.append(token.id)
            self.sampled_logprobs.append(token.logprob)
            self.policy_logprobs.append(token.policy_logprob)
            self.advantages.append(answer.advantage)
            self.answers.append(number)


class AnswerTokens(NamedTuple):
    """An answer in a chat."""

    prompt: Sequence[int]
    """All tokens before it."""
    tokens: Sequence[SampledToken]
    advantage: float = 0.0


def token_sequences(
    groups: Sequence[TrajectoryGroup],
    encode: Encode,
    penalised: bool = False,
    equal_games: bool = False,
) -> list[TokenSequence]:
    """Return all sequences with a gradient.

    Args:
        groups: trajectories with advantages; each group shares a deal.
        encode: tokenises the chat before an answer.
        penalised: keep trajectories whose advantages are all 0: a penalty has a gradient there.
        equal_games: give the tokens of a trajectory the weight 1 / (their number + 1e-6), as ART
            does. By default each token has the weight 1: with a weight by length, what is learned
            would depend on how long the game went on afterwards (Liu et al. 2025, "Understanding
            R1-Zero-like training", arXiv:2503.20783).

    Raises ArenaError if a prompt that the server read differs from the one that would be trained.
    """
    sequences: list[TokenSequence] = []
    indices = count()
    # Counts all trajectories, also those left out; `indices` counts sequences with a gradient.
    trajectory_number = -1
    for group_number, group in enumerate(groups):
        for trajectory in group.trajectories:
            trajectory_number += 1
            if not penalised and not any(turn.advantage for turn in trajectory.turns):
                continue
            # One sequence per stretch of a chat that was only appended to.
            own = [
                sequence
                for chat in trajectory.chats()
                for sequence in split_answers(
                    _answers(chat, encode), TokenSequence(trajectory_number, group_number)
                )
            ]
            # Over all sequences of the trajectory: the split must not change its weight.
            tokens = sum(len(sequence.sampled_positions) for sequence in own)
            for sequence in own:
                sequence.index = next(indices)
                sequence.weight = 1 / (tokens + 1e-6) if equal_games else 1.0
            sequences += own
    return sequences


def split_answers(answers: Iterable[AnswerTokens], first: TokenSequence) -> Iterator[TokenSequence]:
    """Yield the sequences of one chat, whose answers come in its order.

    `first`, a sequence without tokens, is filled; further ones belong to the same trajectory.
    """
    current = first
    for answer in answers:
        # Context and earlier answers must be a prefix of the prompt, token by token. If not, the
        # model answers in another context, and this is another sequence.
        if list(answer.prompt[: len(current.ids)]) != current.ids:
            yield current
            current = TokenSequence(first.trajectory, first.group, weight=first.weight)
        current.add(answer)
    if current.sampled_positions:
        yield current


def _answers(turns: Sequence[Turn], encode: Encode) -> Iterator[AnswerTokens]:
    """Yield the answers of one chat with the prompts before them."""
    chat = list[Message]()
    for turn in turns:
        chat += turn.messages
        prompt = encode(chat)
        _check_served_prompt(turn.prompt_ids, prompt)
        yield AnswerTokens(prompt, turn.tokens, turn.advantage)
        # As text: the next prompt shows how the template writes it, in the tokens of the server.
        chat.append(Message("assistant", turn.text))


def _check_served_prompt(served: Sequence[int], prompt: Sequence[int]) -> None:
    """Raise ArenaError if the server read other tokens than those that would be trained."""
    # Importance ratios compare probabilities given the same context; with another one they would
    # be wrong without any other sign.
    if served and list(served) != list(prompt):
        first = _common_length(prompt, served)
        raise ArenaError(
            f"the server read a prompt of {len(served)} tokens, training would use {len(prompt)} "
            f"tokens, and they differ at token {first}; does the server use another tokenizer or "
            "chat template than the base model?"
        )


def shared_prefix_length(sequences: Sequence[TokenSequence]) -> int:
    """Return how many leading tokens all sequences share, none of which predicts a trained token.

    A row of the prefix is computed once for all sequences, while each sequence needs logits of its
    own for its trained tokens. Row t - 1 predicts the token at position t, so the prefix has at
    most min(first trained position) - 1 tokens.
    """
    first = min(sequence.sampled_positions[0] for sequence in sequences)
    # -1 if a sequence starts with a trained token: then there is no prefix.
    return max(0, min(first - 1, _common_length(*(sequence.ids for sequence in sequences))))


def _common_length(*lists: Sequence[int]) -> int:
    """Return how many leading elements are the same in all lists."""
    columns = zip(*lists, strict=False)
    return sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))
