"""Groups of trajectories about nothing in particular."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from arena.llm.backend import Message
from backends.embedded.tokenizer import ChatTokenizer
from trainers.credit import Credit
from trainers.trajectory import SampledToken, Trajectory, TrajectoryGroup, Turn

WORDS = (
    "suggest", "accuse", "Colonel", "Mustard", "kitchen", "rope", "Plum", "is", "with", "the",
    "nobody", "wrong",
)  # fmt: skip


def turn(
    text: str,
    ids: Sequence[int],
    logprobs: Sequence[float],
    *,
    messages: Sequence[Message] = (),
    starts_chat: bool = False,
    finish: str = "stop",
    prompt: Sequence[int] = (),
) -> Turn:
    """An answer with its tokens, after these messages."""
    tokens = tuple(
        SampledToken(number, value, value) for number, value in zip(ids, logprobs, strict=True)
    )
    return Turn(tuple(messages), text, tokens, tuple(prompt), starts_chat, finish)


def credited(groups: Sequence[TrajectoryGroup]) -> list[TrajectoryGroup]:
    """The groups with advantages, as the loop hands them to a host."""
    return Credit().assign(groups)


@dataclass(slots=True)
class Talk:
    """Makes chats up; whoever gives the same generator gets the same ones."""

    chat: ChatTokenizer
    rng: random.Random

    def words(self, most: int = 4) -> str:
        return " ".join(self.rng.choice(WORDS) for _ in range(self.rng.randint(1, most)))

    def answer(self, messages: Sequence[Message], *, starts_chat: bool) -> Turn:
        """Some words in their one tokenisation, or none; a quarter are cut before their end."""
        text = self.words() if self.rng.random() < 0.9 else ""
        ids = self.chat.tokenizer.encode(text, add_special_tokens=False)
        cut = bool(text) and self.rng.random() < 0.25
        ids += [] if cut else [self.chat.end_ids[0]]
        logprobs = [-self.rng.expovariate(0.7) - 1e-3 for _ in ids]
        finish = "length" if cut else "stop"
        return turn(text, ids, logprobs, messages=messages, starts_chat=starts_chat, finish=finish)

    def history(self, system: str, question: str, number: int) -> list[Turn]:
        """Questions and answers, among them answers of which no tokens are known."""
        turns: list[Turn] = []
        new = [Message("system", system)]
        for place in range(number):
            new.append(Message("user", self.words() if place else question))
            if self.rng.random() < 0.2:
                new.append(Message("assistant", self.words()))
                continue
            turns.append(self.answer(new, starts_chat=not turns))
            new = []
        return turns

    def group(self, size: int, turns: int = 3, told_anew: float = 0.3) -> TrajectoryGroup:
        """Trajectories that begin alike; in half of the groups up to the first answer."""
        system = self.words(12)
        common = self.words() if self.rng.random() < 0.5 else ""
        trajectories = []
        for _ in range(size):
            chats = [self.history(system, common or self.words(), self.rng.randint(1, turns))]
            if self.rng.random() < told_anew:
                chats.append(self.history(system, common or self.words(), turns))
            reward = self.rng.choice([0.0, 1.0, self.rng.random()])
            played = tuple(each for chat in chats for each in chat)
            trajectories.append(Trajectory(played, reward))
        return TrajectoryGroup(tuple(trajectories))
