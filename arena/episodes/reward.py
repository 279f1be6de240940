"""Reward terms: functions of one seat of a finished game, registered by games and trainers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arena.core.assessment import Assessment, Share, add_up
from arena.core.game import Game
from arena.episodes.record import Episode

NO_KINDS = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished game, seen from the seat that learns."""

    game: Game
    episode: Episode
    seat: int


@dataclass(frozen=True, slots=True)
class Term:
    """A named number that a rollout is worth."""

    name: str
    about: str
    """One sentence, with the unit and the range."""
    value: Callable[[Rollout, Sequence[Assessment]], float]
    """Of a rollout and the seat's assessments of `kinds`, in the order of the game."""
    kinds: frozenset[str] | None = NO_KINDS
    """The kinds of assessments that it needs; None: all of them; none: no exact knowledge."""
    measures: frozenset[str] = NO_KINDS
    """The measures that it is made of; it is no term of a game that lacks one of them."""

    def is_of(self, game: Game) -> bool:
        """Whether this game can say what the term needs."""
        if self.kinds == NO_KINDS:
            return True
        exact = game.assessor((), ()) is not None
        return exact and self.measures <= {measure.name for measure in game.measures}


def function_term(name: str, about: str, function: Callable[[Rollout], float]) -> Term:
    """A term that is computed by a function of the rollout alone."""
    return Term(name, about, lambda rollout, _: function(rollout))


def measured(measure: str, assessments: Sequence[Assessment]) -> Share:
    """A measure over a game; `Share(0, 0)` if it never came up."""
    return add_up(each.shares for each in assessments).get(measure, Share(0.0, 0.0))


def measure_term(measure: str, about: str) -> Term:
    """Any measure of the game's assessor, as it is."""

    def value(_: Rollout, assessments: Sequence[Assessment]) -> float:
        return ratio(measured(measure, assessments))

    return Term(f"measure:{measure}", about, value, None, frozenset((measure,)))


def ratio(share: Share) -> float:
    return share.total / share.weight if share.weight else 0.0
