"""End of a game for a person at the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from arena.agents.agent import Agent
from arena.agents.human import HumanAgent
from arena.core.game import State
from arena.core.outcome import Outcome
from arena.core.ply import Ply
from arena.episodes.record import Header


class Epilogue:
    """A watcher that tells a person how the game went on after its last move, and ended."""

    def __init__(self, agent: HumanAgent) -> None:
        self._agent = agent
        self._state: State | None = None

    @staticmethod
    def of(agents: Iterable[Agent]) -> list[Epilogue]:
        return [Epilogue(agent) for agent in agents if isinstance(agent, HumanAgent)]

    def begin(self, header: Header, state: State) -> None:
        self._state = state

    def ply(self, ply: Ply, state: State) -> None:
        """Do nothing: the person reads the events at the own turn."""

    def end(self, outcome: Outcome) -> None:
        if self._state is not None:
            self._agent.print_rest_of_game(self._state)
        returns = ", ".join(f"{value:g}" for value in outcome.returns)
        print(f"{outcome.status}: {outcome.reason}; returns {returns}")

    def close(self) -> None:
        """Nothing is held open."""
