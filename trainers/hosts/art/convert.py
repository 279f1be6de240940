"""Our trajectories and settings as ART's, and trajectories the other way round.

In ART the tokens of `Choice`s with log-probabilities are trained, and everything else is context. A
chat that was restarted or shortened is another history of the trajectory. Our own servers report
two log-probabilities per token; the field `policy_logprob` holds the second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast, get_args

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.llm.backend import Message, Role
from trainers.config.config import UpdateOptions
from trainers.hosts.art.classes import Choice, History
from trainers.hosts.art.classes import Trajectory as ArtTrajectory
from trainers.hosts.art.classes import TrajectoryGroup as ArtGroup
from trainers.trajectory import SampledToken, Trajectory, TrajectoryGroup, Turn

OPENAI_FINISH_REASONS = frozenset({"stop", "length", "content_filter", "tool_calls"})


def to_art(group: TrajectoryGroup) -> ArtGroup:
    """Return the group as ART's. Rewards and advantages of turns are lost."""
    return ArtGroup(
        [_trajectory_to_art(each) for each in group.trajectories],
        exceptions=[ArenaError(reason) for reason in group.failures],
    )


def update_to_art(update: UpdateOptions, host: str) -> dict[str, JsonValue]:
    """Return the keyword arguments of `train` of the ART backend of the host `local`, or another.

    Settings that it lacks are refused by the host's preflight.
    """
    keywords: dict[str, JsonValue] = {
        "learning_rate": update.learning_rate,
        # Divided by the group's standard deviation, advantages have another optimum:
        # `trainers.credit`.
        "scale_rewards": False,
    }
    if update.epsilon is not None:  # None means ART's own default.
        keywords["epsilon"] = update.epsilon
    if host != "local":
        return keywords | {"ppo": update.loss_fn == "ppo"}
    keywords |= {"loss_fn": update.loss_fn, "kl_penalty_coef": update.kl_penalty_coef}
    if update.kl_penalty_coef:
        keywords["kl_penalty_reference_step"] = update.kl_penalty_reference_step
    return keywords


def _trajectory_to_art(trajectory: Trajectory) -> ArtTrajectory:
    # ART's trajectory has one main history; a seat that never decided has an empty one.
    first, *others = [_items(chat) for chat in trajectory.chats()] or [[]]
    result = ArtTrajectory(
        messages_and_choices=first,
        additional_histories=[History(messages_and_choices=items) for items in others],
        reward=trajectory.reward,
        metrics=dict(trajectory.metrics),
        metadata={
            "seed": trajectory.seed,
            "seat": trajectory.seat,
            "won": trajectory.won,
            "plies": trajectory.plies,
        },
    )
    if versions := trajectory.versions:
        result.initial_policy_version, result.final_policy_version = versions[0], versions[-1]
    return result


def _items(chat: Sequence[Turn]) -> list[Any]:
    items: list[Any] = []
    for turn in chat:
        items += [{"role": one.role, "content": one.content} for one in turn.messages]
        items.append(choice_of(turn))
    return items


def choice_of(turn: Turn) -> Choice:
    """Return the answer as OpenAI's class, with the ids of the prompt and of the sampled tokens."""
    tokens: list[JsonValue] = [
        {
            "token": f"token_id:{token.id}",
            "logprob": token.logprob,
            "bytes": None,
            "top_logprobs": [],
            "policy_logprob": token.policy_logprob,
        }
        for token in turn.tokens
    ]
    # OpenAI's class rejects reasons that it does not know.
    known = turn.finish_reason in OPENAI_FINISH_REASONS
    return Choice.model_validate(
        {
            "index": 0,
            "finish_reason": turn.finish_reason if known else "stop",
            "message": {"role": "assistant", "content": turn.text},
            "logprobs": {"content": tokens},
            "prompt_token_ids": list(turn.prompt_ids),
        }
    )


def from_art(group: ArtGroup) -> TrajectoryGroup:
    """Return ART's group as ours. The last turn of a trajectory earns its reward.

    Raises ArenaError if a token of an answer has no id.
    """
    return TrajectoryGroup(
        tuple(_trajectory_from_art(each) for each in group.trajectories),
        failures=tuple(each.message for each in group.exceptions),
    )


def _trajectory_from_art(trajectory: ArtTrajectory) -> Trajectory:
    histories = [trajectory.messages_and_choices]
    histories += [each.messages_and_choices for each in trajectory.additional_histories]
    turns = tuple(turn for items in histories for turn in _turns(items))
    metrics = {name: float(value) for name, value in trajectory.metrics.items()}
    return Trajectory(turns, metrics=metrics).with_reward(trajectory.reward)


def _turns(items: Iterable[Any]) -> Iterator[Turn]:
    """Yield the answers of one history that can be trained."""
    new, starts = list[Message](), True
    for item in items:
        if not isinstance(item, Choice):
            role = item["role"] if item["role"] in get_args(Role) else "user"
            new.append(Message(cast("Role", role), str(item.get("content") or "")))
            continue
        text, tokens = item.message.content or "", sampled_tokens(item)
        if not tokens:
            # An answer without log-probabilities cannot be trained and is context.
            new.append(Message("assistant", text))
            continue
        prompt = (item.model_extra or {}).get("prompt_token_ids") or ()
        yield Turn(tuple(new), text, tokens, tuple(prompt), starts, item.finish_reason)
        new, starts = [], False


def sampled_tokens(choice: Choice) -> tuple[SampledToken, ...]:
    """Return the sampled tokens; empty without log-probabilities, since it cannot be trained.

    Raises ArenaError if the server returned texts of tokens in place of ids.
    """
    if choice.logprobs is None or not choice.logprobs.content:
        return ()
    tokens = []
    for token in choice.logprobs.content:
        # OpenAI's API has no field for token ids; vLLM writes them as the token's text.
        prefix, _, number = token.token.partition(":")
        if prefix != "token_id" or not number.isdigit():
            raise ArenaError(
                f"a token of the answer has no id ({token.token!r}): the server must return tokens "
                "as token_id:N (arena serve --tokens-as-ids, vLLM --return-tokens-as-token-ids)"
            )
        # Other servers report one number per token, which is then taken for both.
        policy_logprob = (token.model_extra or {}).get("policy_logprob", token.logprob)
        tokens.append(SampledToken(int(number), token.logprob, policy_logprob))
    return tuple(tokens)
