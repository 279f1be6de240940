"""Measurement of each seat of a finished game: by the game, by plugins, and as reward terms.

A plugin adds a measure with `catalog.add("measure", "GAME/NAME", "module:attribute")`, where the
attribute is a `CustomMeasure`; `*/NAME` is for all games.
"""

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
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.record import Episode
from arena.plugins.catalog import catalog

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


def measure_term(measure: str, about: str) -> RewardTerm:
    """Return a term `measure:NAME` with the value of a measure of the game's assessor."""

    def value(_: SeatEpisode, assessments: Sequence[Assessment]) -> float:
        return ratio(measure_sum(measure, assessments))

    return RewardTerm(f"measure:{measure}", about, value, None, frozenset((measure,)))


def ratio(weighted: WeightedSum) -> float:
    """Return sum(total) / sum(weight), and 0 for a measure without weight."""
    return weighted.total / weighted.weight if weighted.weight else 0.0


RESERVED = frozenset(
    {"legal_rate", "prompt_tokens", "cached_tokens", "completion_tokens", "cost"}
    | {"latency", "win_rate", "mean_return"}
)
"""Names of measures that evaluation takes in every game."""


@dataclass(frozen=True, slots=True)
class CustomMeasure:
    """A measure that a plugin adds to a game."""

    definition: Measure
    value: Callable[[SeatEpisode, Sequence[Assessment]], WeightedSum | None]
    """Measure one seat of one game; None if the game gave it no opportunity. The assessments are
    those of the seat, in game order. The result must not depend on the names of the players."""
    exact: bool = False
    """True if it reads assessments. Then it is taken only of games that are scored by exact
    knowledge; otherwise of all games, and without assessments."""


def custom_measures(game: Game) -> list[CustomMeasure]:
    """Return the measures that plugins add to this game.

    Raises ArenaError if one is not a `CustomMeasure` or uses the name of another.
    """
    known = {measure.name for measure in game.analysis.measures} | RESERVED
    found = list[CustomMeasure]()
    for entry in catalog().entries("measure"):
        where, _, name = entry.name.rpartition("/")
        if where not in (game.name, "*"):
            continue
        custom = catalog().load("measure", entry.name)
        place = f"measure '{entry.name}' of {entry.plugin} ({entry.target})"
        if not isinstance(custom, CustomMeasure):
            raise ArenaError(f"{place} is a {type(custom).__name__}: make it a CustomMeasure")
        # "/" and ":" mark the points of a series and the classes of failures.
        if custom.definition.name != name or {"/", ":"} & {*name}:
            raise ArenaError(
                f"{place} is defined as '{custom.definition.name}': give both the same name, "
                "without '/' and ':'"
            )
        if name in known:
            raise ArenaError(f"{place}: {game.name} has a measure '{name}' already; rename it")
        known.add(name)
        found.append(custom)
    return found


def measure_seats(game: Game, episode: Episode, scored: bool = True) -> list[Measurements]:
    """Return the contributions of a game to the comparable measures of each seat.

    `scored` computes the assessments by exact knowledge too, which is slow. Raises ArenaError if a
    plugin's measure fails or gives an impossible value.
    """
    seats = range(game.num_players)
    assessor = game.analysis.assessor() if scored else None
    judged: list[list[Assessment]] = [[] for _ in seats]
    if assessor is not None:
        for assessment in assessments(assessor, episode):
            judged[assessment.player].append(assessment)
    custom = [each for each in custom_measures(game) if assessor is not None or not each.exact]
    left_out = {measure.name for measure in game.analysis.measures if not measure.comparable}
    measured = list[Measurements]()
    for seat in seats:
        sums = sum_measurements(each.measurements for each in judged[seat])
        own = SeatEpisode(game, episode, seat)
        measured.append(
            {name: value for name, value in sums.items() if name not in left_out}
            | {each.definition.name: value for each, value in _custom(custom, own, judged[seat])}
        )
    return measured


def _custom(
    measures: Sequence[CustomMeasure], seat_episode: SeatEpisode, judged: Sequence[Assessment]
) -> Iterator[tuple[CustomMeasure, WeightedSum]]:
    """Yield the plugins' measures that have a value for this seat."""
    for measure in measures:
        place = f"measure '{measure.definition.name}' of {seat_episode.game.name}"
        remedy = "correct or uninstall the plugin, then continue with --resume"
        try:
            value = measure.value(seat_episode, judged if measure.exact else ())
            fault = None if value is None else measure.definition.fault(value)
        except Exception as error:  # The code of a plugin may fail in any way.
            # Not left out: a measure that fails in some games is biased in the others.
            raise ArenaError(f"{place} fails with {error!r}; {remedy}") from error
        if fault:
            raise ArenaError(f"{place}: {fault}; {remedy}")
        if value is not None:
            yield measure, value


def assessments(assessor: Assessor, episode: Episode) -> Iterator[Assessment]:
    """Yield all assessments of a game, in the order in which the assessor makes them."""
    for ply in episode.plies:
        yield from assessor.ply(ply)
    # Last, because some assessments judge what did not happen until the end.
    yield from assessor.end(episode.outcome)
