"""The terms that a reward is made of.

Each looks at one seat of one finished game. What it needs of exact knowledge it says by the kinds
of assessments (`Game.assessor`), and nothing else is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arena import Assessment, Game, Share
from arena.action import CHANCE
from arena.assessment import add_up
from arena.episode import Episode, Ply
from arena.observation import Json
from trainers.rewards.information import share_removed

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
        return _ratio(measured(measure, assessments))

    return Term(f"measure:{measure}", about, value, None, frozenset((measure,)))


def _ratio(share: Share) -> float:
    return share.total / share.weight if share.weight else 0.0


def _accusation(_: Rollout, assessments: Sequence[Assessment]) -> float:
    share = measured("accusations_right", assessments)
    return 2 * _ratio(share) - 1 if share.weight else 0.0


def _minus(measure: str) -> Callable[[Rollout, Sequence[Assessment]], float]:
    return lambda _, assessments: 0.0 - _ratio(measured(measure, assessments))


def _claims(_: Rollout, assessments: Sequence[Assessment]) -> float:
    claimed, provable = (measured(name, assessments) for name in ("precision", "recall"))
    cards = claimed.weight + provable.weight
    return 2 * claimed.total / cards if cards else 0.0


# Replies


def _format(rollout: Rollout) -> float:
    asked = [ply for ply in _own(rollout) if _replies(ply) or ply.decision.failure]
    if not asked:
        return 1.0
    return sum(_was_legal_at_once(ply) - bool(ply.decision.failure) for ply in asked) / len(asked)


def _own(rollout: Rollout) -> list[Ply]:
    return [ply for ply in rollout.episode.plies if CHANCE != ply.player == rollout.seat]


def _replies(ply: Ply) -> list[Json]:
    """How each reply of a model failed, None where it did not; what gave no reply is left out."""
    attempts = ply.decision.details.get("attempts")
    listed = attempts if isinstance(attempts, list) else []
    failures = [attempt.get("failure") for attempt in listed if isinstance(attempt, dict)]
    return [failure for failure in failures if failure != "provider_error"]


def _was_legal_at_once(ply: Ply) -> bool:
    return _replies(ply)[:1] == [None]


WIN = function_term(
    "win",
    "The seat's return, in the game's own unit: 1 for a win of Cluedo and 0 otherwise; chips in "
    "Kuhn poker.",
    lambda rollout: rollout.episode.outcome.returns[rollout.seat],
)
FORMAT = function_term(
    "format",
    "Share of the seat's decisions whose first reply was a legal action, minus the share in which "
    "a fallback had to be played; from -1 to 1, and 1 if it was never asked.",
    _format,
)
INFORMATION = Term(
    "information",
    "Share of the entropy of what is hidden, as it was after the deal, that exact knowledge of all "
    "the seat saw has removed by the end; from 0 to 1.",
    lambda _, assessments: share_removed(assessments),
    frozenset({"knowledge"}),
)
QUESTION = Term(
    "question",
    "Expected bits of the seat's own questions over those of the best ones it could have asked; "
    "from 0 to 1, and 0 if it asked none.",
    lambda _, assessments: _ratio(measured("efficiency", assessments)),
    frozenset({"suggestion"}),
    frozenset({"efficiency"}),
)
ACCUSATION = Term(
    "accusation",
    "1 for a right accusation, -1 for a wrong one, the mean of several, 0 without any.",
    _accusation,
    frozenset({"accusation"}),
    frozenset({"accusations_right"}),
)
PREMATURE = Term(
    "premature",
    "Minus the share of the seat's accusations that were less probable than the break-even; from "
    "-1 to 0.",
    _minus("premature"),
    frozenset({"accusation"}),
    frozenset({"premature"}),
)
MISSED = Term(
    "missed",
    "Minus the share of the own turns in which the solution was provable that ended without "
    "naming it; from -1 to 0.",
    _minus("missed"),
    frozenset({"accusation", "missed accusation"}),
    frozenset({"missed"}),
)
LEAK = Term(
    "leak",
    "Minus the bits that the cards shown gave beyond what the least telling ones would have given, "
    "per refutation with a choice; 0 or less.",
    _minus("excess_leak"),
    frozenset({"refutation"}),
    frozenset({"excess_leak"}),
)
CLAIMS = Term(
    "claims",
    "F1 of the deductions that the seat stated (--beliefs) against all that were provable, own "
    "cards left out; from 0 to 1, and 0 if it stated none. The statements are not trained: it is a "
    "noisy signal on the moves only.",
    _claims,
    frozenset({"beliefs"}),
    frozenset({"precision", "recall"}),
)
