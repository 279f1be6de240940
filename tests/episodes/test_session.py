"""Sessions: seats that are decided from outside, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from arena.agents.agent import act_now
from arena.core.errors import ActionError, ArenaError, UsageError
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.replay import read_replay, verify
from arena.episodes.session import EXTERNAL, GameSession, SeatTurn
from arena.plugins.catalog import make_game
from arena.testing.conformance import without_times

T = TypeVar("T")
CLUEDO = make_game("cluedo", players=3)


def in_time(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine; a session that waits for ever fails the test."""
    return asyncio.run(asyncio.wait_for(work, 60))


def match(*specs: str, seed: int = 7, game: str = "cluedo", **options: Any) -> Match:
    rules = make_game(game, **(options or ({"players": 3} if game == "cluedo" else {})))
    return Match(rules, specs, seed)


@pytest.mark.parametrize("seats", [(0,), (2,), (0, 1, 2)])
def test_a_game_from_outside_has_the_bytes_of_the_same_game_of_agents(
    seats: tuple[int, ...], tmp_path: Path
) -> None:
    usual = match(*["bot:detective"] * 3)

    async def from_outside() -> None:
        # The names in the record are free; equal ones make the replays comparable.
        agents = usual.seat()
        writer = ReplayWriter(tmp_path, "outside")
        session = GameSession(usual, seats, watchers=[writer])

        async def play_seat(seat: int) -> None:
            while not (turn := await session.turn(seat)).is_over:
                session.act(seat, act_now(agents[seat], turn.observation).action)

        await asyncio.gather(*map(play_seat, seats))

    in_time(from_outside())
    asyncio.run(play(usual, watchers=[ReplayWriter(tmp_path, "inside")]))
    outside, inside = (tmp_path / f"{name}.jsonl" for name in ("outside", "inside"))
    assert without_times(outside) == without_times(inside)
    assert verify(read_replay(outside)) is None


def test_a_refused_answer_gives_the_reason_and_changes_nothing() -> None:
    async def work() -> None:
        session = GameSession(match(EXTERNAL, "bot:random", "bot:random"), [0])
        turn = await session.turn(0)
        before = turn.observation.text()
        for answer in ("", "I have no idea.", "accuse Nobody, Rope, Hall", "show Rope"):
            with pytest.raises(ActionError, match=r"\w+"):
                session.act(0, answer)
        illegal = next(a for a in CLUEDO.actions if a not in turn.observation.legal_actions)
        with pytest.raises(ActionError, match="is not allowed now"):
            session.act(0, illegal)
        again = await session.turn(0)
        assert again.number == 0 and again.observation.text() == before
        session.act(0, f"Action: {turn.observation.legal_actions[0]}")
        while not (turn := await session.turn(0)).is_over:
            session.act(0, turn.observation.legal_actions[0])
        first = next(ply for ply in session.episode.plies if ply.player == 0)
        assert first.decision.details["refused"] == 5
        assert not session.episode.failures

    in_time(work())


def test_late_repeated_and_early_answers_are_refused() -> None:
    async def work() -> None:
        session = GameSession(match(EXTERNAL, EXTERNAL, game="kuhn_poker"), [0, 1])
        turn = await session.turn(0)
        with pytest.raises(UsageError, match="seat 1 is not to act now"):
            session.act(1, turn.observation.legal_actions[0])
        with pytest.raises(UsageError, match="turn 3 of seat 0 is to come; the turn now is 0"):
            session.act(0, turn.observation.legal_actions[0], 3)
        session.act(0, turn.observation.legal_actions[0], 0)
        with pytest.raises(UsageError, match="seat 0 is not to act now"):
            session.act(0, turn.observation.legal_actions[0], 0)
        other = await session.turn(1)
        session.act(1, "bet")
        turn = await session.turn(0)
        with pytest.raises(UsageError, match="turn 0 of seat 0 was decided already"):
            session.act(0, other.observation.legal_actions[0], 0)
        with pytest.raises(UsageError, match="the game is not over"):
            assert session.episode
        session.act(0, "pass")
        assert (await session.turn(0)).is_over and (await session.turn(1)).is_over
        with pytest.raises(UsageError, match="the game is over"):
            session.act(0, "pass")

    in_time(work())


def test_a_slow_player_gets_a_fallback_move_and_its_answer_is_late() -> None:
    async def work() -> None:
        session = GameSession(
            match(EXTERNAL, EXTERNAL, game="kuhn_poker"), [0, 1], turn_seconds=0.02
        )
        await session.turn(0)
        await session.turn(1)
        with pytest.raises(UsageError, match="not to act now|was decided|is over"):
            session.act(0, "pass", 0)
        while not (await session.turn(0)).is_over:
            await asyncio.sleep(0.03)
        texts = [failure.text for failure in session.episode.failures]
        assert texts and all("no decision within 0.02 seconds" in text for text in texts)

    in_time(work())


def test_the_game_goes_on_for_the_others_when_a_player_leaves() -> None:
    async def work() -> None:
        session = GameSession(match(EXTERNAL, EXTERNAL, game="goofspiel"), [0, 1])
        await session.turn(0)
        session.leave(1)
        while not (turn := await session.turn(0)).is_over:
            session.act(0, turn.observation.legal_actions[0])
        assert {failure.player for failure in session.episode.failures} == {1}

    in_time(work())


def test_a_session_that_nobody_plays_any_more_ends(tmp_path: Path) -> None:
    async def work() -> SeatTurn:
        writer = ReplayWriter(tmp_path, "left")
        session = GameSession(match(EXTERNAL, "bot:random", "bot:random"), [0], watchers=[writer])
        turn = await session.turn(0)
        session.leave(0)
        with pytest.raises(ArenaError, match="closed before its end"):
            await session.turn(0)
        await session.close()
        assert session.is_over and writer.unfinished
        return turn

    assert not in_time(work()).is_over
    assert [path.name for path in tmp_path.iterdir()] == ["left.jsonl.part"]


def test_closing_stops_a_game_that_waits() -> None:
    async def work() -> None:
        before = asyncio.all_tasks()
        session = GameSession(match(EXTERNAL, EXTERNAL, game="kuhn_poker"), [0, 1])
        waiting = asyncio.ensure_future(session.turn(1))
        await session.turn(0)
        await session.close()
        with pytest.raises(ArenaError, match="closed before its end"):
            await waiting
        assert asyncio.all_tasks() == before

    in_time(work())
