"""Session: a game in which some seats are decided from outside, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from arena.agents.reply.reader import correction, read_reply
from arena.core.action import Action
from arena.core.errors import ArenaError, InvalidAction, UsageError
from arena.core.event import Decision
from arena.core.game import State
from arena.core.observation import Observation
from arena.episodes.match import Delay, Match, Watcher, play
from arena.episodes.record import Episode, Header, Position
from arena.llm.backend import ModelService

EXTERNAL = "external"
"""Name of a seat that is decided from outside, in place of a SPEC."""


@dataclass(frozen=True, slots=True)
class SeatTurn:
    """Decision that a seat must take now, or the end of the game."""

    number: int
    """Decisions that the seat was asked for before this one."""
    observation: Observation
    is_over: bool = False
    """The game has ended, and the observation is the last one."""


class GameSession:
    """One game that `play` plays, and whose external seats wait for `act`.

        session = GameSession(Match(game, [EXTERNAL, "bot:novice", "bot:novice"], seed=7), [0])
        turn = await session.turn(0)
        while not turn.is_over:
            session.act(0, choose(turn.observation))
            turn = await session.turn(0)
        episode = session.episode

    The other seats are played by the SPECs of the match. As in `play`, a move without an
    alternative is made without asking. It is used in one event loop, which runs when it is made.
    """

    def __init__(
        self,
        match: Match,
        seats: Collection[int],
        *,
        llm: ModelService | None = None,
        watchers: Sequence[Watcher] = (),
        turn_seconds: float | None = None,
        delay: Delay = 0.0,
        start: Position | None = None,
    ) -> None:
        """Start the game.

        Args:
            match: The game, its seed, and the SPEC of each seat; those of `seats` are names only.
            seats: The external seats.
            llm: Answers for the models among the others.
            watchers: Follow the game, for example a `ReplayWriter`.
            turn_seconds: Time for one external decision, after which a fallback move is played.
                None: no limit.
            delay: Seconds to wait after each move, so that people can follow the others, or a
                function that returns them.
            start: Position of a recorded game at which this one starts.

        Raises UsageError if a seat does not exist, or a SPEC names no agent.
        """
        for seat in seats:
            if not 0 <= seat < match.game.num_players:
                raise UsageError(f"seat {seat}: seats go from 0 to {match.game.num_players - 1}")
        self.match = match
        self._seats = {seat: ExternalSeat(turn_seconds) for seat in seats}
        agents = match.seat(llm, self._seats)
        self._position = _SessionPosition()
        self._task = asyncio.get_running_loop().create_task(
            play(
                match,
                agents,
                llm=llm,
                watchers=(self._position, *watchers),
                delay=delay,
                start=start,
            )
        )
        self._task.add_done_callback(self._wake_all)

    @property
    def is_over(self) -> bool:
        """True if the game has ended, has failed or was closed."""
        return self._task.done()

    @property
    def episode(self) -> Episode:
        """The record of the game.

        Raises:
            UsageError: The game goes on.
            ArenaError: The game was closed before its end; or that with which the game has failed.
        """
        if not self.is_over:
            raise UsageError("the game is not over")
        if self._task.cancelled():
            raise ArenaError("the game was closed before its end")
        return self._task.result()

    async def turn(self, seat: int) -> SeatTurn:
        """Wait until this seat must decide or the game is over.

        Raises what `episode` raises for a game that was closed or has failed.
        """
        external = self._find(seat)
        await external.news.wait()
        if external.observation is not None:
            return SeatTurn(external.asked - 1, external.observation)
        assert self.episode is not None
        last = self._position.observe(seat)
        return SeatTurn(external.asked, last, is_over=True)

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat without its actions, also if another seat must act."""
        return self._position.observe(seat)

    def act(
        self,
        seat: int,
        answer: Action | str,
        turn: int | None = None,
        details: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Decide for a seat; if an error is raised, the game has not advanced.

        Args:
            seat: An external seat.
            answer: The action, or a reply that is read like that of a model.
            turn: Number of the decision that is answered, so that a repeated or late answer is
                refused. None: the present one.
            details: Kept with the decision in the replay.

        Raises:
            ActionError: The action is not legal, or the reply names none. It gives the reason.
            UsageError: It is not this seat's turn, or that of another number.
        """
        external = self._find(seat)
        observation = self.awaited(seat, turn)
        kept = dict(details or {})
        try:
            if isinstance(answer, str):
                kept["reply"] = answer
                reading = read_reply(answer, observation)
                if reading.action is None:
                    raise InvalidAction(correction(reading, observation))
                answer = reading.action
            answer = observation.legal_actions.check(answer)
        except ArenaError:
            external.refused += 1
            raise
        if external.refused:
            kept["refused"] = external.refused
        external.decide(Decision(answer, details=kept))

    def leave(self, seat: int) -> None:
        """Let fallback moves play this seat to the end; without external seats the game ends."""
        self._find(seat).leave()
        if all(external.has_left for external in self._seats.values()):
            self._task.cancel()

    async def wait(self) -> None:
        """Wait until the game is over, has failed or was closed; `episode` says which."""
        await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop the game if it is not over, and wait until it has stopped."""
        self._task.cancel()
        await self.wait()

    def awaited(self, seat: int, turn: int | None = None) -> Observation:
        """Return the observation that an answer to this turn is for; None: the present turn.

        Raises UsageError if no answer of this seat is awaited, or that to another turn.
        """
        external = self._find(seat)
        present = external.asked - 1
        if self.is_over:
            raise UsageError("the game is over")
        if external.observation is None:
            raise UsageError(f"seat {seat} is not to act now: wait for its next turn")
        if turn is not None and turn != present:
            late = turn < present
            what = "was decided already: the answer is late or repeated" if late else "is to come"
            raise UsageError(f"turn {turn} of seat {seat} {what}; the turn now is {present}")
        return external.observation

    def _find(self, seat: int) -> ExternalSeat:
        external = self._seats.get(seat)
        if external is None:
            raise UsageError(f"seat {seat} is not decided from outside; {[*self._seats]} are")
        return external

    def _wake_all(self, task: asyncio.Task[Episode]) -> None:
        if not task.cancelled():
            # Marks the error as seen: a session that was left has no reader for it.
            task.exception()
        for external in self._seats.values():
            external.observation = None
            external.news.set()


class ExternalSeat:
    """Agent whose decisions come from outside."""

    def __init__(self, seconds: float | None) -> None:
        self.decision_seconds = seconds
        self._decision: asyncio.Future[Decision] | None = None
        self.news = asyncio.Event()
        """Set while a decision is awaited, and after the game."""
        self.observation: Observation | None = None
        """Observation of the pending decision; None between decisions."""
        self.asked = 0
        """Decisions that were awaited so far, with the present one."""
        self.refused = 0
        """Answers to the present one that were refused."""
        self.has_left = False

    async def act(self, observation: Observation) -> Decision:
        # Errors become fallback moves: the runner records their text.
        if self.has_left:
            raise ArenaError("the player has left")
        self._decision = asyncio.get_running_loop().create_future()
        self.observation = observation
        self.asked, self.refused = self.asked + 1, 0
        self.news.set()
        try:
            return await self._decision
        finally:
            self._stop_waiting()

    def decide(self, decision: Decision) -> None:
        """Answer the decision that is awaited."""
        assert self._decision is not None
        self._decision.set_result(decision)
        # At once, not when the game goes on: a second answer must find nothing awaited.
        self._stop_waiting()

    def leave(self) -> None:
        """Answer neither the present decision nor later ones."""
        self.has_left = True
        if self._decision is not None and not self._decision.done():
            self._decision.set_exception(ArenaError("the player has left"))
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self.observation = None
        self.news.clear()


class _SessionPosition(Watcher):
    """Keeps the state, for the last observation of each seat."""

    state: State

    def begin(self, header: Header, state: State) -> None:
        self.state = state

    def observe(self, seat: int) -> Observation:
        """Return what a seat knows, without actions: the game may be truncated."""
        return replace(self.state.observe(seat), legal_actions=self.state.game.no_actions)
