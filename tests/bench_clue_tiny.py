"""How well the checkpoint plays: legal replies without any grammar, and games won.

Held-out deals: pretraining draws its deals from seeds below 10,000,000 of another stream. The seat
rotates with the deal; 95 % intervals by the normal approximation over independent deals.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from arena.attempt import Attempt
from arena.episode import Episode
from arena.observation import TextLevel
from arena.playing import play, play_many, seat_agents
from arena.registry import make_game
from arena.service import LLMService

FIRST_DEAL = 500_000_000
SPEC = "embedded:clue-tiny"


@dataclass(frozen=True, slots=True)
class Strength:
    """What came of some games of one model among others."""

    games: int
    wins: int
    false_accusations: int
    replies: int
    illegal: Counter[str]

    @property
    def legal(self) -> float:
        """Share of raw replies that were legal actions."""
        return 1 - self.illegal.total() / self.replies

    @property
    def low(self) -> float:
        """Of the 95 % interval of the share of games won."""
        return self.wins / self.games - self._half

    @property
    def high(self) -> float:
        return self.wins / self.games + self._half

    @property
    def _half(self) -> float:
        rate = self.wins / self.games
        return 1.96 * math.sqrt(rate * (1 - rate) / self.games)

    def __str__(self) -> str:
        rate = self.wins / self.games
        return (
            f"won {rate:6.1%} ± {self._half:.1%} of {self.games}, false accusations "
            f"{self.false_accusations / self.games:.1%}, legal {self.legal:.2%} of {self.replies} "
            f"replies {dict(self.illegal) or ''}"
        )


def measure(level: TextLevel, players: int, games: int, other: str = "bot:novice") -> Strength:
    """Play on held-out deals, 32 games at once."""
    game = make_game("cluedo", players=players)

    def specs(seed: int) -> list[str]:
        return [SPEC if seat == seed % players else other for seat in range(players)]

    async def go() -> list[Episode]:
        async with LLMService() as llm:

            async def one(seed: int) -> Episode:
                agents = seat_agents(game, specs(seed), seed, level, llm)
                return await play(game, agents, seed, players=specs(seed), text_level=level)

            seeds = range(FIRST_DEAL, FIRST_DEAL + games)
            return [episode async for episode in play_many(one, seeds, 32)]

    return strength_of(asyncio.run(go()), players)


def strength_of(episodes: Sequence[Episode], players: int) -> Strength:
    wins = false = replies = 0
    illegal: Counter[str] = Counter()
    for episode in episodes:
        seat = episode.header.seed % players
        wins += episode.outcome.winner == seat
        for ply in episode.plies:
            if ply.player == seat:
                accuses = str(ply.decision.action).startswith("accuse")
                false += accuses and episode.outcome.winner != seat
                for raw in ply.decision.details.get("attempts", ()):
                    attempt = Attempt.model_validate(raw)
                    replies += 1
                    illegal.update([attempt.failure] if attempt.failure else [])
    return Strength(len(episodes), wins, false, replies, illegal)


@pytest.mark.parametrize("level", ["deductions", "notes", "events"])
def test_games_won_against_three_novices(
    benchmark: Any, capsys: pytest.CaptureFixture[str], level: TextLevel
) -> None:
    strength = benchmark.pedantic(measure, (level, 4, 400), rounds=1)
    with capsys.disabled():
        print(f"\n4 players, {level:10} {strength}")
    if level == "deductions":  # Better than a novice (26 %), with room to learn.
        assert strength.low >= 0.25 and strength.high <= 0.7


@pytest.mark.parametrize("level", ["deductions", "notes", "events"])
@pytest.mark.parametrize("players", [3, 4, 5, 6])
def test_raw_replies_are_legal(
    benchmark: Any, capsys: pytest.CaptureFixture[str], level: TextLevel, players: int
) -> None:
    strength = benchmark.pedantic(measure, (level, players, 60), rounds=1)
    with capsys.disabled():
        print(f"\n{players} players, {level:10} {strength}")
    assert strength.legal >= 0.99
