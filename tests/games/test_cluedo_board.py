"""The classic board and how pawns move on it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from games.cluedo.rules import board
from games.cluedo.rules.board import ROOMS

SQUARES = [number for number in range(board.ROWS * board.COLUMNS) if board.WALKABLE >> number & 1]


def steps_by_hand(origin: int | str, room: str, occupied: int) -> int | None:
    """Breadth first over single squares: an independent way to count the steps into a room."""
    free = {s for s in SQUARES if not occupied >> s & 1}
    doors = {board.square(*door) for door in board.DOORS[room]} & free
    if isinstance(origin, str):
        frontier = {board.square(*door) for door in board.DOORS[origin]} & free
        steps = 1
    else:
        frontier, steps = {origin}, 0
    seen = set(frontier)
    while frontier:
        if frontier & doors:
            return steps + 1
        frontier = {
            n
            for s in frontier
            for n in (s - 1, s + 1, s - board.COLUMNS, s + board.COLUMNS)
            if n in free and n not in seen and abs(n % board.COLUMNS - s % board.COLUMNS) <= 1
        }
        seen |= frontier
        steps += 1
    return None


def test_the_layout() -> None:
    assert len(board.MAP) == board.ROWS
    assert all(len(line) == board.COLUMNS for line in board.MAP)
    assert len(SQUARES) == 188
    assert sum(map(len, board.DOORS.values())) == 17
    assert set(board.DOORS) == set(ROOMS) == set(board.LETTERS)
    assert {board.PASSAGES[board.PASSAGES[room]] for room in board.PASSAGES} == set(board.PASSAGES)


def test_every_door_leads_from_a_corridor_square_into_its_room() -> None:
    for room, doors in board.DOORS.items():
        for row, column in doors:
            assert board.MAP[row][column] == "."
            around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            assert any(board.MAP[r][c] == board.LETTERS[room] for r, c in around)


def test_steps_from_every_start_and_room_to_every_room() -> None:
    origins: list[int | str] = [*board.STARTS, *ROOMS]
    for origin in origins:
        for room in ROOMS:
            if origin != room:
                assert steps_by_hand(origin, room, 0) == board.steps_to(origin, room)


@given(
    st.one_of(st.sampled_from(SQUARES), st.sampled_from(ROOMS)),
    st.sampled_from(ROOMS),
    st.integers(2, 12),
    st.sets(st.sampled_from(SQUARES), max_size=5),
)
def test_walks(origin: int | str, room: str, throw: int, others: set[int]) -> None:
    occupied = board.bits(others - {origin})
    if origin == room:
        return
    walk = board.walk(origin, room, throw, occupied)
    steps = steps_by_hand(origin, room, occupied)
    assert walk.enters == (steps is not None and steps <= throw)
    if walk.square is not None:
        assert not walk.enters
        assert walk.square in SQUARES
        assert not occupied >> walk.square & 1, "two pawns on one square"
        # A door that a pawn blocks is still worth going to.
        in_the_way = occupied & ~board.OUTSIDE[room]
        goal = steps_by_hand(origin, room, in_the_way)
        if goal is not None and isinstance(origin, int):
            left = steps_by_hand(walk.square, room, in_the_way)
            assert left is not None and left <= goal
            assert goal - left <= throw


def test_a_pawn_on_the_only_door_square_blocks_the_room() -> None:
    outside_lounge = board.square(*board.DOORS["Lounge"][0])
    walk = board.walk(board.STARTS[0], "Lounge", 12, 1 << outside_lounge)
    assert not walk.enters
    assert walk.square is not None and walk.square != outside_lounge
    assert not board.can_step_away("Lounge", 1 << outside_lounge)
    assert board.can_step_away("Hall", 1 << outside_lounge)
