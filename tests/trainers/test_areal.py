"""The workflow for AReaL, with a proxy on loopback that answers in OpenAI's format.

AReaL itself is not installed: it takes any object with this `run`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

import httpx
import pytest
from chat_players import NOISE, plays_cluedo, plays_kuhn
from misbehaving import Misbehaving
from scripted_table import quick

from arena import make_game
from arena.core.errors import ArenaError, UsageError
from arena.episodes.match import play
from arena.episodes.record import Episode
from arena.llm.settings import Settings
from trainers.areal import GameWorkflow
from trainers.rewards import Rewards, SeatEpisode, information_gains
from trainers.rewards.scoring import decision_rewards

KEY = "sk-areal-session"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "load", staticmethod(lambda: quick(max_retries=1)))


@pytest.fixture
def proxy() -> Iterator[Misbehaving]:
    with Misbehaving(plays_cluedo) as server:
        yield server


@pytest.fixture(autouse=True)
def same_draws_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number the games: with other draws of the bots a game may end before the model's turn."""
    numbers = count(1)
    monkeypatch.setattr("trainers.areal.uuid4", lambda: UUID(int=next(numbers)))


def run(workflow: GameWorkflow, proxy: Misbehaving, **data: Any) -> dict[str, float]:
    """One call, as AReaL makes it: with a client that serves other calls too."""

    async def call() -> dict[str, float]:
        async with httpx.AsyncClient(timeout=60) as client:
            rewards = await workflow.run(
                data, base_url=proxy.openai_url, api_key=KEY, http_client=client, trace_id="7"
            )
            assert not client.is_closed, "the client is AReaL's"
            return rewards

    return asyncio.run(call())


def with_episodes(monkeypatch: pytest.MonkeyPatch) -> list[Episode]:
    """The games that workflows play from here on."""
    played: list[Episode] = []

    async def kept(*given: Any, **named: Any) -> Episode:
        played.append(await play(*given, **named))
        return played[-1]

    monkeypatch.setattr("trainers.areal.play", kept)
    return played


def test_each_response_gets_what_it_has_earned(
    proxy: Misbehaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = with_episodes(monkeypatch)
    workflow = GameWorkflow("cluedo", options={"players": 3}, opponents=["bot:novice"], max_turns=9)
    rewards = run(workflow, proxy, seed=5, seat=1)
    answered = [f"gen-{number}" for number in range(1, proxy.ledger.requests + 1)]
    assert list(rewards) == answered, "one for each response, in order"
    assert {asked.headers["authorization"] for asked in proxy.asked} == {f"Bearer {KEY}"}
    assert all("seed" not in asked.body for asked in proxy.asked)

    (episode,) = played
    assert episode.header.seed == 5 and episode.header.players == (
        "bot:novice",
        "areal",
        "bot:novice",
    )
    game = make_game("cluedo", players=3)
    seat_episode = SeatEpisode(game, episode, 1)
    scored = Rewards.parse("", game).score(seat_episode)
    own = [ply for ply in episode.plies if ply.player == 1 and "attempts" in ply.decision.details]
    first = information_gains(seat_episode, [ply.number for ply in own])[0]
    assert sum(rewards.values()) == pytest.approx(scored.reward - 0.5 * first)

    # By the record of the game: corrected replies earn nothing, the others the gain after them.
    replies = iter(rewards.items())
    gains = information_gains(seat_episode, [ply.number for ply in own])[1:]
    noise = 0
    for ply, gain in zip(own, gains, strict=True):
        attempts = ply.decision.details["attempts"]
        assert isinstance(attempts, list)
        *corrected, last = [next(replies) for _ in attempts]
        assert all(reward == 0 for _, reward in corrected)
        noise += len(corrected)
        if ply is not own[-1]:
            assert last[1] == pytest.approx(0.5 * gain)
    assert noise and any(gain > 0 for gain in gains), "the test must meet both"
    assert next(replies, None) is None
    assert sum(proxy.answer(asked.body) == NOISE for asked in proxy.asked) == noise


def test_a_game_without_exact_knowledge_rewards_its_last_response(proxy: Misbehaving) -> None:
    proxy.answer = plays_kuhn
    rewards = run(
        GameWorkflow("kuhn_poker", opponents=["bot:random"], reward="win=2"), proxy, seed=1
    )
    *earlier, last = rewards.values()
    assert abs(last) in {2.0, 4.0} and not any(earlier)
    game = make_game("kuhn_poker")
    assert decision_rewards(Rewards.parse("", game), SeatEpisode(game, None, 0), []) == {}  # type: ignore[arg-type]


def test_games_of_one_deal_share_the_cards_and_differ_in_play(
    proxy: Misbehaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = with_episodes(monkeypatch)
    workflow = GameWorkflow("cluedo", options={"players": 3}, opponents=["bot:random"], max_turns=6)
    for _ in range(3):
        run(workflow, proxy, seed=8)
    assert len({str(episode.plies[0].decision.action) for episode in played}) == 1
    assert len({tuple(str(p.decision.action) for p in episode.plies) for episode in played}) > 1


def test_a_model_without_an_answer_is_an_error_and_no_reward(proxy: Misbehaving) -> None:
    workflow = GameWorkflow("cluedo", options={"players": 3}, max_turns=9)
    proxy.script(["ok", *["server_error"] * 9])
    with pytest.raises(ArenaError, match="the model gave no answer"):
        run(workflow, proxy, seed=1)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({}, "no integer 'seed'"),
        ({"seed": "7"}, "no integer 'seed'"),
        ({"seed": True}, "no integer 'seed'"),
        ({"seed": 1, "seat": 3}, "the seats are 0 to 2"),
        ({"seed": 1, "seat": -1}, "the seats are 0 to 2"),
    ],
)
def test_bad_rows(proxy: Misbehaving, data: dict[str, Any], fault: str) -> None:
    workflow = GameWorkflow("cluedo", options={"players": 3})
    with pytest.raises(UsageError, match=fault):
        run(workflow, proxy, **data)
    assert not proxy.ledger.requests


def test_bad_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="OPENAI_BASE_URL"):
        asyncio.run(GameWorkflow("kuhn_poker").run({"seed": 1}))
    with pytest.raises(UsageError, match="there is no reward term"):
        GameWorkflow("kuhn_poker", reward="winn=1")
    with pytest.raises(UsageError, match="the seats are 0 to 1"):
        GameWorkflow("kuhn_poker", seat=2)


def test_turn_rewards_add_up(proxy: Misbehaving, monkeypatch: pytest.MonkeyPatch) -> None:
    played = with_episodes(monkeypatch)
    run(GameWorkflow("cluedo", options={"players": 3}, max_turns=9), proxy, seed=2)
    game = make_game("cluedo", players=3)
    seat_episode = SeatEpisode(game, played[0], 0)
    rewards = Rewards.parse("win=1,entropy_removed=2,format=0.25", game)
    own = [ply.number for ply in played[0].plies if ply.player == 0]
    # Any selection of decisions: earlier gains than its first one belong to no decision.
    for plies in (own, own[::2], own[1:], own[-1:]):
        earned = decision_rewards(rewards, seat_episode, plies)
        first = information_gains(seat_episode, plies)[0]
        total = math.fsum(earned.values())
        assert sorted(earned) == sorted(plies)
        assert total == pytest.approx(rewards.score(seat_episode).reward - 2 * first)
