"""From ART's trajectory groups to token sequences: what was sampled, after what was served.

What is trained are the ids that the sampler returned, never a text that is tokenised again. A
chat's next prompt usually begins with all that came before; where it does not (the chat was told
anew, or an answer's text has another tokenisation than its ids), a new sequence begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from trainers.hosts.art import Choice, Trajectory, TrajectoryGroup

Encode = Callable[[Sequence[Message]], list[int]]


@dataclass(slots=True)
class TokenSequence:
    """One sequence of a trajectory, up to its last sampled token."""

    trajectory: int
    """Number of the trajectory in the call."""
    group: int
    advantage: float
    ids: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    """Positions of the trained tokens in `ids`."""
    logprobs: list[float] = field(default_factory=list)
    """Of these, as they were sampled: with the temperature, and among what a guide left over."""
    policy: list[float] = field(default_factory=list)
    """Of these under the weights that sampled them, without temperature and guide."""
    weight: float = 0.0
    number: int = 0
    """Of the sequence in the call: importance ratios are averaged over it."""

    def add(self, prompt: Sequence[int], answer: Sequence[SampledToken]) -> None:
        self.ids.extend(prompt[len(self.ids) :])
        for token in answer:
            self.sampled.append(len(self.ids))
            self.ids.append(token.id)
            self.logprobs.append(token.logprob)
            self.policy.append(token.policy)


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token as the sampler returned it."""

    id: int
    logprob: float
    """As it was drawn."""
    policy: float
    """Under the model's own distribution."""


def sequences_of(
    groups: Sequence[TrajectoryGroup], encode: Encode, scale_rewards: bool = True
) -> list[TokenSequence]:
    """All sequences with a gradient, weighted as ART does.

    An advantage is the reward less the group's mean, over its standard deviation (+ 1e-6) if
    scaled. Trajectories without advantage are left out. The tokens of a trajectory
    share one weight, the inverse of their number. Raises ArenaError if a prompt that was served is
    not what would be trained.
    """
    found: list[TokenSequence] = []
    numbers = count()
    trajectories = 0
    for group_number, group in enumerate(groups):
        for trajectory, advantage in zip(group, advantages(group, scale_rewards), strict=True):
            trajectories += 1
            if advantage == 0:
                continue
            own = [
                sequence
                for history in _histories(trajectory)
                for sequence in _sequences(
                    history, encode, TokenSequence(trajectories - 1, group_number, advantage)
                )
            ]
            tokens = sum(len(sequence.sampled) for sequence in own)
            for sequence in own:
                sequence.weight, sequence.number = 1 / (tokens + 1e-6), next(numbers)
            found += own
    return found


def advantages(group: TrajectoryGroup, scale: bool) -> list[float]:
    """GRPO's advantages (Shao et al. 2024, outcome supervision), as ART computes them."""
    rewards = [trajectory.reward for trajectory in group]
    if not rewards:
        return []
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    divisor = deviation + 1e-6 if scale else 1.0
    return [(reward - mean) / divisor for reward in rewards]


def _histories(trajectory: Trajectory) -> Iterator[Sequence[object]]:
    yield trajectory.messages_and_choices
    for history in trajectory.additional_histories:
        yield history.messages_and_choices


def _sequences(
    history: Sequence[object], encode: Encode, first: TokenSequence
) -> Iterator[TokenSequence]:
    """The sequences of one history; `first` is filled, further ones are like it."""
    current, chat = first, list[Message]()
    for item in history:
        if not isinstance(item, Choice):
            assert isinstance(item, dict)
            chat.append(Message(item["role"], str(item.get("content") or "")))
            continue
        answer = sampled_tokens(item)
        if answer:
            prompt = encode(chat)
            _check_served(item, prompt)
            if prompt[: len(current.ids)] != current.ids:
                yield current
                current = TokenSequence(first.trajectory, first.group, first.advantage)
            current.add(prompt, answer)
        chat.append(Message("assistant", item.message.content or ""))
    if current.sampled:
        yield current


def sampled_tokens(choice: Choice) -> list[SampledToken]:
    """What was sampled; nothing for a choice without log-probabilities, which is not trained."""
    if choice.logprobs is None or not choice.logprobs.content:
        return []
    tokens = []
    for token in choice.logprobs.content:
        prefix, _, number = token.token.partition(":")
        if prefix != "token_id" or not number.isdigit():
            raise ArenaError(
                f"a token of the answer has no id ({token.token!r}): the server must return tokens "
                "as token_id:N (arena serve --tokens-as-ids, vLLM --return-tokens-as-token-ids)"
            )
        policy = (token.model_extra or {}).get("policy_logprob", token.logprob)
        tokens.append(SampledToken(int(number), token.logprob, policy))
    return tokens


def _check_served(choice: Choice, prompt: Sequence[int]) -> None:
    """What is trained must be what was sampled from."""
    served = (choice.model_extra or {}).get("prompt_token_ids")
    if served and list(served) != list(prompt):
        at = next(
            (n for n, (ours, theirs) in enumerate(zip(prompt, served, strict=False))
             if ours != theirs),
            min(len(prompt), len(served)),
        )  # fmt: skip
        raise ArenaError(
            f"the prompt that was served ({len(served)} tokens) is not the one that would be "
            f"trained ({len(prompt)} tokens): they differ at token {at}; does the server use "
            "another tokenizer or chat template than the base model?"
        )


def shared_length(sequences: Sequence[TokenSequence]) -> int:
    """How many tokens all of them begin with, none of which is followed by a trained one.

    The last shared token is not counted if a trained token may follow it: its logits belong to
    each sequence by itself.
    """
    length = min(sequence.sampled[0] for sequence in sequences) - 1
    for one, other in pairwise(sequences):
        same = 0
        for a, b in zip(one.ids[:length], other.ids[:length], strict=False):
            if a != b:
                break
            same += 1
        length = min(length, same)
    return max(length, 0)
