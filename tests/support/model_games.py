"""Games in which models play, and what their service has counted and said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from arena.agents.chat import Attempt, attempts_in
from arena.core.spec import without_scaffold
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import Episode, Position
from arena.llm.backend import Backend
from arena.llm.ledger import Ledger
from arena.llm.service import LLMService


class ModelGame(NamedTuple):
    """A game, the ledger of its service, and the lines for people."""

    episode: Episode
    ledger: Ledger
    said: list[str]


def play_models(
    match: Match,
    backend: Backend | None = None,
    out: Path | None = None,
    *,
    stem: str = "game",
    start: Position | None = None,
    **service: Any,
) -> ModelGame:
    """Play a match, and write its replay into `out`. A `backend` answers for the first model."""
    said: list[str] = []

    async def go() -> ModelGame:
        async with LLMService(**{"notify": said.append, **service}) as llm:
            if backend is not None:
                model = next(spec for spec in match.specs if not spec.startswith("bot:"))
                llm.add(without_scaffold(model), backend)
            watchers = [ReplayWriter(out, stem)] if out else []
            episode = await play(match, llm=llm, watchers=watchers, start=start)
            return ModelGame(episode, llm.ledger, said)

    return asyncio.run(go())


def attempts_of(episode: Episode) -> list[Attempt]:
    """Return the attempts of all models of a game, in order."""
    return [attempt for ply in episode.plies for attempt in attempts_in(ply.decision)]
