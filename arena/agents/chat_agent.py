"""Agent that lets a language model play.

At each decision the model gets the news, and its reply is searched for an action (see
`arena.agents.reply.reader`). A reply without a legal one is answered with a short correction, up to
`max_attempts` replies in all. Then, or if the provider gives no answer, a fallback is played: one
of the game's `fallback_actions`, drawn at random (in Cluedo never an accusation).

Every attempt is recorded in the details of the decision, and `decision.failure` names a fallback,
so that results can be computed with and without such games.
"""

from __future__ import annotations

from dataclasses import replace

from arena.agents.action_tools import action_tools
from arena.agents.agent import Seat
from arena.agents.chat import (
    ACTION_SCHEMA,
    SCRATCHPAD,
    Attempt,
    Chat,
    attempts_in,
    opening,
    record_of,
    text_level_of,
)
from arena.agents.notebook import own_notes
from arena.agents.reply.reader import Reading, correction, read_reply
from arena.core.errors import BackendError, ContextOverflow, StopPlaying, UsageError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.core.spec import Spec, redacted
from arena.llm.backend import Choice, Message, Request

NO_ANSWER = "(no answer)"
"""Replaces an empty reply in the chat: some providers refuse empty messages."""
LONGEST_TOKEN = 16
"""Characters. A reply longer than `max_tokens` times this is cut in the chat, since every later
request would pay for it again; the replay keeps all of it."""


class ChatAgent:
    """Plays one seat with the model of a SPEC: asks, reads, corrects, falls back."""

    def __init__(self, spec: str, seat: Seat) -> None:
        if seat.llm is None:
            raise UsageError(
                f"seat {seat.player}: '{spec}' is a model; give its Seat an LLMService (llm=…)"
            )
        traits = seat.llm.traits(spec)  # Finds a missing key or an unknown model before the game.
        self.spec, self.llm = spec, seat.llm
        self._seat, self._options = seat, seat.models
        options = seat.models
        if options.sampling.asks_to_think and not traits.takes_thinking:
            line = f"{redacted(spec)} cannot think: --reasoning-effort has no effect on it"
            seat.llm.hint(f"thinking {spec}", line)
        options.check(spec, traits)
        self._sampling = options.sampling_for(traits)
        # Of a mixture of versions one plays the whole game, drawn from the seat's own stream.
        self._versions = dict(traits.versions)
        self._version: int | None = None
        if self._versions:
            self._version = seat.rng.choices(*zip(*traits.versions, strict=True))[0]
        first = opening(seat.game, options, seat.turn_limit)
        self._keeps_notes = Spec.parse(spec).scaffold == "scratchpad"
        if self._keeps_notes:
            first = Message("system", f"{first.content}\n{SCRATCHPAD}")
        self._chat = Chat(first, options.chat, text_level_of(spec, seat.text_level))
        self.last_request = Request(())
        """The last request; the record of an attempt has only the messages added since."""

    async def act(self, observation: Observation) -> Decision:
        try:
            return await self._decide(observation)
        except StopPlaying:
            raise
        except Exception as error:  # The game goes on with a fallback move, which counts too.
            self.llm.count_decision(self.spec, f"{type(error).__name__}: {error}")
            raise

    async def _decide(self, observation: Observation) -> Decision:
        self._chat.ask(observation)
        attempts: list[Attempt] = []
        for left in range(self._options.max_attempts - 1, -1, -1):
            reading = await self._attempt(observation, attempts)
            if reading.action is not None:
                self.llm.count_decision(self.spec, None)
                details = record_of(attempts, self._chat.forgotten)
                return Decision(reading.action, details=details)
            # `LLMService` has retried already; another attempt would only repeat that.
            if attempts[-1].failure == "provider_error":
                break
            # After the last attempt there is no request that could carry the correction.
            if left:
                self._correct(reading, observation)
        return self._fall_back(observation, attempts)

    def follow(self, observation: Observation, decision: Decision) -> None:
        """Continue the chat by a recorded decision of this seat, without asking the model.

        Only replies come from the record, which is untrusted; prompts are made again. Raises
        ArenaError for details that are no record of a chat.
        """
        attempts = attempts_in(decision)
        if not attempts:
            return  # An error of the agent: nothing was written.
        self._chat.ask(observation)
        if attempts[0].policy_version in self._versions:
            self._version = attempts[0].policy_version
        for left, attempt in zip(range(len(attempts) - 1, -1, -1), attempts, strict=True):
            self.last_request = Request(tuple(self._chat.messages))
            if attempt.cause == "context_length":
                self._chat.shorten()
            elif attempt.failure != "provider_error":
                reading = self._read(attempt.choice(), observation)
                if reading.action is None and left:
                    self._correct(reading, observation)

    async def _attempt(self, observation: Observation, attempts: list[Attempt]) -> Reading:
        """Ask once, read the reply and add the record to `attempts`.

        A chat that is too long for the model is shortened; the failed requests are recorded too.
        """
        request = self._request(observation)
        while True:
            attempt = Attempt.of_request(request, self.last_request.messages)
            self.last_request = request
            try:
                completion = await self.llm.complete(self.spec, request)
            except BackendError as error:
                attempts.append(attempt.with_error(error))
                # Shortening costs no attempt: the model has not seen the question. Each round
                # removes text, so the loop ends.
                if not isinstance(error, ContextOverflow) or not self._chat.shorten():
                    return Reading(None, None, str(error))
                messages = tuple(self._chat.messages)
                request = replace(request, messages=messages, repeated=self._chat.repeated)
                continue
            reading = self._read(completion.choice, observation)
            attempts.append(attempt.with_answer(completion, reading))
            if reading.failure == "truncated":
                self._explain_truncation(reading.is_cut_thinking)
            return reading

    def _request(self, observation: Observation) -> Request:
        options = self._options
        guided = tuple(map(str, observation.legal_actions)) if options.guided else ()
        # At most one form of guidance may be set, see `Request`.
        answers = "text" if guided else options.answers
        return Request(
            tuple(self._chat.messages),
            # A new seed for each request, from the stream of this seat: equal prompts may get
            # different replies, and the game stays reproducible. 31 bits fit a signed 32-bit
            # integer.
            replace(self._sampling, seed=self._seat.rng.getrandbits(31)),
            logprobs=options.logprobs,
            guided_choice=guided,
            guided_json=ACTION_SCHEMA if answers == "json" else None,
            tools=action_tools(observation.game) if answers == "tools" else (),
            repeated=self._chat.repeated,
            policy_version=self._version,
        )

    def _read(self, choice: Choice, observation: Observation) -> Reading:
        """Add an answer to the chat and parse it."""
        reply = choice.text or choice.refusal or NO_ANSWER
        # The end is kept, because the action is usually last.
        kept = reply[-LONGEST_TOKEN * self._options.sampling.max_tokens :]
        self._chat.add_reply(kept)
        if self._keeps_notes and (notes := own_notes(reply)) is not None:
            self._chat.scratchpad = notes
        return read_reply(choice.text, observation, choice.finish_reason, choice.refusal)

    def _correct(self, reading: Reading, observation: Observation) -> None:
        """Answer a reply without a legal action."""
        self._chat.correct(correction(reading, observation, self._sampling.max_tokens))

    def _explain_truncation(self, is_cut_thinking: bool) -> None:
        """Name the flags that help, once per run."""
        how = "while the model was thinking" if is_cut_thinking else "before it named an action"
        self.llm.hint(
            "truncated",
            f"{redacted(self.spec)}: a reply was cut off at {self._sampling.max_tokens:,} tokens, "
            f"{how}; raise --max-tokens{' or lower --reasoning-effort' if is_cut_thinking else ''}",
        )

    def _fall_back(self, observation: Observation, attempts: list[Attempt]) -> Decision:
        last = attempts[-1]
        why = f"{last.failure} in attempt {len(attempts)}: {last.excerpt or last.reply[:80]!r}"
        self.llm.count_decision(self.spec, why)
        choices = observation.game.fallback_actions(observation)
        action = self._seat.rng.choice(choices)
        return Decision(action, why, record_of(attempts, self._chat.forgotten))
