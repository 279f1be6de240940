"""PettingZoo's classic environments as games of arena.

J. Terry et al., "PettingZoo: Gym for multi-agent reinforcement learning", arXiv 2009.14471. The
library describes positions by arrays only; their texts are made here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from arena import Action, ActionSet
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.text import shorten
from arena.plugins.catalog import FamilyGame, require
from games.adapters.library_game import (
    NO_ARRAY,
    LibraryFamily,
    LibraryGame,
    LibraryMove,
    LibraryMoved,
    LibraryObserved,
    LibrarySeed,
    clean_lines,
    one_line_label,
    options_class,
)
from games.adapters.library_state import LibraryState

VIEW_PARAMETERS = ("render_mode", "screen_height", "screen_scaling")
"""Parameters of the library's own windows, which are not used here."""


class PettingZooGame(LibraryGame):
    """A classic environment, with the parameters of its constructor as options."""

    Position = "games.adapters.pettingzoo:PettingZooState"
    module: ClassVar[Any]
    """The module of the environment, with `env` and `raw_env`."""

    def _load(self) -> None:
        self.hides = self.board.hides
        env = self.new_env()
        env.reset(seed=0)
        first = env.possible_agents[0]
        self.players = len(env.possible_agents)
        count = int(env.action_space(first).n)
        texts = self.board.moves(env.unwrapped, count) if self.board.moves else None
        numbered = (f"move {number}" for number in range(count))
        self.moves = tuple(map(LibraryMove, range(count), texts or numbered))
        self.array_size = math.prod(_values(env.observe(first)).shape)

    @property
    def board(self) -> BoardText:
        """The texts of the environment."""
        return BOARDS[plain(self.name.partition("/")[2])]

    def new_env(self) -> Any:
        """Return a new environment. Raises UsageError for options that the library refuses."""
        try:
            return self.module.env(**self.options.model_dump())
        except (AssertionError, ValueError, TypeError) as error:
            reason = shorten(str(error) or "the library refuses these options")
            raise UsageError(f"{self.name}: {reason}") from None

    def _all_actions(self) -> Iterable[Action]:
        return self.moves


class PettingZooState(LibraryState):
    """An environment with agents that move in turn (AEC), and the sum of their rewards."""

    game: PettingZooGame

    def __init__(self, game: PettingZooGame) -> None:
        super().__init__(game)
        self.env: Any = None
        self.totals: tuple[float, ...] = (0.0,) * game.num_players
        self._legal = game.no_actions
        """Legal actions of the seat that acts."""

    def _change(self, player: int, action: Action) -> None:
        match action:
            case LibrarySeed(seed):
                self.env = self.game.new_env()
                self.env.reset(seed=seed)
            case LibraryMove():
                self._move(player, action)
        self._show()

    def _move(self, player: int, action: LibraryMove) -> None:
        game, env, text = self.game, self.env, action.text
        if game.board.label:
            text = one_line_label(game.board.label(env.unwrapped, player, action.number))
        self.log.append(LibraryMoved(player, text, public=not game.hides))
        env.step(action.number)
        # What this step gave to each agent; `_cumulative_rewards` is emptied at its own turn.
        rewards = env.unwrapped.rewards
        gained = [float(rewards.get(agent, 0.0)) for agent in env.possible_agents]
        self.totals = tuple(map(sum, zip(self.totals, gained, strict=True)))

    def _show(self) -> None:
        """Set who must act, and log what this seat sees; at the end, what all seats see."""
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


class PettingZooFamily(LibraryFamily):
    """The classic environments, with or without the number of their version."""

    name, library = "pettingzoo", "PettingZoo"

    def known(self) -> Mapping[str, Any]:
        return _modules()

    def full_name(self, name: str) -> str:
        return next((known for known in self.known() if plain(known) == name), name)

    def make(self, name: str) -> type[Game]:
        module = self.known()[name]
        parameters = inspect.signature(module.raw_env.__init__).parameters.values()
        kept = [each for each in parameters if each.name not in ("self", *VIEW_PARAMETERS)]
        options = options_class(self.library, name, {each.name: each.default for each in kept})
        title = plain(name).replace("_", " ")
        return self.new_class(PettingZooGame, name, title, module=module, Options=options)

    def listed(self, name: str) -> FamilyGame:
        return FamilyGame(
            name=f"{self.name}/{name}",
            summary=plain(name).replace("_", " "),
            players="2-5" if name.startswith("hanabi") else "2",
            information="imperfect" if BOARDS[plain(name)].hides else "perfect",
            features=("arrays",),
        )


PETTINGZOO = PettingZooFamily()


def plain(name: str) -> str:
    """Return the name of an environment without its version."""
    return name.rpartition("_v")[0]


@cache
def _modules() -> dict[str, Any]:
    """Return the modules of the environments by name."""
    packages = ["pettingzoo", "rlcard", "shimmy", "chess", "pygame"]
    require("a game of pettingzoo", packages, "pettingzoo")
    known = import_module("pettingzoo.classic.all_modules").classic_environments
    names = {key.partition("/")[2]: module for key, module in known.items()}
    # A text has to exist, because the library shows arrays only.
    return {name: module for name, module in names.items() if plain(name) in BOARDS}


# Texts of the environments


@dataclass(frozen=True, slots=True)
class BoardText:
    """Text form of one environment."""

    hides: bool
    """True if the players see different things."""
    show: Callable[[Any, int], str]
    """Environment and seat → the seat's view."""
    moves: Callable[[Any, int], Sequence[str]] | None = None
    """Environment and number of moves → their texts; None: the numbers."""
    label: Callable[[Any, int, int], str] | None = None
    """Environment, seat and number → the move at this position, where the numbers do not tell."""


def _grid(rows: Sequence[Sequence[int]], signs: str) -> str:
    return "\n".join(" ".join(signs[cell] for cell in row) for row in rows)


def _connect_four(env: Any, seat: int) -> str:
    cells = list(map(int, env.board))
    rows = [cells[start : start + 7] for start in range(0, 42, 7)]
    return "0 1 2 3 4 5 6\n" + _grid(rows, ".XO")


def _tictactoe(env: Any, seat: int) -> str:
    # The library counts down each column: 0, 1, 2 are the first one.
    cells = list(map(int, env.board.squares))
    rows = [[cells[column * 3 + row] for column in range(3)] for row in range(3)]
    return _grid(rows, ".XO")


def _chess(env: Any, seat: int) -> str:
    return f"You are {'white' if seat == 0 else 'black'}.\n{env.board}"


def _chess_label(env: Any, seat: int, number: int) -> str:
    from pettingzoo.classic.chess import chess_utils

    return str(chess_utils.action_to_move(env.board, number, seat))


def _go(env: Any, seat: int) -> str:
    # 1 is black, -1 is white.
    return _grid([[int(cell) % 3 for cell in row] for row in env._go.board], ".XO")


def _go_moves(env: Any, count: int) -> list[str]:
    size = env._N
    return [*(f"play {n // size} {n % size}" for n in range(count - 1)), "pass"]


def _cards(env: Any, seat: int) -> str:
    """Return what RLCard itself calls the raw observation of a seat."""
    raw = env.env.get_state(seat)["raw_obs"]
    hidden = ("legal_actions", "current_player")  # Listed apart; known to both.
    facts = {key: value for key, value in raw.items() if key not in hidden}
    return "\n".join(f"{key}: {_plain(value)}" for key, value in facts.items())


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value)) or "none"
    return "none" if value is None else str(getattr(value, "name", value))


def _card_moves(env: Any, count: int) -> list[str]:
    actions = env.env.actions
    return [str(getattr(action, "name", action)).lower().replace("_", " ") for action in actions]


def _rps(env: Any, seat: int) -> str:
    last = int(env.observations[env.possible_agents[seat]])
    # The number after the last move means that there was no round yet.
    known = last < env._none
    return f"The other player's last move: {env._moves[last].lower()}" if known else ""


def _rps_moves(env: Any, count: int) -> list[str]:
    return [str(name).lower() for name in env._moves[:count]]


def _hanabi(env: Any, seat: int) -> str:
    return clean_lines(_hanabi_state(env).observation_string(seat))


def _hanabi_state(env: Any) -> Any:
    return env.hanabi_env.unwrapped.game_state


def _hanabi_moves(env: Any, count: int) -> list[str]:
    return [_hanabi_state(env).action_to_string(0, number) for number in range(count)]


BOARDS = {
    "chess": BoardText(False, _chess, label=_chess_label),
    "connect_four": BoardText(False, _connect_four, lambda _, n: [f"column {c}" for c in range(n)]),
    "go": BoardText(False, _go, _go_moves),
    "hanabi": BoardText(True, _hanabi, _hanabi_moves),
    "leduc_holdem": BoardText(True, _cards, _card_moves),
    "rps": BoardText(True, _rps, _rps_moves),
    "texas_holdem": BoardText(True, _cards, _card_moves),
    "texas_holdem_no_limit": BoardText(True, _cards, _card_moves),
    "tictactoe": BoardText(
        False, _tictactoe, lambda _, n: [f"mark {c % 3 + 1} {c // 3 + 1}" for c in range(n)]
    ),
}
"""Boards by name without the version."""
