"""Replays made by hand, for the tests of studying them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from known_deal import ENVELOPE, HANDS

from arena.agents.chat import Attempt
from arena.core.action import CHANCE, Action, Step
from arena.core.game import Game
from arena.episodes.match import outcome_of
from arena.episodes.record import ChanceLine, DecisionLine, Header, OutcomeLine
from arena.episodes.replay import Replay
from arena.llm.backend import Message
from arena.testing.positions import random_positions
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import DealCards, EndTurn
from replays.analysis.replay_analysis import ReplayAnalysis

END = EndTurn()
Details = dict[int, dict[str, Any]]
"""Of decisions, by their plies."""


@dataclass(frozen=True)
class World:
    """What a seat may not know, apart from what the rules hide."""

    seed: int = 1
    secret: str = ""
    seat: int | None = None
    """Who must not notice any of it."""

    def decision(self, number: int, player: int, action: str, details: Any) -> DecisionLine:
        secret = "" if player == self.seat else self.secret
        line = Message(role="user", content=f"{player} in {number} {secret}")
        asked: dict[str, Any] = {"attempts": [Attempt(messages=(line,)).to_json()], "note": secret}
        return DecisionLine(
            ply=number,
            player=player,
            action=action,
            failure=f"fell back {secret}" if secret else None,
            details=asked if details is None else details,
            seconds=float(len(secret)),
        )


def recorded(
    game: Game,
    history: Sequence[Step],
    world: World | None = None,
    details: Details | None = None,
) -> Replay:
    """The replay of a history; its outcome if it is over."""
    world = world or World()
    header = Header.of(game, world.seed, ["bot:random"] * game.num_players, None)
    header = header.model_copy(update={"created": datetime(2026, 1, 2, tzinfo=UTC)})
    replay = Replay(Path("x.jsonl"), header)
    for number, step in enumerate(history):
        if step.player == CHANCE:
            replay.moves.append(ChanceLine(ply=number, action=str(step.action)))
        else:
            own = None if details is None else details.get(number, {})
            line = world.decision(number, step.player, str(step.action), own)
            replay.moves.append(line)
    state = game.initial_state().apply_all(history)
    if state.is_terminal:
        end = outcome_of(state, None)
        replay.outcome = OutcomeLine(
            status=end.status,
            reason=end.reason,
            returns=end.returns,
            winner=end.winner,
            turns=state.turn,
            decisions=len(history),
        )
    return replay


def random_game(game: Game, seed: int = 0) -> list[Step]:
    return list(list(random_positions(game, seed))[-1].history)


def known_game(*actions: Action) -> list[Step]:
    """Moves after the deal that the tests know by heart."""
    state, history = Cluedo(players=3).initial_state(), list[Step]()
    for action in (DealCards(ENVELOPE, HANDS), *actions):
        history.append(Step(state.to_act[0], action))
        state.apply(state.to_act[0], action)
    return history


def known_analysis(*actions: Action, details: Details | None = None) -> ReplayAnalysis:
    return ReplayAnalysis(recorded(Cluedo(players=3), known_game(*actions), None, details))


def everything(analysis: ReplayAnalysis, seat: int | None) -> str:
    """All that a viewer in this seat may be sent."""
    seats = range(len(analysis.timeline()["game"]["seats"]))
    parts = (
        analysis.timeline(seat),
        [analysis.posterior(each) for each in seats if seat in (None, each)],
        list(analysis.comments(seat)),
        analysis.summaries(seat),
        [analysis.decision(ply, seat) for ply in range(len(analysis.timeline()["plies"]))],
    )
    return json.dumps(parts, allow_nan=False)


def lines(*contents: str) -> tuple[Message, ...]:
    return tuple(Message(role="user", content=content) for content in contents)
