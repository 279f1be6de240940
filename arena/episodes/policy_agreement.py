"""Agreement of a policy with a recorded game: what would it have played at each decision?

Each decision of the replay is put to a fresh agent, which gets the observation of that moment and
nothing else. No game is played on. A position with one legal action is not a decision.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from pydantic import JsonValue

from arena.agents.agent import Agent, Seat, close_agents
from arena.agents.chat import ChatOptions
from arena.agents.seating import make_agent
from arena.core.analysis import Appraiser
from arena.core.event import Decision, Ply
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.seeds import stream
from arena.episodes.match import decide
from arena.episodes.replay import Replay
from arena.llm.service import LLMService

Facts = Mapping[str, JsonValue]
"""Facts of exact knowledge about a move, by name; `GameAnalysis.facts` describes them."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision of the replay: the observation of the player, and what it played."""

    ply: int
    observation: Observation
    played: Decision


@dataclass(frozen=True, slots=True)
class Comparison:
    """One decision: the move of the replay and that of the policy, with the facts of both."""

    ply: int
    player: int
    played: Decision
    proposed: Decision
    """Its action has no meaning if it has a `failure` (the policy gave no legal action)."""
    facts_of_played: Facts
    facts_of_proposed: Facts
    """Empty for a failure, and for a game without exact knowledge."""

    @property
    def is_same(self) -> bool:
        return self.proposed.failure is None and self.proposed.action == self.played.action


@dataclass(slots=True)
class PolicyAgreement:
    """One SPEC, asked at the decisions of some seats of a replay."""

    replay: Replay
    spec: str
    seats: Collection[int]
    seed: int
    """Seeds the draws of the agent."""
    llm: LLMService | None = None
    chat: ChatOptions = ChatOptions()
    forced_moves: int = 0
    """Positions of these seats with one legal action; counted by `recorded_decisions`."""
    answers: dict[int, Decision] = field(default_factory=dict)
    """Decisions of the policy so far, by ply."""

    def recorded_decisions(self) -> list[RecordedDecision]:
        """Return the decisions of these seats. Raises ReplayError for a move against the rules."""
        decisions, self.forced_moves = list[RecordedDecision](), 0
        for walked in self.replay.walk():
            if walked.observation is None or walked.ply.player not in self.seats:
                continue
            # A forced move shows no agreement: every policy would play it.
            if walked.observation.legal_actions.is_forced:
                self.forced_moves += 1
            else:
                number, played = walked.ply.number, walked.ply.decision
                decisions.append(RecordedDecision(number, walked.observation, played))
        return decisions

    def check(self) -> None:
        """Raise UsageError for a SPEC that does not name an agent."""
        game = self.replay.make_game()
        for player in self.seats:
            self._make_agent(Seat(game, player, stream(self.seed, "check")))

    async def ask(
        self,
        decisions: Collection[RecordedDecision],
        max_concurrent: int,
        on_answer: Callable[[], None],
    ) -> None:
        """Ask the policy at these decisions and call `on_answer` after each answer.

        Raises StopPlaying if an agent does; earlier answers are kept.
        """
        queue, game = iter(decisions), self.replay.make_game()

        async def work() -> None:
            # All workers share one iterator, so each decision is taken once.
            for decision in queue:
                self.answers[decision.ply] = await self._decide(decision, game)
                on_answer()
                await asyncio.sleep(0)  # Lets Ctrl-C in between the moves of bots.

        count = min(max_concurrent, len(decisions))
        workers = [asyncio.ensure_future(work()) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            # After an error or a cancellation the other workers must end too, before the caller
            # goes on.
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _decide(self, decision: RecordedDecision, game: Game) -> Decision:
        observation, ply = decision.observation, decision.ply
        # A stream per ply: the answer does not depend on the order in which workers get there.
        rng = stream(self.seed, f"ask {ply}")
        agent = self._make_agent(Seat(game, observation.player, rng))
        try:
            answer = await decide(agent, observation, stream(self.seed, f"fallback {ply}"))
        finally:
            await close_agents([agent])
        return answer.decision

    def _make_agent(self, seat: Seat) -> Agent:
        # A reply without a legal action is an answer too: it must not end the run.
        chat = replace(self.chat, fallback="random")
        level = self.replay.header.text_level
        return make_agent(self.spec, replace(seat, text_level=level, llm=self.llm, models=chat))

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the answers so far beside the moves of the replay, in the order of the plies."""
        assessor = self.replay.make_game().analysis.assessor(self.seats)
        appraiser = assessor if isinstance(assessor, Appraiser) else None
        last = max(self.answers, default=-1)
        for walked in self.replay.walk():
            ply = walked.ply
            # No answers come later, so the rest of the game needs no replay.
            if ply.number > last:
                return
            proposed = self.answers.get(ply.number)
            if proposed is not None:
                yield _compared(ply, proposed, appraiser)
            if appraiser:  # Without the details: a forged replay may hold anything there.
                appraiser.ply(replace(ply, decision=Decision(ply.decision.action)))


def _compared(ply: Ply, proposed: Decision, appraiser: Appraiser | None) -> Comparison:
    """Return the comparison; the appraiser has taken in all earlier plies."""

    def facts(decision: Decision) -> Facts:
        return appraiser.appraise(ply.player, decision.action) if appraiser else {}

    of_proposed = {} if proposed.failure else facts(proposed)
    return Comparison(
        ply.number, ply.player, ply.decision, proposed, facts(ply.decision), of_proposed
    )


@dataclass(frozen=True, slots=True)
class MeanFact:
    """Means of one fact over the `n` decisions at which it is known of both moves."""

    played: float
    proposed: float
    n: int


def mean_facts(comparisons: Collection[Comparison], context: Set[str]) -> dict[str, MeanFact]:
    """Return the mean of each numeric fact by name.

    Facts in `context` describe the position, not the move, and are left out.
    """
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for comparison in comparisons:
        for name, value in comparison.facts_of_played.items():
            other = comparison.facts_of_proposed.get(name)
            if name not in context and is_number(value) and is_number(other):
                pairs[name].append((value, other))
    return {
        name: MeanFact(
            sum(played for played, _ in values) / len(values),
            sum(proposed for _, proposed in values) / len(values),
            len(values),
        )
        for name, values in pairs.items()
    }


def is_number(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
