"""Agent that lets a language model play.

At each decision the model gets the news, and its reply is searched for an action (see
`arena.agents.reply.reader`). A reply without a legal one is answered with a short correction, up to
`max_attempts` replies in all. Then, or if the provider gives no answer, the fallback decides:

- `random`: one of the game's `fallback_actions`, drawn at random (in Cluedo never an accusation);
- `forfeit`: the same, and the model is not asked again in this game;
- `stop`: the run ends; finished games are kept.

Every attempt is recorded in the details of the decision, and `decision.failure` names a fallback,
so that results can be computed with and without such games.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import JsonValue, TypeAdapter, ValidationError

from arena.agents.action_tools import action_tools
from arena.agents.agent import Agent, Seat
from arena.agents.chat import ACTION_SCHEMA, Attempt, Chat, ChatOptions, opening
from arena.agents.notebook import ModelNotebook, split_entry
from arena.agents.reply.reader import read_reply, visible
from arena.agents.reply.reading import Reading, correction
from arena.agents.scaffold import INSTRUCTION, check_scaffold, own_notes, text_level_of
from arena.core.action import Action
from arena.core.analysis import PlacedKnowledge
from arena.core.errors import ArenaError, BackendError, ContextOverflow, StopPlaying, UsageError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.core.spec import Spec, redacted
from arena.llm.backend import BackendTraits, Completion, Message, Request

NO_ANSWER = "(no answer)"
"""Replaces an empty reply in the chat: some providers refuse empty messages."""
LONGEST_TOKEN = 16
"""Characters. A reply longer than `max_tokens` times this is cut in the chat, since every later
request would pay for it again; the replay keeps all of it."""
SPENT = ("prompt_tokens", "completion_tokens", "cost")
"""Fields of an answer beside the chat that say what it has cost."""
_ATTEMPTS = TypeAdapter(list[Attempt])


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply and its record."""

    reading: Reading
    attempt: Attempt

    @property
    def is_cut_thinking(self) -> bool:
        """True if the limit on tokens came before the model had finished thinking."""
        return self.reading.failure == "truncated" and not visible(self.attempt.reply).strip()


class ChatAgent:
    """Plays one seat with the model of a SPEC."""

    def __init__(self, spec: str, seat: Seat) -> None:
        if seat.llm is None:
            raise UsageError(
                f"seat {seat.player}: '{spec}' is a model; give its Seat an LLMService (llm=…)"
            )
        traits = seat.llm.traits(spec)  # Finds a missing key or an unknown model before the game.
        self._spec = spec
        self._seat = seat
        self._llm = seat.llm
        self._options = options = seat.models
        if options.sampling.asks_to_think and not traits.takes_thinking:
            seat.llm.hint(
                f"thinking {spec}",
                f"{redacted(spec)} cannot think: --reasoning-effort and thinking_tokens have no "
                "effect on it",
            )
        if options.answers == "tools" and not options.guided and not traits.takes_tools:
            raise UsageError(f"{redacted(spec)} cannot call functions: use --answers text or json")
        self._sampling = replace(options.sampling, max_tokens=_reply_limit(traits, options))
        scaffold, level = Spec.parse(spec).scaffold, text_level_of(spec, seat.text_level)
        check_scaffold(scaffold, seat)
        self._keeps_notes = scaffold == "scratchpad"
        first, *others = opening(seat.game, options, level, seat.turn_limit)
        if self._keeps_notes:
            first = Message("system", f"{first.content}\n{INSTRUCTION}")
        self._chat = Chat([first, *others], options.chat, level)
        # Messages of the last request of this seat: an attempt records only what was added since.
        self._sent: tuple[Message, ...] = ()
        self._forfeited = False
        self._notebook: ModelNotebook | None = None
        """What the model has noted in this chat; None if it keeps no notebook."""

    async def act(self, observation: Observation) -> Decision:
        try:
            return await self._decide(observation)
        except StopPlaying:
            raise
        except Exception as error:  # The game goes on with a fallback move, which counts too.
            self._llm.count_decision(self._spec, f"{type(error).__name__}: {error}")
            raise

    async def _decide(self, observation: Observation) -> Decision:
        if self._forfeited:
            return self._fall_back(observation, "forfeit: it had given no legal answer before", {})
        self._chat.ask(observation)
        details: dict[str, JsonValue] = {}
        if self._options.beliefs and self._notebook is None:
            details |= await self._state_beliefs(observation)
        attempts: list[Attempt] = []
        left = self._options.max_attempts
        while left:
            answer = await self._attempt(observation, attempts)
            attempts.append(answer.attempt)
            # Updated at each round, so that every way out of the loop has the complete record.
            details["attempts"] = [attempt.to_json() for attempt in attempts]
            if self._chat.forgotten:
                details["forgotten"] = self._chat.forgotten
            if self._notebook is not None:
                details |= self._noted_beliefs(observation, details.get("beliefs"))
            if answer.reading.action is not None:
                self._llm.count_decision(self._spec, None)
                return Decision(answer.reading.action, details=details)
            # `LLMService` has retried already; another attempt would only repeat that.
            if answer.attempt.failure == "provider_error":
                break
            left -= 1
            # After the last attempt there is no request that could carry the correction.
            if left:
                self._correct(answer, observation)
        return self._give_up(observation, attempts, details)

    def follow(self, observation: Observation, decision: Decision) -> None:
        """Continue the chat by a recorded decision of this seat, without asking the model.

        Only replies come from the record, which is untrusted; prompts are made again. Raises
        ArenaError for details that are no record of a chat.
        """
        try:
            attempts = _ATTEMPTS.validate_python(decision.details.get("attempts") or [])
        except ValidationError as error:
            raise ArenaError(f"the recorded attempts are invalid: {error.errors()[0]}") from None
        self._forfeited = decision.failure is not None and self._options.fallback == "forfeit"
        if not attempts:
            return  # An error of the agent: nothing was written.
        self._chat.ask(observation)
        for left, attempt in zip(range(len(attempts) - 1, -1, -1), attempts, strict=True):
            self._sent = tuple(self._chat.messages)
            if attempt.cause == "context_length":
                self._shorten(observation)
            elif attempt.failure != "provider_error":
                parsed = self._read(attempt.completion(), attempt, observation)
                if parsed.reading.action is None and left:
                    self._correct(parsed, observation)

    async def _attempt(self, observation: Observation, attempts: list[Attempt]) -> ParsedReply:
        """Ask once and record the reply.

        A chat that is too long for the model is shortened; the failed requests are added to
        `attempts`.
        """
        request = self._request(observation)
        while True:
            try:
                completion = await self._llm.complete(self._spec, request)
            except BackendError as error:
                too_long = isinstance(error, ContextOverflow)
                attempt = Attempt.of_request(request, self._sent).with_error(error)
                self._sent = request.messages
                # Shortening costs no attempt: the model has not seen the question. Each round
                # removes text, so the loop ends.
                if too_long and self._shorten(observation):
                    attempts.append(attempt)
                    messages = tuple(self._chat.messages)
                    request = replace(request, messages=messages, repeated=self._chat.repeated)
                    continue
                return ParsedReply(Reading(None, None, str(error)), attempt)
            attempt = Attempt.of_request(request, self._sent)
            self._sent = request.messages
            parsed = self._read(completion, attempt, observation)
            if parsed.reading.failure == "truncated":
                self._explain_truncation(parsed.is_cut_thinking)
            return parsed

    def _read(
        self, completion: Completion, attempt: Attempt, observation: Observation
    ) -> ParsedReply:
        """Add an answer to the chat and parse it."""
        choice = completion.choices[0]
        reply = choice.text or choice.refusal or NO_ANSWER
        # The end is kept, because the action is usually last.
        kept = reply[-LONGEST_TOKEN * self._options.sampling.max_tokens :]
        self._chat.add_reply(kept, choice.provider_turn if kept == reply else None)
        if self._options.beliefs:
            self._note(reply)
        if self._keeps_notes and (notes := own_notes(reply)) is not None:
            self._chat.scratchpad = notes
        reading = read_reply(choice.text, observation, choice.finish_reason, choice.refusal)
        return ParsedReply(reading, attempt.with_answer(completion, reading))

    def _correct(self, answer: ParsedReply, observation: Observation) -> None:
        """Answer a reply without a legal action."""
        limit = self._sampling.max_tokens if answer.is_cut_thinking else 0
        self._chat.correct(correction(answer.reading, observation, limit))

    def _explain_truncation(self, is_cut_thinking: bool) -> None:
        """Name the flags that help, once per run."""
        how = "while the model was thinking" if is_cut_thinking else "before it named an action"
        self._llm.hint(
            "truncated",
            f"{redacted(self._spec)}: a reply was cut off at {self._sampling.max_tokens:,} tokens, "
            f"{how}; raise --max-tokens{' or lower --reasoning-effort' if is_cut_thinking else ''}",
        )

    def _request(self, observation: Observation) -> Request:
        options = self._options
        guided = tuple(map(str, observation.legal_actions)) if options.guided else ()
        return Request(
            tuple(self._chat.messages),
            # A new seed for each request, from the stream of this seat: equal prompts may get
            # different replies, and the game stays reproducible. 31 bits fit a signed 32-bit
            # integer.
            replace(self._sampling, seed=self._seat.rng.getrandbits(31)),
            logprobs=options.logprobs,
            guided_choice=guided,
            # At most one form of guidance may be set, see `Request`.
            guided_json=ACTION_SCHEMA if options.answers == "json" and not guided else None,
            tools=action_tools(observation.game)
            if options.answers == "tools" and not guided
            else (),
            repeated=self._chat.repeated,
        )

    async def _state_beliefs(self, observation: Observation) -> dict[str, JsonValue]:
        """Ask for beliefs about hidden facts; neither question nor answer enters the chat."""
        question = observation.game.text.belief_question(observation)
        if question is None:
            return {}
        request = self._request(observation)
        messages = (*request.messages, Message("user", question))
        # The answer is free text, not an action, so no guidance.
        request = replace(request, messages=messages, guided_choice=(), guided_json=None, tools=())
        try:
            completion = await self._llm.complete(self._spec, request)
        except BackendError as error:
            return {"beliefs": {"failure": "provider_error", "cause": error.cause}}
        usage = completion.usage
        # An answer from the cache is not paid for again.
        cost = 0.0 if completion.cached else completion.cost
        spent = (usage.prompt_tokens, usage.completion_tokens, cost)
        scores = observation.game.text.read_beliefs(completion.text, observation)
        record = {"reply": completion.text, **dict(zip(SPENT, spent, strict=True)), **scores}
        return {"beliefs": record}

    def _shorten(self, observation: Observation) -> bool:
        """Ask the same in fewer words, without the notebook; return whether that is possible."""
        if self._notebook is not None:
            self._notebook.forget()
        return self._chat.shorten(observation)

    def _note(self, reply: str) -> None:
        """Read the notebook entry of a reply, if it has one."""
        notebook = self._notebook
        if notebook is None:
            if not split_entry(reply)[0]:
                return
            knowledge = self._seat.game.analysis.knowledge(self._seat.player)
            if not isinstance(knowledge, PlacedKnowledge):
                return
            notebook = ModelNotebook(knowledge.placement())
        notebook.read(reply)
        # Other models may write notes of any form between the same marks.
        if notebook.left:
            self._notebook = notebook

    def _noted_beliefs(self, observation: Observation, asked: JsonValue) -> dict[str, JsonValue]:
        """Return the scores of what the notebook says.

        `asked` is the answer to a question about beliefs, where the notebook was not known yet: it
        is replaced, but for what it has cost.
        """
        text = observation.game.text
        if self._notebook is None or text.belief_question(observation) is None:
            return {}
        known = asked if isinstance(asked, dict) else {}
        spent = {name: known[name] for name in SPENT if name in known}
        statement = self._notebook.statement()
        scores = text.read_beliefs(statement, observation)
        return {"beliefs": {"reply": statement, **spent, **scores}}

    def _give_up(
        self, observation: Observation, attempts: list[Attempt], details: dict[str, JsonValue]
    ) -> Decision:
        last = attempts[-1]
        why = f"{last.failure} in attempt {len(attempts)}: {last.excerpt or last.reply[:80]!r}"
        if self._options.fallback == "stop":
            raise StopPlaying(f"seat {self._seat.player} ({self._spec}): {why}; fallback=stop")
        self._llm.count_decision(self._spec, why)
        self._forfeited = self._options.fallback == "forfeit"
        return self._fall_back(observation, why, details)

    def _fall_back(
        self, observation: Observation, why: str, details: dict[str, JsonValue]
    ) -> Decision:
        choices = observation.game.fallback_actions(observation)
        return Decision(self._seat.rng.choice(choices), why, details)


def _reply_limit(traits: BackendTraits, options: ChatOptions) -> int:
    """Return the longest reply in tokens, which includes the thinking of models that think."""
    limit = options.sampling.max_tokens
    if traits.always_thinks or (options.sampling.asks_to_think and traits.takes_thinking):
        with_room = limit + options.thinking_room
        # A provider refuses a limit above its own; a limit that the user has chosen is sent anyway.
        return max(limit, min(with_room, traits.max_reply_tokens or with_room))
    return limit


class ChatRecorder:
    """Plays as `bot`, and records its decisions as answers in `chat`.

    Subclasses extend `on_request` and `reply`. A recorder is an agent, so the `bot` may be another
    recorder: one game then gives several forms of the chat.
    """

    def __init__(self, bot: Agent, chat: Chat) -> None:
        self.chat = chat
        self._bot = bot

    async def act(self, observation: Observation) -> Decision:
        self.chat.ask(observation)
        self.on_request(observation)
        decision = await self._bot.act(observation)
        self.chat.add_reply(self.reply(decision.action))
        return decision

    def on_request(self, observation: Observation) -> None:
        """Do nothing; called when the chat ends with the question for a decision."""

    def reply(self, action: Action) -> str:
        """Return the reply for an action: its text alone."""
        return str(action)
