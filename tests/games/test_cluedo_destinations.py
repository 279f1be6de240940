"""Whole throws on the board, the choice of suspects and the first player."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena import InvalidAction, UsageError
from arena.agents.agent import Seat, act_now
from arena.core.action import CHANCE
from arena.core.seeds import stream
from arena.testing import check_game
from games.cluedo.bots.logic import CluedoBot, Detective, Novice
from games.cluedo.bots.oracle import Oracle
from games.cluedo.game import Cluedo
from games.cluedo.rules import board
from games.cluedo.rules.events import Begin, Move, MoveToSquare, PlaySuspect, TurnBegan
from games.cluedo.rules.movement import destinations
from games.cluedo.rules.state import CluedoState

SQUARES = set(board.CORRIDOR)


def beside(square: int) -> Iterator[int]:
    row, column = divmod(square, board.COLUMNS)
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if 0 <= row + down < board.ROWS and 0 <= column + right < board.COLUMNS:
            yield board.square(row + down, column + right)


def paths(origin: int | str, steps: int, blocked: set[int]) -> set[tuple[int, ...]]:
    """All ways of this many steps without a square twice, breadth first."""
    free = SQUARES - blocked
    if isinstance(origin, str):
        doors = {board.square(*door) for door in board.DOORS[origin]} & free
        ways: set[tuple[int, ...]] = {(door,) for door in doors}
        steps -= 1
    else:
        ways = {(origin,)}
    for _ in range(steps):
        ways = {(*w, n) for w in ways for n in beside(w[-1]) if n in free and n not in w}
    return ways


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*board.DOORS, *board.CORRIDOR]),
    st.integers(2, 7),
    st.lists(st.sampled_from(board.CORRIDOR), max_size=5),
)
def test_squares_are_the_ends_of_all_ways(origin: int | str, steps: int, pawns: list[int]) -> None:
    blocked = set(pawns) - {origin}
    found = destinations(origin, steps, board.bits(blocked))
    ends = {way[-1] for way in paths(origin, steps, blocked)} - {origin}
    if ends or found.rooms:
        assert set(found.squares) == ends
    for room in board.DOORS:
        enters = board.walk(origin, room, steps, board.bits(blocked)).enters
        assert (room in found.rooms) == (enters and room != origin)


def after(*texts: str, **options: object) -> CluedoState:
    game = Cluedo(variant="classic", movement="squares", players=3, **options)  # type: ignore[arg-type]
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(0)))
    for text in texts:
        state.apply(state.to_act[0], state.parse(text))
    return state


def test_a_throw_is_used_whole_or_ends_in_a_room() -> None:
    state = after("roll", "throw 1 1")
    # Scarlett starts in row 1, column 17; two steps lead down the lane or beside it.
    assert [*map(str, state.legal_actions(0))] == ["move row 2, column 16", "move row 3, column 17"]
    state = after("roll", "throw 6 6")
    assert Move("Lounge") in state.legal_actions(0)
    assert all(
        (sum(divmod(move.square, board.COLUMNS)) - 16) % 2 == 0
        for move in state.legal_actions(0).of(MoveToSquare)
    ), "an even throw ends on a square of the same colour, as on a chess board"


def test_a_pawn_may_block_a_door() -> None:
    outside = board.square(6, 17)  # The only door of the Lounge.
    state = after("roll", "throw 3 4", "move row 7, column 18")
    assert state.places["Miss Scarlett"] == outside
    assert [*map(str, state.legal_actions(0))][-1] == "end turn"
    for text in ("end turn", "roll", "throw 6 6"):  # Mustard starts in row 8, column 24.
        state.apply(state.to_act[0], state.parse(text))
    assert Move("Lounge") not in state.legal_actions(1)
    assert MoveToSquare(outside) not in state.legal_actions(1)


def test_a_pawn_that_is_hemmed_in_goes_as_far_as_it_can() -> None:
    # Scarlett's lane is two squares wide below row 1: pawns at both squares of row 4 close it.
    blocked = board.bits(board.square(3, column) for column in (15, 16))
    found = destinations(board.square(0, 16), 12, blocked)
    longest = max(n for n in range(1, 12) if paths(board.square(0, 16), n, set(_numbers(blocked))))
    ends = {way[-1] for way in paths(board.square(0, 16), longest, set(_numbers(blocked)))}
    assert not found.rooms and set(found.squares) == ends


def _numbers(squares: int) -> Iterator[int]:
    return (number for number in board.CORRIDOR if squares >> number & 1)


def test_suspects_are_chosen_and_scarlett_begins() -> None:
    state = after(choose_suspects=True)
    assert state.to_act == (0,) and len(state.legal_actions(0)) == 6
    for text in ("play Mrs Peacock", "play Mrs White"):
        state.apply(state.to_act[0], state.parse(text))
    assert PlaySuspect("Mrs White") not in state.legal_actions(2)
    state.apply(2, PlaySuspect("Miss Scarlett"))
    assert state.to_act == (2,) and state.pawn == "Miss Scarlett"
    assert state.observe(0).text().count("plays") == 3
    without = after(
        *("play Mrs Peacock", "play Mrs White", "play Reverend Green"), choose_suspects=True
    )
    assert without.to_act == (1,), "White comes before Green and Peacock"


def test_a_drawn_first_player() -> None:
    game, begun = Cluedo(players=3, first_player="random"), set()
    for seed in range(12):
        state, rng = game.initial_state(), random.Random(seed)
        state.apply(CHANCE, state.sample_chance(rng))
        with pytest.raises(InvalidAction):
            state.parse("begin 3")
        chosen = state.parse(str(state.sample_chance(rng)))
        assert isinstance(chosen, Begin)
        state.apply(CHANCE, chosen)
        assert state.to_act == (chosen.player,)
        assert state.log.events[-1] == TurnBegan(chosen.player, 1)
        begun.add(chosen.player)
    assert begun == {0, 1, 2}


@pytest.mark.parametrize("bot", [Novice, Detective, Oracle])
def test_bots_choose_a_suspect_and_use_their_throws(bot: type[CluedoBot]) -> None:
    state = after(choose_suspects=True, first_player="random")
    rng = stream(0, "bot")
    bots = [bot(Seat(state.game, player, rng)) for player in range(3)]
    squares = 0
    while not state.is_terminal and state.turn < 12:
        player = state.to_act[0]
        if player == CHANCE:
            state.apply(CHANCE, state.sample_chance(rng))
            continue
        action = act_now(bots[player], state.observe(player)).action
        squares += isinstance(action, MoveToSquare)
        state.apply(player, action)
    assert squares and any(isinstance(place, str) for place in state.places.values())


def test_conformance() -> None:
    options = {"movement": "squares", "choose_suspects": True, "first_player": "random"}
    check_game(Cluedo(variant="classic", players=3, **options), seeds=range(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"movement": "squares"}, "need the board: variant 'classic'"),
        ({"choose_suspects": True}, "need the board: variant 'classic'"),
        ({"first_player": "seat 1"}, "'scarlett' or 'random'"),
    ],
)
def test_bad_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Cluedo(**options)  # type: ignore[arg-type]
