"""Trajectories: what the learner did in its games, as turns with tokens, rewards and advantages.

A `Turn` is one answer of the learner. A `Trajectory` holds the turns of one seat in one game, a
`TrajectoryGroup` the games of one deal from one seat, whose mean reward is the baseline of GRPO.
All are immutable: `dataclasses.replace` makes changed copies.

A `TokenSequence` is what an update trains on: the tokens that were sampled, and their context. The
trained tokens are the ids that the sampler returned; a text is never tokenised again. The next
prompt of a chat usually starts with all tokens so far. A new sequence starts where it does not:
the chat was rebuilt, or the text of an answer has another tokenisation than its ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from typing import NamedTuple, Protocol, TypeAlias

from arena.agents.notebook import NOTES_END, split_entry
from arena.core.errors import ArenaError
from arena.llm.backend import Message


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token as the sampler returned it; log-probabilities in nats."""

    id: int
    logprob: float
    """Log-probability of the draw, with temperature and grammar."""
    policy_logprob: float
    """Log-probability under the model's own distribution."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Value of a decision by exact knowledge, see `DecisionKind`."""

    kind: str
    value: float


Judgements: TypeAlias = tuple[Judgement, ...]
ILLEGAL = "illegal"
ILLEGAL_REPLY: Judgements = (Judgement(ILLEGAL, -1.0),)
"""The judgement of a reply that names no legal action, in every game."""


def reply_judgements(
    by_ply: Mapping[int, Judgements], ply: int | None, is_legal: bool
) -> Judgements:
    """Return the judgements of a reply: those of its ply, or `ILLEGAL_REPLY`."""
    if not is_legal:
        return ILLEGAL_REPLY
    return () if ply is None else by_ply.get(ply, ())


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the learner whose tokens are known, and the chat before it.

    A decision has several turns if the first answers were not legal.
    """

    messages: tuple[Message, ...]
    """The messages since the answer before; the whole chat for a turn that starts one."""
    text: str
    """The answer as the chat repeats it."""
    tokens: tuple[SampledToken, ...]
    prompt_ids: tuple[int, ...] = ()
    """The whole prompt as the server read it; empty if it does not report it."""
    starts_chat: bool = False
    """The chat does not continue that of the turn before: it was restarted or shortened."""
    finish_reason: str = "stop"
    policy_version: int | None = None
    """Number of training steps of the weights that answered; None: not reported."""
    ply: int | None = None
    """The decision; None: unknown."""
    advantage: float = 0.0
    """Advantage of its tokens; 0 until credit is assigned."""
    only_action: bool = False
    """True if the tokens of a notebook's entry before the action do not have the advantage."""
    is_legal: bool = True
    """It named a legal action, which was played."""
    action: str = ""
    """That action as the game writes it; empty if there is none, or it is not known."""
    judgements: Judgements = ()
    """Values of its action, if the game values it; `ILLEGAL_REPLY` if it is not legal."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The turns of one seat in one game."""

    turns: tuple[Turn, ...]
    """Turns in the order of play. The first one starts a chat."""
    reward: float = 0.0
    """Reward of the whole game."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Reward terms by name, unweighted."""
    seed: int = 0
    """Seed of the deal."""
    seat: int = 0
    won: bool = False

    @property
    def versions(self) -> list[int]:
        """Return the known policy versions of its turns, ascending."""
        known = {turn.policy_version for turn in self.turns}
        return sorted(version for version in known if version is not None)

    def with_advantages(
        self, advantages: Iterable[float], only_actions: bool = False
    ) -> Trajectory:
        """Return a copy whose turns have these advantages, in their order."""
        turns = (
            replace(turn, advantage=advantage, only_action=only_actions)
            for turn, advantage in zip(self.turns, advantages, strict=True)
        )
        return replace(self, turns=tuple(turns))

    def with_judgements(self, judgements: Mapping[int, Judgements]) -> Trajectory:
        """Return a copy whose turns have the judgements of their plies, or `ILLEGAL_REPLY`."""
        turns = (
            replace(turn, judgements=reply_judgements(judgements, turn.ply, turn.is_legal))
            for turn in self.turns
        )
        return replace(self, turns=tuple(turns))

    def chats(self) -> list[list[Turn]]:
        """Return the turns by chat: each list begins with a turn that starts one."""
        chats: list[list[Turn]] = []
        for turn in self.turns:
            if turn.starts_chat or not chats:
                chats.append([])
            chats[-1].append(turn)
        return chats


@dataclass(frozen=True, slots=True)
class TrajectoryGroup:
    """The trajectories of one seat in the games of one deal."""

    trajectories: tuple[Trajectory, ...]
    failures: tuple[str, ...] = ()
    """Reasons of the games that have no trajectory."""

    @property
    def turns(self) -> list[Turn]:
        """Return the turns of all trajectories, in their order."""
        return [turn for trajectory in self.trajectories for turn in trajectory.turns]


Encode = Callable[[Sequence[Message]], list[int]]
"""Tokenise a chat with its template, up to where the next answer starts."""


class ChatTokens(Protocol):
    """Tokenizer of a model, with its chat template."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Tokenise a chat, up to where the next answer starts."""

    def token_text(self, token: int, /) -> str:
        """Return the text of one token."""


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
    advantages: list[float] = field(default_factory=list)
    """Advantage of each trained token."""
    answers: list[int] = field(default_factory=list)
    """Number of the answer of each trained token within the sequence. Empty: unknown, so that each
    token counts as an answer of its own."""
    in_action: list[bool] = field(default_factory=list)
    """Whether each trained token is in the text of a legal action or follows it in its answer.
    Empty: unknown, so that all count as such."""
    temperature: float = 1.0
    """Logits are divided by it before log p_new is taken."""

    def add(self, answer: AnswerTokens) -> None:
        """Append the new part of the prompt as context, then the answer as trained tokens."""
        # The prompt starts with `ids`, which the caller has checked.
        # What the prompt adds, such as role tokens and new messages, is context and not trained.
        self.ids.extend(answer.prompt[len(self.ids) :])
        number = self.answers[-1] + 1 if self.answers else 0
        for place, token in enumerate(answer.tokens):
            self.sampled_positions.append(len(self.ids))
            self.ids.append(token.id)
            self.sampled_logprobs.append(token.logprob)
            self.policy_logprobs.append(token.policy_logprob)
            self.advantages.append(answer.advantage if place >= answer.entry else 0.0)
            self.answers.append(number)
            self.in_action.append(place >= answer.before_action)


class AnswerTokens(NamedTuple):
    """An answer in a chat."""

    prompt: Sequence[int]
    """All tokens before it."""
    tokens: Sequence[SampledToken]
    advantage: float = 0.0
    entry: int = 0
    """Number of the first tokens without the advantage: a notebook's entry before the action."""
    before_action: int = 0
    """Number of tokens before the text of its legal action; all of them if there is none."""


def token_sequences(
    groups: Sequence[TrajectoryGroup],
    tokenizer: ChatTokens,
    penalised: bool = False,
) -> list[TokenSequence]:
    """Return all sequences with a gradient.

    Args:
        groups: trajectories with advantages; each group shares a deal.
        tokenizer: that of the model which answered.
        penalised: keep trajectories whose advantages are all 0: a penalty has a gradient there.

    Each token has the weight 1. With a weight by the length of its trajectory, as in ART, what is
    learned would depend on how long the game went on afterwards (Liu et al. 2025, "Understanding
    R1-Zero-like training", arXiv:2503.20783).

    Raises ArenaError if a prompt that the server read differs from the one that would be trained.
    """
    sequences: list[TokenSequence] = []
    # Counts all trajectories, also those left out.
    trajectory_number = -1
    for group_number, group in enumerate(groups):
        for trajectory in group.trajectories:
            trajectory_number += 1
            if not penalised and not any(turn.advantage for turn in trajectory.turns):
                continue
            # One sequence per stretch of a chat that was only appended to.
            for chat in trajectory.chats():
                first = TokenSequence(trajectory_number, group_number)
                sequences += split_answers(_answers(chat, tokenizer), first)
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


def _answers(turns: Sequence[Turn], tokenizer: ChatTokens) -> Iterator[AnswerTokens]:
    """Yield the answers of one chat with the prompts before them."""
    chat = list[Message]()
    for turn in turns:
        chat += turn.messages
        prompt = tokenizer.encode(chat)
        _check_served_prompt(turn.prompt_ids, prompt)
        entry = _entry_tokens(turn, tokenizer) if turn.only_action else 0
        before = _tokens_before_action(turn, tokenizer)
        yield AnswerTokens(prompt, turn.tokens, turn.advantage, entry, before)
        # As text: the next prompt shows how the template writes it, in the tokens of the server.
        chat.append(Message("assistant", turn.text))


def _entry_tokens(turn: Turn, tokenizer: ChatTokens) -> int:
    """Return how many tokens write the notebook's entry at the beginning of an answer."""
    entry, _ = split_entry(turn.text)
    written = ""
    for number, token in enumerate(turn.tokens if entry else (), 1):
        written += tokenizer.token_text(token.id)
        if NOTES_END in written:
            return number
    return 0


def _tokens_before_action(turn: Turn, tokenizer: ChatTokens) -> int:
    """Return how many tokens come before the text of the action; all if it is not in the answer."""
    texts = [tokenizer.token_text(token.id) for token in turn.tokens]
    # The last place: a model that thinks first may name actions on the way.
    start = "".join(texts).casefold().rfind(turn.action.casefold()) if turn.action else -1
    if start < 0:
        return len(texts)
    ends = accumulate(map(len, texts))
    return sum(1 for _ in takewhile(lambda end: end <= start, ends))


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
