"""From a finished game to numbers: who won, what models' replies were like, what the assessor says.

The measures that every game has are about models; a game adds its own (`Game.measures`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from arena.agents.model_call import Attempt
from arena.core.action import CHANCE
from arena.core.assessment import Assessment, Assessor, Measure, Share, Shares, add_up
from arena.core.game import Game
from arena.core.json import Json
from arena.core.outcome import Outcome
from arena.core.ply import Ply
from arena.evaluation.records import GameResult, SeatResult, Slot

MODEL_MEASURES = (
    Measure("legal", "legal replies", "share", "higher", "Replies with a legal action, of all."),
    Measure("prompt_tokens", "tokens read", "per game", None, "As the provider counts them."),
    Measure("completion_tokens", "tokens written", "per game", None, "Thinking included."),
    Measure("cost", "cost", "US dollars per game", "lower", "Where the provider's price is known."),
    Measure("latency", "latency", "seconds per reply", "lower", "Waiting for the provider."),
)
"""Measures of seats that a model holds. `failure:CLASS` counts its other replies by class."""


@dataclass(frozen=True, slots=True)
class Played:
    """A finished game, just played or read from a replay."""

    game: Game
    players: Sequence[str]
    plies: Sequence[Ply]
    outcome: Outcome
    turns: int


def measure(slot: Slot, played: Played, scored: bool, seconds: float = 0.0) -> GameResult:
    """The result of one game; `scored` asks the exact posterior too, which takes its time."""
    shares: list[list[Shares]] = [[] for _ in played.players]
    for ply in played.plies:
        if ply.player != CHANCE:
            shares[ply.player].append(_of_replies(ply.decision.details))
    assessor = played.game.assessor() if scored else None
    if assessor is not None:
        for assessment in assessments(assessor, played):
            shares[assessment.player].append(assessment.shares)
    outcome = played.outcome
    return GameResult(
        slot=slot,
        status=outcome.status,
        reason=outcome.reason,
        turns=played.turns,
        decisions=sum(ply.player != CHANCE for ply in played.plies),
        seconds=seconds,
        seats=tuple(
            SeatResult(
                player=player,
                returns=outcome.returns[seat],
                won=outcome.winner == seat,
                fallbacks=sum(
                    ply.player == seat and ply.decision.failure is not None for ply in played.plies
                ),
                shares=_per_game(add_up(shares[seat])),
            )
            for seat, player in enumerate(played.players)
        ),
        scored=assessor is not None,
    )


def assessments(assessor: Assessor, played: Played) -> Iterator[Assessment]:
    """Everything that is to be said of a game."""
    for ply in played.plies:
        yield from assessor.ply(ply)
    yield from assessor.end(played.outcome)


MOST = 1e12
"""No game costs more, in whatever it is counted; greater numbers are a forger's."""
PER_GAME = frozenset({"prompt_tokens", "completion_tokens", "cost"})


def _per_game(shares: dict[str, Share]) -> dict[str, Share]:
    """Weigh once what is counted per game and was summed per reply."""
    return {
        name: Share(share.total, 1.0) if name in PER_GAME else share
        for name, share in shares.items()
    }


def _of_replies(details: Mapping[str, Json]) -> dict[str, Share]:
    """What a decision's attempts add; what is malformed, in a stranger's replay, is left out."""
    attempts = details.get("attempts")
    found = [_share_of(raw) for raw in attempts] if isinstance(attempts, list) else []
    beliefs = details.get("beliefs")
    if isinstance(beliefs, dict):
        amounts = {name: _amount(beliefs.get(name)) for name in PER_GAME}
        found.append({name: Share(value) for name, value in amounts.items() if value})
    return add_up(found)


def _amount(value: Json) -> float:
    """A cost, a number of tokens, seconds; 0 for what can be none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= MOST else 0.0


def _share_of(raw: Any) -> dict[str, Share]:
    try:
        attempt = Attempt.model_validate(raw)
    except ValidationError:
        return {}
    shares = {
        "legal": Share(float(attempt.failure is None)),
        "prompt_tokens": Share(_amount(attempt.prompt_tokens)),
        "completion_tokens": Share(_amount(attempt.completion_tokens)),
    }
    if attempt.failure:
        shares[f"failure:{attempt.failure}"] = Share(1.0)
    if attempt.cost is not None:
        shares["cost"] = Share(_amount(attempt.cost))
    if attempt.seconds and not attempt.cached:
        shares["latency"] = Share(_amount(attempt.seconds))
    return shares


def measures_of(game: Game, names: Iterable[str]) -> list[Measure]:
    """The measures, of all that there are, that have these names; in the order of tables."""
    wanted = set(names)
    return [m for m in (*game.measures, *MODEL_MEASURES) if m.name in wanted]
