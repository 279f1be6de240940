"""Token sequences of ART's trajectory groups: the tokens that were sampled, and their context.

The trained tokens are the ids that the sampler returned; a text is never tokenised again. The next
prompt of a chat usually starts with all tokens so far. A new sequence starts where it does not:
the chat was rebuilt, or the text of an answer has another tokenisation than its ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import TYPE_CHECKING

from arena.core.errors import ArenaError
from arena.llm.backend import Message

if TYPE_CHECKING:
    from trainers.hosts.art import Choice, Trajectory, TrajectoryGroup

Encode = Callable[[Sequence[Message]], list[int]]
"""Tokenise a chat with its template, up to where the next answer starts."""


@dataclass(slots=True)
class TokenSequence:
    """One sequence of a trajectory, up to its last sampled token."""

    trajectory: int
    """Index of the trajectory in the call."""
    group: int
    """Index of its group in the call."""
    advantage: float
    ids: list[int] = field(default_factory=list)
    sampled_positions: list[int] = field(default_factory=list)
    """Positions of the trained tokens in `ids`, ascending. All others are context only."""
    sampled_logprobs: list[float] = field(default_factory=list)
    """Log-probability of each trained token as it was drawn, in nats: with the temperature, and
    among the tokens that a grammar allowed. The old log-probabilities of importance ratios."""
    policy_logprobs: list[float] = field(default_factory=list)
    """Log-probability of each trained token, in nats, without temperature and grammar."""
    weight: float = 0.0
    """Weight of each of its tokens: the inverse of the trajectory's number of trained tokens."""
    index: int = 0
    """Index of the sequence in the call. Importance ratios may be averaged over a sequence."""
    advantages: list[float] = field(default_factory=list)
    """Advantage of each trained token; empty: `advantage` for all of them."""
    temperature: float = 1.0
    """Logits are divided by it before log p_new is taken."""

    def add(self, prompt: Sequence[int], answer: Sequence[SampledToken]) -> None:
        """Append the new part of the prompt as context, then the answer as trained tokens."""
        # `prompt` starts with `ids`, which the caller has checked.
        # What the prompt adds, such as role tokens and new messages, is context and not trained.
        self.ids.extend(prompt[len(self.ids) :])
        for token in answer:
            self.sampled_positions.append(len(self.ids))
            self.ids.append(token.id)
            self.sampled_logprobs.append(token.logprob)
            self.policy_logprobs.append(token.policy_logprob)


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token as the sampler returned it; log-probabilities in nats."""

    id: int
    logprob: float
    """As it was drawn, with temperature and grammar."""
    policy_logprob: float
    """Under the model's own distribution."""


def token_sequences(
    groups: Sequence[TrajectoryGroup], encode: Encode, scale_rewards: bool = True
) -> list[TokenSequence]:
    """Return all sequences with a gradient, weighted as in ART.

    Trajectories of advantage 0 are left out. All tokens of a trajectory have the same weight
    1 / (number of trained tokens + 1e-6), so a long game does not count more than a short one.

    Args:
        groups: trajectories with rewards; each group shares a deal.
        encode: tokenises the chat before an answer.
        scale_rewards: divide advantages by the standard deviation of the group.

    Raises:
        ArenaError: a prompt that the server read differs from the one that would be trained, or a
            sampled token has no id.
    """
    sequences: list[TokenSequence] = []
    indices = count()
    # Counts all trajectories, also those left out; `indices` counts sequences with a gradient.
    trajectory_number = -1
    for group_number, group in enumerate(groups):
        pairs = zip(group, group_advantages(group, scale_rewards), strict=True)
        for trajectory, advantage in pairs:
            trajectory_number += 1
            if advantage == 0:
                # As in ART. The policy loss alone has no gradient here. The KL penalty and Kimi
                # K2's would have one: with them such a trajectory is left out all the same.
                continue
            # One sequence per stretch of a chat that was only appended to.
            own = [
                sequence
                for history in _histories(trajectory)
                for sequence in split_answers(
                    _answers(history, encode),
                    TokenSequence(trajectory_number, group_number, advantage),
                )
            ]
            # Over all sequences of the trajectory: the split must not change its weight.
            tokens = sum(len(sequence.sampled_positions) for sequence in own)
            for sequence in own:
                sequence.weight, sequence.index = 1 / (tokens + 1e-6), next(indices)
            sequences += own
    return sequences


def group_advantages(group: TrajectoryGroup, scale: bool) -> list[float]:
    """Return A_i = R_i - mean(R), divided by std(R) + 1e-6 if scaled, for each trajectory.

    GRPO with outcome supervision (Shao et al. 2024, arXiv:2402.03300), as ART computes it: the
    standard deviation is the population's.
    """
    rewards = [trajectory.reward for trajectory in group]
    if not rewards:
        return []
    # The group's mean is the baseline: its games share the deal, so luck of the deal cancels.
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    # 1e-6 as in ART; equal rewards give advantages of 0, not a division by 0.
    # The unit of A is standard deviations of the group, or without `scale` that of the reward.
    divisor = deviation + 1e-6 if scale else 1.0
    return [(reward - mean) / divisor for reward in rewards]


def _histories(trajectory: Trajectory) -> Iterator[Sequence[object]]:
    yield trajectory.messages_and_choices
    for history in trajectory.additional_histories:
        yield history.messages_and_choices


def split_answers(
    answers: Iterable[tuple[Sequence[int], Sequence[SampledToken]]], first: TokenSequence
) -> Iterator[TokenSequence]:
    """Yield the sequences of one chat. `first` is filled; further ones copy its advantage.

    Args:
        answers: each answer with the complete prompt before it, in the order of the chat.
        first: a sequence without tokens.
    """
    current = first
    for prompt, answer in answers:
        # Context and earlier answers must be a prefix of the prompt, token by token. If not, the
        # model answers in another context, and this is another sequence.
        if list(prompt[: len(current.ids)]) != current.ids:
            yield current
            current = TokenSequence(
                first.trajectory, first.group, first.advantage, weight=first.weight
            )
        current.add(prompt, answer)
    if current.sampled_positions:
        yield current


def _answers(
    history: Sequence[object], encode: Encode
) -> Iterator[tuple[list[int], list[SampledToken]]]:
    """Yield the answers of the trained policy with the prompts before them."""
    from trainers.hosts.art import Choice

    chat = list[Message]()
    for item in history:
        # A message is context. A `Choice` is an answer of the trained policy.
        if not isinstance(item, Choice):
            assert isinstance(item, dict), "ART allows messages and choices only"
            chat.append(Message(item["role"], str(item.get("content") or "")))
            continue
        answer = sampled_tokens(item)
        if answer:
            # An answer without log-probabilities cannot be trained and stays in the chat as
            # context.
            prompt = encode(chat)
            _check_served_prompt(item, prompt)
            yield prompt, answer
        # As text: the next prompt shows how the template writes it, in the tokens of the server.
        chat.append(Message("assistant", item.message.content or ""))


def sampled_tokens(choice: Choice) -> list[SampledToken]:
    """Return the sampled tokens; empty without log-probabilities, since it cannot be trained.

    Raises:
        ArenaError: the server returned texts of tokens in place of ids.
    """
    if choice.logprobs is None or not choice.logprobs.content:
        return []
    tokens = []
    for token in choice.logprobs.content:
        # OpenAI's API has no field for token ids; vLLM writes them as the token's text.
        prefix, _, number = token.token.partition(":")
        if prefix != "token_id" or not number.isdigit():
            raise ArenaError(
                f"a token of the answer has no id ({token.token!r}): the server must return tokens "
                "as token_id:N (arena serve --tokens-as-ids, vLLM --return-tokens-as-token-ids)"
            )
        # A field of arena's own servers. Others report one number per token, which is then taken
        # for both.
        policy_logprob = (token.model_extra or {}).get("policy_logprob", token.logprob)
        tokens.append(SampledToken(int(number), token.logprob, policy_logprob))
    return tokens


def _check_served_prompt(choice: Choice, prompt: Sequence[int]) -> None:
    """Raise ArenaError if the server read other tokens than those that would be trained."""
    # Importance ratios compare probabilities given the same context; with another one they would
    # be wrong without any other sign.
    served = (choice.model_extra or {}).get("prompt_token_ids")
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
