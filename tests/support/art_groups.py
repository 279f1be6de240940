"""Groups of trajectories as ART takes them, about nothing in particular."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.embedded.tokenizer import ChatTokenizer
from trainers.hosts.art import Choice, History, Trajectory, TrajectoryGroup

WORDS = (
    "suggest", "accuse", "Colonel", "Mustard", "kitchen", "rope", "Plum", "is", "with", "the",
    "nobody", "wrong",
)  # fmt: skip


def choice(
    text: str,
    ids: Sequence[int],
    logprobs: Sequence[float],
    *,
    finish: str = "stop",
    prompt: Sequence[int] = (),
) -> Choice:
    """An answer, as an OpenAI client returns it from a server that spells tokens as ids."""
    tokens: list[dict[str, Any]] = [
        {"token": f"token_id:{number}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for number, logprob in zip(ids, logprobs, strict=True)
    ]
    content: dict[str, Any] = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": tokens},
    }
    return Choice.model_validate(content | ({"prompt_token_ids": list(prompt)} if prompt else {}))


@dataclass(slots=True)
class Talk:
    """Makes chats up; whoever gives the same generator gets the same ones."""

    chat: ChatTokenizer
    rng: random.Random

    def words(self, most: int = 4) -> str:
        return " ".join(self.rng.choice(WORDS) for _ in range(self.rng.randint(1, most)))

    def answer(self) -> Choice:
        """Some words in their one tokenisation, or none; a quarter are cut before their end."""
        text = self.words() if self.rng.random() < 0.9 else ""
        ids = self.chat.tokenizer.encode(text, add_special_tokens=False)
        cut = bool(text) and self.rng.random() < 0.25
        ids += [] if cut else [self.chat.end_ids[0]]
        logprobs = [-self.rng.expovariate(0.7) - 1e-3 for _ in ids]
        return choice(text, ids, logprobs, finish="length" if cut else "stop")

    def history(self, system: str, question: str, turns: int) -> list[Any]:
        """Questions and answers, among them answers of which no tokens are known."""
        items: list[Any] = [{"role": "system", "content": system}]
        for turn in range(turns):
            items.append({"role": "user", "content": self.words() if turn else question})
            answer = self.answer()
            if self.rng.random() < 0.15:
                answer = answer.model_copy(update={"logprobs": None})
            known = {"role": "assistant", "content": self.words()}
            items.append(known if self.rng.random() < 0.1 else answer)
        return items

    def group(self, size: int, turns: int = 3, told_anew: float = 0.3) -> TrajectoryGroup:
        """Trajectories that begin alike; in half of the groups up to the first answer."""
        system = self.words(12)
        common = self.words() if self.rng.random() < 0.5 else ""
        trajectories = []
        for _ in range(size):
            extra = int(self.rng.random() < told_anew)
            trajectories.append(
                Trajectory(
                    messages_and_choices=self.history(
                        system, common or self.words(), self.rng.randint(1, turns)
                    ),
                    additional_histories=[
                        History(
                            messages_and_choices=self.history(system, common or self.words(), turns)
                        )
                        for _ in range(extra)
                    ],
                    reward=self.rng.choice([0.0, 1.0, self.rng.random()]),
                )
            )
        return TrajectoryGroup(trajectories)
