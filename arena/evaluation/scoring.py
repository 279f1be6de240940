"""Measurement of a finished game: wins, replies of models, and measures of play.

The measures that all games share are about models; a game adds its own (`GameAnalysis.measures`),
and plugins add more (`arena.episodes.measurement`).

"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pydantic import JsonValue

from arena.agents.chat import Attempt, parse_attempts
from arena.core.action import CHANCE
from arena.core.analysis import Measure, Measurements, WeightedSum, sum_measurements
from arena.core.errors import ArenaError
from arena.core.event import Outcome
from arena.core.game import Game
from arena.episodes.measurement import measure_seats
from arena.episodes.record import Episode
from arena.evaluation.records import (
    AS_ROLE,
    DECISIONS,
    LEGAL_RATE,
    TEAM,
    GameResult,
    SeatResult,
    Slot,
)

MODEL_MEASURES = (
    Measure(LEGAL_RATE, "legal replies", "share", "higher", "Replies with a legal action."),
    Measure("prompt_tokens", "prompt tokens", "per game", None, "As the provider counts them."),
    Measure("cached_tokens", "cached prompt tokens", "per game", None, "Read from its cache."),
    Measure("completion_tokens", "completion tokens", "per game", None, "Including reasoning."),
    Measure("cost", "cost", "US dollars per game", "lower", "If the provider's price is known."),
    Measure("latency", "latency", "seconds per reply", "lower", "Time until the reply arrived."),
)
"""Measures of seats that a model plays. `failure:CLASS` counts its other replies by class."""


def measure_game(
    slot: Slot, game: Game, episode: Episode, scored: bool, seconds: float
) -> GameResult:
    """Return the result of one game; `scored` computes the exact posterior too, which is slow."""
    # By seat: the contributions of its play and of its replies.
    players, outcome = episode.header.players, episode.outcome
    check_returns(game, outcome.returns, f"the game with seed {slot.seed}")
    measurements: list[list[Measurements]] = [
        [measured, _by_role(game, outcome, seat)]
        for seat, measured in enumerate(measure_seats(game, episode, scored))
    ]
    for seat, decisions in enumerate(count_decisions(game, episode)):
        measurements[seat].append({DECISIONS: WeightedSum(decisions)} if decisions else {})
    for ply in episode.plies:
        if ply.player != CHANCE:
            measurements[ply.player].append(_of_replies(ply.decision.details))
    return GameResult(
        slot=slot,
        status=outcome.status,
        reason=outcome.reason,
        turns=episode.turns,
        decisions=episode.decisions,
        seconds=seconds,
        seats=tuple(
            SeatResult(
                player=player,
                returns=outcome.returns[seat],
                # A draw has no winner, so all its seats count as not won.
                won=outcome.is_winner(seat),
                fallbacks=sum(
                    ply.player == seat and ply.decision.failure is not None for ply in episode.plies
                ),
                measurements=_per_game(sum_measurements(measurements[seat])),
            )
            for seat, player in enumerate(players)
        ),
        # No players and no kinds: this only asks whether the game has an assessor.
        scored=scored and game.analysis.assessor((), ()) is not None,
    )


def count_decisions(game: Game, episode: Episode) -> list[int]:
    """Return the number of decisions of each seat, without forced moves, which no agent is asked.

    With them in a game of bots alone: to find them, all moves would have to be applied again.
    """
    counts, state = [0] * game.num_players, game.initial_state()
    only_bots = all(player.startswith("bot:") for player in episode.header.players)
    for ply in episode.plies:
        if ply.player != CHANCE:
            counts[ply.player] += only_bots or not state.observe(ply.player).legal_actions.is_forced
        if not only_bots:
            state.apply(ply.player, ply.decision.action)
    return counts


def _by_role(game: Game, outcome: Outcome, seat: int) -> dict[str, WeightedSum]:
    """Return the return of a seat under its role, and its team, by name if teams have names."""
    sides = [outcome.roles[seat]] if outcome.roles else []
    if outcome.teams and (names := game.return_scale.team_names):
        sides.append(names[outcome.teams[seat]])
    returns = {f"{AS_ROLE}{side}": WeightedSum(outcome.returns[seat]) for side in sides}
    return returns | ({TEAM: WeightedSum(outcome.teams[seat])} if outcome.teams else {})


def _measures_by_role(game: Game, names: Iterable[str]) -> Iterator[Measure]:
    scale = game.return_scale
    low, high = scale.bounds
    for name in sorted(names):
        if name.startswith(AS_ROLE):
            title = f"{scale.name} {name}"
            about = f"Mean {title}, over the seats with this role."
            yield Measure(name, title, scale.unit or scale.name, "higher", about, low, high)


def check_returns(game: Game, returns: Iterable[float], place: str) -> None:
    """Raise ArenaError for returns that are not finite or not on the scale of the game."""
    low, high = game.return_scale.bounds
    for seat, value in enumerate(returns):
        if not math.isfinite(value):
            raise ArenaError(
                f"{game.name}: {place}: seat {seat} has the return {value}; `returns` of the game "
                "must give finite numbers"
            )
        if not low <= value <= high:
            raise ArenaError(
                f"{game.name}: {place}: seat {seat} has the return {value:g}, which is not on the "
                f"declared scale {low:g} to {high:g}; correct `return_scale` of the game"
            )


MAX_AMOUNT = 1e12
"""No game uses more tokens, dollars or seconds; larger numbers are forged."""
PER_GAME = frozenset({"prompt_tokens", "cached_tokens", "completion_tokens", "cost"})
"""Measures whose unit is one game, although they are summed over replies."""


def _per_game(measurements: dict[str, WeightedSum]) -> dict[str, WeightedSum]:
    """Give sums over replies the weight of one game if their unit is a game."""
    return {
        name: WeightedSum(value.total, 1.0) if name in PER_GAME else value
        for name, value in measurements.items()
    }


def with_own_replies(result: GameResult) -> GameResult:
    """Return a game whose seat under test has the replies of all seats of its player.

    With the opponent `self`, the player has several seats, whose replies all have a cost.
    """
    own, tested = result.own_seats, result.tested
    if len(own) == 1:
        return result
    replies = sum_measurements(
        {name: value for name, value in seat.measurements.items() if _is_of_replies(name)}
        for seat in own
    )
    measurements = {**tested.measurements, **_per_game(replies)}
    fallbacks = sum(seat.fallbacks for seat in own)
    counted = replace(tested, fallbacks=fallbacks, measurements=measurements)
    place = result.slot.seat
    seats = (counted if seat == place else each for seat, each in enumerate(result.seats))
    return replace(result, seats=tuple(seats))


def _is_of_replies(name: str) -> bool:
    named = name == DECISIONS or any(name == measure.name for measure in MODEL_MEASURES)
    return named or name.startswith("failure:")


def _of_replies(details: Mapping[str, JsonValue]) -> dict[str, WeightedSum]:
    """Return the measurements of a decision's replies.

    A replay may come from an unknown source: malformed parts are left out.
    """
    parts = [_of_reply(attempt) for attempt in parse_attempts(details)[0]]
    beliefs = details.get("beliefs")
    if isinstance(beliefs, dict):
        # The reply to a question beside the chat costs tokens but is no attempt to act.
        amounts = {name: _amount(beliefs.get(name)) for name in PER_GAME}
        parts.append({name: WeightedSum(value) for name, value in amounts.items() if value})
    return sum_measurements(parts)


def _amount(value: JsonValue) -> float:
    """Return a cost, a number of tokens or seconds; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    # NaN fails both comparisons and becomes 0.
    return float(value) if 0 <= value <= MAX_AMOUNT else 0.0


def _of_reply(attempt: Attempt) -> dict[str, WeightedSum]:
    measurements = {
        # Weight 1 per reply: the measure is the share of legal replies.
        LEGAL_RATE: WeightedSum(float(attempt.failure is None)),
        "prompt_tokens": WeightedSum(_amount(attempt.prompt_tokens)),
        "cached_tokens": WeightedSum(_amount(attempt.cached_tokens)),
        "completion_tokens": WeightedSum(_amount(attempt.completion_tokens)),
    }
    if attempt.failure:
        # The total counts the failures of this class.
        measurements[f"failure:{attempt.failure}"] = WeightedSum(1.0)
    if attempt.cost is not None:
        measurements["cost"] = WeightedSum(_amount(attempt.cost))
    if attempt.seconds:
        measurements["latency"] = WeightedSum(_amount(attempt.seconds))
    return measurements


def measures_of(game: Game, names: Iterable[str]) -> list[Measure]:
    """Return the measures with these names, in the order of tables."""
    wanted = set(names)
    compared = (measure for measure in game.analysis.measures if measure.comparable)
    by_role = _measures_by_role(game, wanted)
    return [m for m in (*by_role, *compared, *MODEL_MEASURES) if m.name in wanted]
