"""Asking somebody else for its move at the decisions of a recorded game; nothing is played on.

Each decision is put to a fresh agent, which knows what the player could know then, and nothing of
what it was asked before. A forced move is no decision.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from arena.agents.agent import Agent, Seat
from arena.agents.prompt import ChatOptions
from arena.agents.seating import make_agent
from arena.core.assessment import Appraiser
from arena.core.game import Game
from arena.core.json import Json
from arena.core.observation import Observation
from arena.core.ply import Decision, Ply
from arena.core.seeds import stream
from arena.episodes.replay import Replay
from arena.episodes.runner import decide
from arena.llm.service import LLMService

Facts = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Fact:
    """How a fact of a move is told."""

    unit: str
    about: str


FACTS = {
    "expected": Fact("bits", "what the question could be expected to bring"),
    "best": Fact("bits", "what the best question there could be expected to bring"),
    "leaked": Fact("bits", "what the card that was shown told the player who asked"),
    "least": Fact("bits", "what the card that tells least would have told"),
    "choices": Fact("", "cards that could be shown"),
    "probability": Fact("%", "that the accusation is right, as far as the seat can know"),
    "break_even": Fact("%", "probability from which on an accusation pays"),
}
"""By the names that assessors give them; others are shown as plain numbers."""
CONTEXT = frozenset({"best", "least", "choices", "break_even"})
"""Facts of the position, whatever is played in it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A decision of the replay."""

    ply: int
    seen: Observation
    played: Decision


@dataclass(frozen=True, slots=True)
class Opinion:
    """What was played, what somebody else would have played, and what exact knowledge says."""

    ply: int
    player: int
    played: Decision
    said: Decision
    """With a `failure` if it gave no legal reply; the action then means nothing."""
    of_played: Facts
    of_said: Facts
    """Empty for no legal reply, and where the game has nothing to say."""

    @property
    def same(self) -> bool:
        return self.said.failure is None and self.said.action == self.played.action

    @property
    def shown_of_played(self) -> Facts:
        """What to tell beside the move. The best is the best of those that were compared, and what
        was said is one of them: so it is one number, the larger."""
        played, said = self.of_played, self.of_said.get("best")
        best = played.get("best")
        if is_number(best) and is_number(said):
            return {**played, "best": max(best, said)}
        return played

    @property
    def shown_of_said(self) -> Facts:
        """The same without what has been told of the position already."""
        told = CONTEXT & self.of_played.keys()
        return {name: value for name, value in self.of_said.items() if name not in told}


@dataclass(slots=True)
class SecondOpinion:
    """One SPEC, asked at the decisions of these seats."""

    replay: Replay
    spec: str
    seats: Collection[int]
    seed: int
    """Of whatever the agent draws."""
    llm: LLMService | None = None
    models: ChatOptions = ChatOptions()
    forced: int = 0
    """Decisions of these seats that were none; known after `questions`."""
    answers: dict[int, Decision] = field(default_factory=dict)
    """By ply, as far as they have come."""

    def questions(self) -> list[Question]:
        """The decisions of these seats. Raises ReplayError where a move does not fit the rules."""
        found, self.forced = list[Question](), 0
        for walked in self.replay.walk():
            if walked.seen is None or walked.ply.player not in self.seats:
                continue
            if len(walked.seen.legal_actions) == 1:
                self.forced += 1
            else:
                found.append(Question(walked.ply.number, walked.seen, walked.ply.decision))
        return found

    def check(self) -> None:
        """Raises UsageError for a bad SPEC."""
        game = self.replay.make_game()
        for player in self.seats:
            self._agent(Seat(game, player, stream(self.seed, "check")))

    async def ask(
        self, questions: Collection[Question], at_once: int, told: Callable[[], None]
    ) -> None:
        """Put the questions, at most so many at once, and call `told` after each answer.

        Raises StopPlaying if an agent does; what was answered before stays.
        """
        waiting, game = iter(questions), self.replay.make_game()

        async def work() -> None:
            for question in waiting:
                self.answers[question.ply] = await self._put(question, game)
                told()
                await asyncio.sleep(0)  # Lets Ctrl-C in between the moves of bots.

        workers = [asyncio.ensure_future(work()) for _ in range(min(at_once, len(questions)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _put(self, question: Question, game: Game) -> Decision:
        seen, ply = question.seen, question.ply
        agent = self._agent(Seat(game, seen.player, stream(self.seed, f"ask {ply}")))
        answer = await decide(agent, seen, stream(self.seed, f"fallback {ply}"))
        return answer.decision

    def _agent(self, seat: Seat) -> Agent:
        # A decision without a legal reply is an answer too: it must not end the asking.
        models = replace(self.models, fallback="random")
        level = self.replay.header.text_level
        return make_agent(self.spec, replace(seat, text_level=level, llm=self.llm, models=models))

    def opinions(self) -> Iterator[Opinion]:
        """The answers so far, beside what was played, in the order of the plies."""
        assessor = self.replay.make_game().assessor(self.seats)
        judge = assessor if isinstance(assessor, Appraiser) else None
        last = max(self.answers, default=-1)
        for walked in self.replay.walk():
            ply = walked.ply
            if ply.number > last:
                return
            said = self.answers.get(ply.number)
            if said is not None:
                yield _opinion(ply, said, judge)
            if judge:  # Without the details, which a forged replay may fill with anything.
                judge.ply(replace(ply, decision=Decision(ply.decision.action)))


def _opinion(ply: Ply, said: Decision, judge: Appraiser | None) -> Opinion:
    """`judge` has seen everything before this ply."""

    def facts(decision: Decision) -> Facts:
        return judge.appraise(ply.player, decision.action) if judge else {}

    of_said = {} if said.failure else facts(said)
    return Opinion(ply.number, ply.player, ply.decision, said, facts(ply.decision), of_said)


@dataclass(frozen=True, slots=True)
class Compared:
    """The mean of a fact over the decisions at which it is known of both moves."""

    played: float
    said: float
    n: int


def compare(opinions: Collection[Opinion]) -> dict[str, Compared]:
    """By their names, the facts that are numbers and depend on the move."""
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for opinion in opinions:
        for name, value in opinion.of_played.items():
            other = opinion.of_said.get(name)
            if name not in CONTEXT and is_number(value) and is_number(other):
                pairs[name].append((value, other))
    return {
        name: Compared(
            sum(played for played, _ in values) / len(values),
            sum(said for _, said in values) / len(values),
            len(values),
        )
        for name, values in pairs.items()
    }


def is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
