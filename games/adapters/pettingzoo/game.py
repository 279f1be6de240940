"""PettingZoo's classic environments as games of arena."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import JsonValue

from arena import Action, ActionSet
from arena.core.errors import UsageError
from arena.core.text import shorten
from games.adapters.library_game import LibraryGame, LibraryText
from games.adapters.moves import (
    NO_ARRAY,
    LibraryMove,
    LibraryMoved,
    LibraryObserved,
    one_line_label,
)
from games.adapters.pettingzoo.boards import BOARDS, BoardText
from games.adapters.seeded_state import SeededState

VIEW_PARAMETERS = ("render_mode", "screen_height", "screen_scaling")
"""Parameters of the library's own windows, which are not used here."""


class PettingZooGame(LibraryGame):
    """A classic environment, with the parameters of its constructor as options."""

    Text = "games.adapters.pettingzoo.game:PettingZooText"
    module: ClassVar[Any]
    """The module of the environment, with `env` and `raw_env`."""

    def __init__(self, /, **options: JsonValue) -> None:
        super().__init__(**options)
        self.board: BoardText = BOARDS[self.plain_name]
        self.hides = self.board.hides
        env = self.new_env()
        env.reset(seed=0)
        first = env.possible_agents[0]
        self._players = len(env.possible_agents)
        count = int(env.action_space(first).n)
        texts = self.board.moves(env.unwrapped, count) if self.board.moves else None
        numbered = (f"move {number}" for number in range(count))
        self.moves = tuple(map(LibraryMove, range(count), texts or numbered))
        self.array_size = math.prod(_values(env.observe(first)).shape)

    @property
    def plain_name(self) -> str:
        """The name without the family and the version."""
        return self.name.partition("/")[2].rpartition("_v")[0]

    @property
    def num_players(self) -> int:
        return self._players

    def new_env(self) -> Any:
        """Return a new environment. Raises UsageError for options that the library refuses."""
        try:
            return self.module.env(**self.options.model_dump())
        except (AssertionError, ValueError, TypeError) as error:
            reason = shorten(str(error) or "the library refuses these options")
            raise UsageError(f"{self.name}: {reason}") from None

    def _all_actions(self) -> Iterable[Action]:
        return self.moves

    def initial_state(self) -> PettingZooState:
        return PettingZooState(self)


class PettingZooText(LibraryText):
    """Rules of a game of PettingZoo."""

    game: PettingZooGame

    def rules(self) -> str:
        game = self.game
        hidden = "some information is hidden" if game.hides else "nothing is hidden"
        return (
            f"{game.plain_name.replace('_', ' ')} ({game.name}), {game.num_players} players, as "
            f"PettingZoo implements it; {hidden}.\n"
            "Your action: one of those listed at your turn, written exactly like there. For "
            f"example: {game.moves[0]}"
        )


class PettingZooState(SeededState):
    """An environment with agents that move in turn (AEC), and the sum of their rewards."""

    game: PettingZooGame

    def __init__(self, game: PettingZooGame) -> None:
        super().__init__(game)
        self.totals: tuple[float, ...] = (0.0,) * game.num_players
        self._legal = game.no_actions
        """Of the seat that acts."""

    def begin(self, seed: int) -> None:
        self.env = self.game.new_env()
        self.env.reset(seed=seed)

    def move(self, player: int, action: Action) -> None:
        assert isinstance(action, LibraryMove)
        game, env, text = self.game, self.env, action.text
        if game.board.label:
            text = one_line_label(game.board.label(env.unwrapped, player, action.number))
        self.log.append(LibraryMoved(player, text, public=not game.hides))
        env.step(action.number)
        # What this step gave to each agent; `_cumulative_rewards` is emptied at its own turn.
        rewards = env.unwrapped.rewards
        gained = [float(rewards.get(agent, 0.0)) for agent in env.possible_agents]
        self.totals = tuple(map(sum, zip(self.totals, gained, strict=True)))

    def show(self) -> None:
        env = self.env.unwrapped
        names = self.env.possible_agents
        over = [
            env.terminations.get(name, True) or env.truncations.get(name, True) for name in names
        ]
        self.to_act = () if all(over) else (names.index(env.agent_selection),)
        self.turn += bool(self.to_act)
        for seat in self.to_act or range(len(names)):
            self.log.append(self._observed(seat, self.game.board.show(env, seat)))

    def _observed(self, seat: int, text: str) -> LibraryObserved:
        import numpy as np

        board, env = self.game.board, self.env.unwrapped
        labels: tuple[str, ...] = ()
        array = NO_ARRAY
        if seat in self.to_act:
            observation = self.env.observe(self.env.possible_agents[seat])
            array = np.asarray(_values(observation), np.float32).tobytes()
            self._legal = self._legal_set(observation)
            if board.label:
                numbers = [move.number for move in self._legal.of(LibraryMove)]
                labels = tuple(one_line_label(board.label(env, seat, n)) for n in numbers)
        return LibraryObserved(seat, text, labels, array, public=not self.game.hides)

    def _legal_set(self, observation: Any) -> ActionSet:
        moves = self.game.moves
        mask = observation.get("action_mask") if isinstance(observation, dict) else None
        if mask is None:  # `rps_v2` has no mask: all moves are legal.
            return self.game.actions.subset(moves)
        return self.game.actions.subset([moves[int(number)] for number in mask.nonzero()[0]])

    def _legal_actions(self, player: int) -> ActionSet:
        return self._legal

    def returns(self) -> tuple[float, ...]:
        """Return the sum of the rewards of each seat so far."""
        return self.totals


def _values(observation: Any) -> Any:
    """Return the array of an observation."""
    import numpy as np

    values = observation["observation"] if isinstance(observation, dict) else observation
    return np.asarray(values)
