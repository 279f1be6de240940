"""Tables of clients without the SDK: who gets which seat, what is read, and who counts as gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest

import arena
from arena.core.errors import ArenaError, StopPlaying
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.envs.hosting import HostedGame
from arena.envs.mcp.tables import ClientTables
from arena.episodes.match import Match
from arena.episodes.record import Episode

Finished = list[tuple[Match, Episode, Path]]


def make_tables(
    out: Path,
    game: str = "kuhn_poker",
    **options: float,
) -> tuple[ClientTables, Finished]:
    made, ended = arena.make_game(game), Finished()
    hosted = HostedGame(made, ["bot:random"], session_spec="mcp", **options)  # type: ignore[arg-type]
    seeds: Iterator[int] = iter(range(9))
    return ClientTables(hosted, (0,), seeds, out, lambda *end: ended.append(end)), ended


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


async def play(tables: ClientTables, handle: str) -> str:
    seat = tables.find(handle)
    news = await seat.news()
    while news.status != "over":
        news = await seat.act(seat.legal_actions()[0], news.turn)
    return news.text


def test_games_follow_each_other(tmp_path: Path) -> None:
    async def games() -> None:
        tables, ended = make_tables(tmp_path)
        for number in range(3):
            seat = tables.join(None)
            assert "Player" in await play(tables, seat.handle)
            while len(ended) <= number:
                await asyncio.sleep(0.01)
        assert [match.seed for match, _, _ in ended] == [0, 1, 2]
        assert all(path.exists() for _, _, path in ended)
        assert ended[0][1].header.players == ("mcp", "bot:random")

    run(games())


def test_nothing_is_on_disk_during_a_game(tmp_path: Path) -> None:
    async def game() -> None:
        tables, _ = make_tables(tmp_path)
        seat = tables.find(tables.join(0).handle)
        await seat.news()
        assert not list(tmp_path.rglob("*"))
        await tables.aclose()
        assert not list(tmp_path.rglob("*"))

    run(game())


def test_a_client_that_comes_back_goes_on(tmp_path: Path) -> None:
    async def game() -> None:
        tables, _ = make_tables(tmp_path, game="goofspiel", turn_seconds=0.1)
        seat = tables.find(tables.join(None).handle)
        await seat.news()
        await asyncio.sleep(0.15)  # One decision is missed.
        news = await seat.news()
        assert news.turn >= 1
        assert not seat.is_given_up
        assert "You" in await play(tables, seat.handle)

    run(game())


def test_a_game_without_clients_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def game() -> None:
        tables, ended = make_tables(tmp_path, game="goofspiel", turn_seconds=0.05)
        seat = tables.find(tables.join(None).handle)
        await seat.news()
        while seat.table.ended_at is None:
            await asyncio.sleep(0.01)
        assert seat.is_given_up and not ended
        with pytest.raises(ArenaError, match="the game has stopped"):
            await seat.news()

    run(game())
    assert "closed before its end" in capsys.readouterr().err


def test_the_reason_of_a_stop_is_for_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def stop(_bot: object, observation: Observation) -> Decision:
        raise StopPlaying("the King of Player 1 is not for others")

    async def game() -> None:
        tables, _ = make_tables(tmp_path)
        seat = tables.find(tables.join(None).handle)
        news = await seat.news()
        monkeypatch.setattr("arena.agents.agent.RandomBot.act", stop)
        with pytest.raises(ArenaError) as error:
            await seat.act("pass", news.turn)
        assert "King" not in str(error.value)

    run(game())
    assert "King of Player 1" in capsys.readouterr().err
