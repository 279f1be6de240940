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
    """A watcher that shows a person the game after the person's last move, and its end."""

    def __init__(self, agent: HumanAgent) -> None:
        self._agent = agent
        self._state: State | None = None

    @staticmethod
    def of(agents: Iterable[Agent]) -> list[Epilogue]:
        return [Epilogue(agent) for agent in agents if isinstance(agent, HumanAgent)]

    def begin(self, header: Header, state: State) -> None:
        self._state = state

    def ply(self, ply: Ply, state: State) -> None:
        """Show the events to a person who is out; else they are shown at the person's next move."""
        if state.is_out(self._agent.player):
            self._agent.print_rest_of_game(state)

    def end(self, outcome: Outcome) -> None:
        self._agent.print_end(self._state, outcome)

    def close(self) -> None:
        """Nothing is held open."""
