"""The chat of one seat of one game: options, prompts, and the record of each request.

The system message holds the rules and the form of an answer. After it, the chat grows by the news
of each decision (`append`: cheap, since a provider caches what it has read), or is rebuilt at each
decision from the whole observation (`fresh`). A chat that exceeds the context loses its oldest
replies, and if that is not enough its oldest events, which the notebook of the game replaces. The
newest notes of the model itself stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from arena.agents.notebook import LONGEST_NOTES, own_notes
from arena.agents.reply.reader import Reading, ReplyFailure
from arena.core.errors import ArenaError, BackendError, FailureCause, UsageError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.spec import Spec, redacted
from arena.core.text import first_fault, neutralise, shorten
from arena.llm.backend import (
    BackendTraits,
    Choice,
    Completion,
    FinishReason,
    Message,
    Request,
    Sampling,
    common_prefix_length,
)

ChatMode = Literal["append", "fresh"]
AnswerForm = Literal["text", "json", "tools"]

THINKING_ROOM = 15_360
"""Tokens. A model that thinks uses several thousand for one decision; what it does not use costs
nothing."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Options of the chat with a model."""

    chat: ChatMode = "append"
    answers: AnswerForm = "text"
    guided: bool = False
    """Let the backend allow legal actions only, where it can; no thinking is possible then, and no
    speech."""
    max_attempts: int = 3
    beliefs: bool = False
    """Ask for beliefs about hidden facts too, at each decision."""
    logprobs: bool = False
    """Keep token ids and log-probabilities in the replay."""
    sampling: Sampling = Sampling()
    system: str | None = None
    """Replaces the system message of the game."""
    thinking_room: int = THINKING_ROOM
    """Tokens by which the longest reply grows with a model that thinks."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the options as JSON; some of them only if they differ from the default."""
        fields = {**asdict(self), "sampling": self.sampling.to_json()}
        # Newer than the first replays, so that equal settings have equal headers.
        usual = {"system": None, "thinking_room": THINKING_ROOM}
        return {n: v for n, v in fields.items() if n not in usual or v != usual[n]}

    def check(self, spec: str, traits: BackendTraits) -> None:
        """Raise UsageError for options that this model cannot follow."""
        if self.answers == "tools" and not self.guided and not traits.takes_tools:
            raise UsageError(f"{redacted(spec)} cannot call functions: use --answers text or json")
        if self.guided and Spec.parse(spec).scaffold == "scratchpad":
            raise UsageError(
                f"{redacted(spec)}: guided replies hold a legal action and nothing else, so the "
                "scaffold 'scratchpad' has no effect; use --free"
            )

    def sampling_for(self, traits: BackendTraits) -> Sampling:
        """Return the sampling of a model: a reply that includes thinking may be longer."""
        limit = self.sampling.max_tokens
        if traits.thinks(self.sampling):
            with_room = limit + self.thinking_room
            # A provider refuses a limit above its own; one that the user has chosen is sent anyway.
            limit = max(limit, min(with_room, traits.max_reply_tokens or with_room))
        return replace(self.sampling, max_tokens=limit)


ACTION_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"thoughts": {"type": "string"}, "action": {"type": "string"}},
    "required": ["thoughts", "action"],
    "additionalProperties": False,
}
"""The JSON schema of an answer of the form "json"."""

HOW_TO_ANSWER: dict[AnswerForm, str] = {
    "text": "You may think first. End your reply with one line: `Action: ` and your action.",
    "json": 'Answer with JSON: {"thoughts": "…", "action": "your action"}.',
    "tools": "Answer by calling the function of your action.",
}
"""Instructions that the system message adds to the rules."""

DETAILS = "Details: "
"""Beginning of the paragraph that models with a chat template of pretraining do not read."""


def rule_details(game: Game, turn_limit: int | None) -> str:
    """Return the details of the rules, and the limit of turns where there is one."""
    limit = f"The game ends undecided after turn {turn_limit}." if turn_limit else ""
    return " ".join(filter(None, (game.text.rule_details(), limit)))


def full_rules(game: Game, turn_limit: int | None) -> str:
    """Return the rules, with their details as a last paragraph, like a system message."""
    details = rule_details(game, turn_limit)
    return f"{game.text.rules()}\n{DETAILS}{details}" if details else game.text.rules()


def system_message(
    game: Game, answers: AnswerForm = "text", turn_limit: int | None = None
) -> Message:
    """Return the rules, the form of an answer, and details of the rules."""
    details = rule_details(game, turn_limit)
    last = f"\n{DETAILS}{details}" if details else ""
    return Message("system", f"{game.text.rules()}\n{HOW_TO_ANSWER[answers]}{last}")


def brief_message(
    game: Game, answers: AnswerForm = "text", turn_limit: int | None = None
) -> Message:
    """Return the notation only, for models that know the rules: an example of each type of action.

    It states no limit of turns.
    """
    # In reverse, so that the first action of each type is the one that stays; then reversed again
    # for the order of the game.
    examples = {type(action): str(action) for action in reversed(game.actions)}
    forms = " | ".join(reversed(examples.values()))
    how = "Answer with one action, nothing else." if answers == "text" else HOW_TO_ANSWER[answers]
    return Message("system", f"You play {game.name}. Actions look like: {forms}\n{how}")


def system_prompt(
    name: str, game: Game, answers: AnswerForm = "text", turn_limit: int | None = None
) -> str:
    """Return the system prompt `rules` or `brief`, or that of a file `….txt`.

    In a file, `{rules}` is replaced by the rules of the game, `{answer}` by the answer format and
    `{details}` by details of the rules. Raises UsageError for an unknown name or a file that cannot
    be read.
    """
    if name in ("rules", "brief"):
        message = system_message if name == "rules" else brief_message
        return message(game, answers, turn_limit).content
    if not name.endswith(".txt"):
        raise UsageError(f"--prompt {name}: choose rules, brief or a file.txt")
    try:
        text = Path(name).read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prompt {name}: {error}") from error
    if not text:
        raise UsageError(f"--prompt {name}: the file is empty")
    # Not `format`: the text may hold other braces, for example JSON.
    parts = {
        "{rules}": game.text.rules(),
        "{answer}": HOW_TO_ANSWER[answers],
        "{details}": rule_details(game, turn_limit),
    }
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


SCRATCHPAD = (
    "You may keep notes: write <notes>…</notes> before your action. The newest block replaces the "
    f"one before, up to {LONGEST_NOTES} characters, and you can read it at later decisions, even "
    "when your replies are left out."
)
"""Part of the system message of a model with a scratchpad."""


def text_level_of(spec: str, default: TextLevel) -> TextLevel:
    """Return the text level of a SPEC's scaffold; `default` without one."""
    match Spec.parse(spec).scaffold:
        case "notes" | "deductions" as level:
            return level
        case None:
            return default
        case _:
            return "events"


def opening(game: Game, options: ChatOptions, turn_limit: int | None = None) -> Message:
    """Return the system message: that of the options, else that of the game."""
    if options.system is not None:
        return Message("system", options.system)
    return system_message(game, options.answers, turn_limit)


class Chat:
    """The messages between the table and one player, after the `opening`."""

    def __init__(
        self, opening: Message, mode: ChatMode = "append", level: TextLevel = "notes"
    ) -> None:
        self.mode = mode
        self.level = level
        self.messages = [opening]
        self.scratchpad = ""
        """The model's own notes, for a chat without the reply in which it wrote them."""
        self.forgotten = 0
        """Number of the oldest events that were left out to save space."""
        self._asked: list[Observation] = []
        """Observations of the questions: the last one in each message of the user."""

    def ask(self, observation: Observation) -> None:
        """Ask for a decision, with the news or the whole observation."""
        if self.mode == "fresh" or not self._asked:
            self.messages[1:], self._asked = [], [observation]
            self._begin_at(0)
        else:
            self._add(observation.text(self.level, self._asked[-1].num_events), observation)

    def add_reply(self, reply: str) -> None:
        """Record the reply of the model, which may repeat a control token that it was asked to."""
        self.messages.append(Message("assistant", neutralise(reply, is_answer=True)))

    def correct(self, text: str) -> None:
        """Answer a reply with a correction, which may quote it."""
        self._add(neutralise(text), self._asked[-1])

    @property
    def repeated(self) -> int:
        """Number of messages at the start that the next request repeats."""
        return 1 if self.mode == "fresh" else len(self.messages)

    def shorten(self) -> bool:
        """Ask the same in fewer words; return False if nothing can be left out any more.

        The older half of the replies goes: the first message then tells all events up to the first
        reply that stays. The newest notes of the model stay. If no older reply is left, half of the
        remaining events of the first message go; at last all replies do.
        """
        replies = self.messages[2::2]
        noted = [number for number, reply in enumerate(replies) if own_notes(reply.content)]
        older = noted[-1] if noted else len(replies)
        events = self._asked[0].num_events - self.forgotten
        if older:
            self._begin_at((older + 1) // 2)
        elif events >= 2:
            # Halving reaches the end after log2(events) calls.
            self.forgotten += (events + 1) // 2
            self._begin_at(0)
        elif replies:
            self._begin_at(len(replies))
        else:
            return False
        return True

    def _begin_at(self, question: int) -> None:
        """Replace the messages up to a question, by number, by the whole observation then."""
        self._asked = self._asked[question:]
        text = self._asked[0].text(self.level, forget=self.forgotten)
        # The system message is before the questions, and a reply behind each but the last.
        replies = self.messages[2 + 2 * question :]
        if self.scratchpad and not any(own_notes(message.content) for message in replies):
            # Last, so that a provider's cache of prompts keeps the events before.
            text += f"\nYour notes:\n{neutralise(self.scratchpad)}"
        self.messages[1:] = [Message("user", text), *replies]

    def _add(self, text: str, observation: Observation) -> None:
        """Add user text. Roles must alternate, so it extends a message without an answer."""
        last = self.messages[-1]
        if last.role == "user":
            self.messages[-1] = Message("user", f"{last.content}\n{text}")
            self._asked[-1] = observation
        else:
            self.messages.append(Message("user", text))
            self._asked.append(observation)


AttemptFailure = ReplyFailure | Literal["provider_error"]

DEFAULTS = Sampling().to_json()


class Attempt(BaseModel):
    """One request and its answer. Times are seconds; costs are US dollars."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kept: int = Field(default=0, ge=0, description="Messages shared with the previous request.")
    messages: tuple[Message, ...] = Field(description="The messages after those.")
    sampling: dict[str, JsonValue] = Field(default_factory=dict, description="If not default.")
    reply: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish_reason: FinishReason = "stop"
    failure: AttemptFailure | None = None
    excerpt: str = Field(default="", description="Text that shows the failure.")
    cause: FailureCause | None = Field(default=None, description="Of a provider_error.")
    model: str = ""
    engine: str = Field(
        default="", description="The model with its provider and fingerprint, if they are known."
    )
    policy_version: int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = Field(default=0, description="Of the prompt, not computed again.")
    reasoning_tokens: int = Field(default=0, description="Of the completion, for thinking.")
    cost: float | None = None
    seconds: float = 0.0
    prompt_token_ids: tuple[int, ...] = ()
    tokens: tuple[tuple[int | None, float, float | None], ...] = Field(
        default=(), description="Id, log-probability, the same as sampled (temperature, mask)."
    )

    @classmethod
    def of_request(cls, request: Request, before: Sequence[Message]) -> Self:
        """Return an attempt without an answer; `before` are the messages of the last request."""
        kept = common_prefix_length(before, request.messages)
        sampling = non_default_fields(request.sampling)
        return cls(kept=kept, messages=request.messages[kept:], sampling=sampling)

    def with_answer(self, completion: Completion, reading: Reading) -> Self:
        """Return the attempt with its answer and the parsed action or failure."""
        choice = completion.choice
        return self.model_copy(
            update={
                "reply": choice.text,
                "reasoning": choice.reasoning,
                "refusal": choice.refusal,
                "finish_reason": choice.finish_reason,
                "failure": reading.failure,
                "excerpt": reading.excerpt if reading.failure else "",
                "model": completion.model,
                "engine": completion.engine if completion.engine != completion.model else "",
                "policy_version": completion.policy_version,
                **asdict(completion.usage),
                "cost": completion.cost,
                "seconds": round(completion.seconds, 6),
                # Prompt ids are only of use together with the tokens of the answer.
                "prompt_token_ids": completion.prompt_token_ids if choice.tokens else (),
                "tokens": tuple((t.id, t.logprob, t.sampled_logprob) for t in choice.tokens),
            }
        )

    def with_error(self, error: BackendError) -> Self:
        """Return the attempt with the error of the provider."""
        update = {"failure": "provider_error", "cause": error.cause, "excerpt": str(error)}
        return self.model_copy(update=update)

    def choice(self) -> Choice:
        """Return what the model has answered, without its tokens."""
        return Choice(self.reply, self.finish_reason, self.reasoning, self.refusal)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the record as JSON. Fields that have their default value are omitted."""
        return self.model_dump(mode="json", exclude_defaults=True)


def record_of(attempts: Iterable[Attempt], forgotten: int) -> dict[str, JsonValue]:
    """Return the details of a decision; `forgotten` as in `Chat`."""
    details: dict[str, JsonValue] = {"attempts": [attempt.to_json() for attempt in attempts]}
    return details | ({"forgotten": forgotten} if forgotten else {})


def parse_attempts(
    details: Mapping[str, JsonValue],
) -> tuple[list[Attempt], list[tuple[JsonValue, str]]]:
    """Return the attempts in the details of a decision, and each other record with its fault.

    Details are JSON of any shape: a replay may come from a stranger.
    """
    listed = details.get("attempts", [])
    attempts: list[Attempt] = []
    invalid: list[tuple[JsonValue, str]] = []
    for record in listed if isinstance(listed, list) else [listed]:
        try:
            attempts.append(Attempt.model_validate(record))
        except ValidationError as error:
            invalid.append((record, first_fault(error, "it")))
    return attempts, invalid


def attempts_in(decision: Decision) -> list[Attempt]:
    """Return the attempts of a decision. Raises ArenaError if a record is none."""
    attempts, invalid = parse_attempts(decision.details)
    if invalid:
        raise ArenaError(f"the recorded attempts are invalid: {shorten(invalid[0][1])}")
    return attempts


def non_default_fields(sampling: Sampling) -> dict[str, JsonValue]:
    """Return the fields that differ from the default."""
    fields = sampling.to_json()
    return {name: value for name, value in fields.items() if value != DEFAULTS.get(name)}


def requests_of(attempts: Iterable[Attempt]) -> list[tuple[Message, ...]]:
    """Return the complete messages of each request, from the attempts of one seat in order."""
    last: tuple[Message, ...] = ()
    requests = []
    for attempt in attempts:
        # Inverse of `Attempt.of_request`: the shared prefix, then the recorded rest.
        last = last[: attempt.kept] + attempt.messages
        requests.append(last)
    return requests
