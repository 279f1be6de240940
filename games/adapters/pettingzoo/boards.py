"""Texts of PettingZoo's environments, which describe positions by arrays only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from games.adapters.moves import clean_lines


@dataclass(frozen=True, slots=True)
class BoardText:
    """How one environment is written as text."""

    hides: bool
    """Whether the players see different things."""
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
"""By name without the version."""
