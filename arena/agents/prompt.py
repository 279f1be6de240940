"""What a model reads: the system message, and the chat of one seat of one game.

The system message holds the rules and how to answer. After it the chat grows by what is new at each
decision (`append`: cheap, since everything before was read already), or is rebuilt each time from
the whole situation (`fresh`). A chat that has become too long is rebuilt too; if even that is too
long, the oldest table talk is left out and the notebook that follows from it stands in its place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from arena.core.game import Game
from arena.core.json import Json
from arena.core.observation import Observation, TextLevel
from arena.llm.backend import Message, Sampling

ChatMode = Literal["append", "fresh"]
AnswerForm = Literal["text", "json"]
Fallback = Literal["random", "forfeit", "stop"]


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How models are spoken to, and what happens when they give no legal answer."""

    chat: ChatMode = "append"
    answers: AnswerForm = "text"
    guided: bool = False
    """Let the backend allow legal actions only, where it can; no thinking is possible then."""
    max_attempts: int = 3
    fallback: Fallback = "random"
    beliefs: bool = False
    """At each decision, ask what the model thinks that is hidden."""
    logprobs: bool = False
    """Keep token ids and log-probabilities in the replay."""
    sampling: Sampling = Sampling()
    system: str | None = None
    """The system message, where it is not the game's rules and how to answer."""

    def to_json(self) -> dict[str, Json]:
        told = {**asdict(self), "sampling": self.sampling.to_json()}
        if self.system is None:
            del told["system"]
        return told


ACTION_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"thoughts": {"type": "string"}, "action": {"type": "string"}},
    "required": ["thoughts", "action"],
    "additionalProperties": False,
}
"""The JSON schema of an answer of the form "json"."""

HOW_TO_ANSWER: dict[AnswerForm, str] = {
    "text": "You may think first. The last action that you write is the one that counts.",
    "json": 'Answer with JSON: {"thoughts": "…", "action": "your action"}.',
}
"""What the system message adds to the rules."""


def system_message(game: Game, answers: AnswerForm = "text") -> Message:
    return Message("system", f"{game.rules()}\n{HOW_TO_ANSWER[answers]}")


class Chat:
    """The messages between the table and one player."""

    def __init__(
        self,
        game: Game,
        mode: ChatMode = "append",
        level: TextLevel = "notes",
        answers: AnswerForm = "text",
        system: str | None = None,
    ) -> None:
        self.mode = mode
        self.level = level
        self.messages = [
            system_message(game, answers) if system is None else Message("system", system)
        ]
        self.forgotten = 0
        """Events whose telling was left out to save space."""
        self._read = 0

    def ask(self, observation: Observation) -> None:
        """Ask for a decision: tell what is new, or everything anew."""
        if self.mode == "fresh" or len(self.messages) == 1:
            self._rebuild(observation)
        else:
            self._say(observation.text(self.level, self._read))
        self._read = observation.num_events

    def answered(self, reply: str) -> None:
        """Take down what the model said."""
        self.messages.append(Message("assistant", reply))

    def correct(self, text: str) -> None:
        """Tell the model what was wrong with its reply."""
        self._say(text)

    def shorten(self, observation: Observation) -> bool:
        """Ask the same in fewer words; False if nothing is left to save.

        At first the chat is told anew in one message, which says nothing twice; each further time
        half of the talk that is left is left out.
        """
        if len(self.messages) <= 2:
            if observation.num_events - self.forgotten < 2:
                return False
            self.forgotten += (observation.num_events - self.forgotten + 1) // 2
        self._rebuild(observation)
        return True

    def _rebuild(self, observation: Observation) -> None:
        del self.messages[1:]
        self._say(observation.text(self.level, forget=self.forgotten))

    def _say(self, text: str) -> None:
        """Speak to the model; roles must alternate, so what was not answered is added to."""
        last = self.messages[-1]
        if last.role == "user":
            self.messages[-1] = Message("user", f"{last.content}\n{text}")
        else:
            self.messages.append(Message("user", text))
