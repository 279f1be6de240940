"""Measurement of each seat of a finished game: measures of the game, and reward terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from arena.core.analysis import (
    Assessment,
    Assessor,
    Measure,
    Measurements,
    WeightedSum,
    sum_measurements,
)
from arena.core.game import Game
from arena.episodes.record import Episode

NO_KINDS = frozenset[str]()


@dataclass(frozen=True, slots=True)
class SeatEpisode:
    """A finished game, seen from the seat that learns."""

    game: Game
    episode: Episode
    seat: int


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """A named number for one seat of one finished game."""

    name: str
    about: str
    """One sentence, with the unit and the range."""
    value: Callable[[SeatEpisode, Sequence[Assessment]], float]
    """Compute the number from the game and the seat's assessments of `kinds`, in game order."""
    kinds: frozenset[str] | None = NO_KINDS
    """The kinds of assessments that it reads. None: all kinds. Empty: no exact knowledge."""
    measures: frozenset[str] = NO_KINDS
    """The measures that it reads. A game that lacks one of them does not have this term."""
    cheap: bool = False
    """The assessments of `kinds` take a few milliseconds per game, so they are always computed."""

    def available_in(self, game: Game) -> bool:
        """Return whether this game computes the exact knowledge that the term reads."""
        if self.kinds == NO_KINDS:
            return True
        # No players and no kinds: this only asks whether the game has an assessor.
        exact = game.analysis.assessor((), ()) is not None
        return exact and self.measures <= {measure.name for measure in game.analysis.measures}


def function_term(name: str, about: str, function: Callable[[SeatEpisode], float]) -> RewardTerm:
    """Return a term that needs no assessments, only the game itself."""
    return RewardTerm(name, about, lambda seat_episode, _: function(seat_episode))


def measure_sum(measure: str, assessments: Sequence[Assessment]) -> WeightedSum:
    """Add a measure up over one game; `WeightedSum(0, 0)` if the game never measured it."""
    sums = sum_measurements(assessment.measurements for assessment in assessments)
    return sums.get(measure, WeightedSum(0.0, 0.0))


def measure_term(measure: Measure) -> RewardTerm:
    """Return a term `measure:NAME` with the value of a measure of the game's assessor."""

    def value(_: SeatEpisode, assessments: Sequence[Assessment]) -> float:
        return ratio(measure_sum(measure.name, assessments))

    about = f"{measure.about} In {measure.unit}; 0 if it was never measured."
    names = frozenset((measure.name,))
    kinds = None if measure.kinds is None else frozenset(measure.kinds)
    return RewardTerm(f"measure:{measure.name}", about, value, kinds, names)


def ratio(weighted: WeightedSum) -> float:
    """Return sum(total) / sum(weight), and 0 for a measure without weight."""
    return weighted.total / weighted.weight if weighted.weight else 0.0


def measure_seats(game: Game, episode: Episode, scored: bool = True) -> list[Measurements]:
    """Return the contributions of a game to the comparable measures of each seat.

    Without `scored` there are none, because exact knowledge is slow.
    """
    seats = range(game.num_players)
    assessor = game.analysis.assessor() if scored else None
    judged: list[list[Assessment]] = [[] for _ in seats]
    if assessor is not None:
        for assessment in assessments(assessor, episode):
            judged[assessment.player].append(assessment)
    left_out = {measure.name for measure in game.analysis.measures if not measure.comparable}
    sums = (sum_measurements(each.measurements for each in judged[seat]) for seat in seats)
    return [
        {name: value for name, value in of_seat.items() if name not in left_out} for of_seat in sums
    ]


def assessments(assessor: Assessor, episode: Episode) -> Iterator[Assessment]:
    """Yield all assessments of a game, in the order in which the assessor makes them."""
    for ply in episode.plies:
        yield from assessor.ply(ply)
    # Last, because some assessments judge what did not happen until the end.
    yield from assessor.end(episode.outcome)
