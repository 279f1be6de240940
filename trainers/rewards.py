"""Rewards of a finished game for the seat that learns: a weighted sum of named terms.

    rewards = Rewards.parse("win=1,entropy_removed=0.5", game)
    breakdown = rewards.score(SeatEpisode(game, episode, seat))

A term declares the kinds of assessments that it reads; no others are computed. The entropy H of
what the game hides from the seat is measured by exact knowledge, in bits; the share that was
removed is (H_dealt - H_end) / H_dealt.

This is not potential-based shaping (Ng, Harada and Russell, "Policy invariance under reward
transformations", ICML 1999), which needs a potential of 0 at every end: a seat that loses keeps
what it has removed. So it rewards deductions, and may move the best play.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from arena import Assessment, Game
from arena.agents.chat import attempts_in
from arena.core.action import CHANCE
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Ply
from arena.core.text import did_you_mean
from arena.episodes.measurement import (
    RewardTerm,
    SeatEpisode,
    assessments,
    function_term,
    measure_term,
)
from arena.episodes.record import Episode
from arena.plugins.catalog import catalog
from trainers.config.config import CreditName
from trainers.trajectory import Judgement, Judgements

__all__ = [
    "RewardBreakdown",
    "RewardTerm",
    "Rewards",
    "SeatEpisode",
    "TermSummary",
    "default_reward",
]


def load_function(target: str) -> Callable[..., object]:
    """Import `module:function`; modules in the working directory are found too.

    Raises UsageError if there is no such function.
    """
    # sys.path starts with the folder of the `arena` command, not with the working directory.
    sys.path.insert(0, working_directory := str(Path.cwd()))
    try:
        function = resolve_name(target)
    except Exception as error:  # The edge of a plugin: a module may fail in any way at import.
        cause = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UsageError(
            f"--reward-fn {target}: {cause}; give module:function, of a module that is installed "
            f"or in {working_directory}"
        ) from error
    finally:
        sys.path.remove(working_directory)
    if not callable(function):
        kind = type(function).__name__
        raise UsageError(f"--reward-fn {target}: it is not a function, but {kind}")
    return cast("Callable[..., object]", function)


MEASURE = "measure:"


def default_reward(game: Game, credit: CreditName = "game") -> str:
    """Return the reward of this game when --reward is not given.

    With any other credit than `game`, illegal answers have their own cost at their turns.
    """
    if credit != "game":
        return "win=1"
    known = "entropy_removed" in terms_of(game)
    return "win=1,entropy_removed=0.5,format=1" if known else "win=1,format=1"


def terms_of(game: Game) -> dict[str, RewardTerm]:
    """Return the terms of the catalog that this game has, by name."""
    terms = {name: _catalog_term(name) for name in catalog().names("reward")}
    return {name: term for name, term in terms.items() if term.available_in(game)}


def _catalog_term(name: str) -> RewardTerm:
    entry = catalog().load("reward", name)
    if isinstance(entry, RewardTerm):
        return entry
    summary = next(each.summary for each in catalog().entries("reward") if each.name == name)
    return function_term(name, summary, entry)


@dataclass(frozen=True, slots=True)
class RewardBreakdown:
    """The reward of one seat, and each term by name, unweighted; terms of weight 0 included."""

    reward: float
    terms: Mapping[str, float]
    judgements: Mapping[int, Judgements] = field(default_factory=dict)
    """Values of single decisions by ply, if they were asked for."""


@dataclass(frozen=True, slots=True)
class TermSummary:
    """One term, as a dry run prints it."""

    name: str
    about: str
    weight: float
    """0 if the term is only logged, or not computed at all."""
    computed: bool


@dataclass(frozen=True, slots=True)
class Rewards:
    """The reward of one game: the terms that are computed, and their weights."""

    game: Game
    weights: Mapping[str, float]
    """Weights by the name of the term, in the order of --reward."""
    terms: tuple[RewardTerm, ...]
    """Terms with a weight, then terms that are only logged."""
    source: tuple[str, str, CreditName]
    """The other arguments of `parse`."""

    @property
    def credit(self) -> CreditName:
        """The estimator whose data about single decisions is computed too."""
        return self.source[-1]

    @property
    def kinds(self) -> frozenset[str] | None:
        """The kinds of assessments that the terms and the credit read together; None: all."""
        kinds = frozenset[str]()
        for term in self.terms:
            if term.kinds is None:
                return None
            kinds |= term.kinds
        decisions = self.game.analysis.decision_kinds if self.credit == "judged" else ()
        return kinds.union(decisions)

    @classmethod
    def parse(
        cls,
        text: str,
        game: Game,
        reward_fn: str = "",
        credit: CreditName = "game",
    ) -> Rewards:
        """Return the reward that `NAME=WEIGHT,…` describes; an empty text is the game's default.

        Cheap terms of the catalog are computed and logged too, as is what the credit reads of
        single decisions. `reward_fn` is `module:function`, the term `custom`. Raises UsageError if
        a weight is not a number, or the game has no term of this name.
        """
        weights = parse_weights(text.strip() or default_reward(game, credit))
        if reward_fn and "custom" not in weights:
            raise UsageError(
                f"--reward-fn {reward_fn} has no weight: add custom=1 to --reward {text}".rstrip()
            )
        available = terms_of(game)
        terms = {name: _find_term(name, game, available, reward_fn) for name in weights}
        for name, term in available.items():
            if term.cheap:
                terms.setdefault(name, term)
        source = (text, reward_fn, credit)
        return cls(game, weights, tuple(terms.values()), source)

    def __reduce__(self) -> tuple[object, ...]:
        # Terms are functions, some of which cannot be pickled; a worker finds them by their names.
        return (_parse_once, (self.game, *self.source))

    def score_seat(self, episode: Episode, seat: int) -> RewardBreakdown:
        """Return the reward of one seat; as `score`."""
        return self.score(SeatEpisode(self.game, episode, seat))

    def score(self, seat_episode: SeatEpisode) -> RewardBreakdown:
        """Return sum(weight * term) over the terms of one seat.

        Raises ArenaError if a term failed or is not a finite number; the message names the term.
        """
        assessments = self._assess(seat_episode)
        values = {
            term.name: _evaluate(
                term,
                seat_episode,
                [each for each in assessments if term.kinds is None or each.kind in term.kinds],
            )
            for term in self.terms
        }
        # `fsum` rounds once: the sum does not depend on the order of the terms.
        reward = math.fsum(weight * values[name] for name, weight in self.weights.items())
        judged = decision_values(self.game, assessments) if self.credit == "judged" else {}
        return RewardBreakdown(reward, values, judged)

    def _assess(self, seat_episode: SeatEpisode) -> list[Assessment]:
        """Return the seat's assessments of the needed kinds, in the order of the game."""
        kinds = self.kinds
        if kinds is not None and not kinds:
            return []
        assessor = self.game.analysis.assessor((seat_episode.seat,), kinds)
        assert assessor is not None, "a term that needs an assessor is not available without one"
        # In the order of play, then those of the end: `entropy_removed` reads the last one.
        return list(assessments(assessor, seat_episode.episode))

    def describe(self) -> list[TermSummary]:
        """Return the terms that are computed, then the other terms of this game."""
        computed = {term.name: term for term in self.terms}
        return [
            TermSummary(
                term.name, term.about, self.weights.get(term.name, 0.0), term.name in computed
            )
            for term in {**computed, **terms_of(self.game)}.values()
        ]


def decision_values(game: Game, assessments: Iterable[Assessment]) -> dict[int, Judgements]:
    """Return the values of the decisions among these assessments, by ply."""
    judged: dict[int, Judgements] = {}
    for each in assessments:
        kind = game.analysis.decision_kinds.get(each.kind)
        value = kind.value(each) if kind else None
        if value is not None:
            judged[each.ply] = (*judged.get(each.ply, ()), Judgement(each.kind, value))
    return judged


@cache
def _parse_once(game: Game, text: str, reward_fn: str, credit: CreditName) -> Rewards:
    """Return one instance per process: exact knowledge has tables, which belong to the game."""
    return Rewards.parse(text, game, reward_fn, credit)


def _evaluate(
    term: RewardTerm, seat_episode: SeatEpisode, assessments: Sequence[Assessment]
) -> float:
    where = f"(seat {seat_episode.seat}, seed {seat_episode.episode.header.seed})"
    try:
        # Typed as object: a user's function may return anything, for example a NumPy number.
        value: object = term.value(seat_episode, assessments)
    except ArenaError:
        raise
    except Exception as error:  # The edge of a plugin: a user's function may fail in any way.
        raise ArenaError(f"the reward term '{term.name}' failed {where}: {error!r}") from error
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise ArenaError(f"the reward term '{term.name}' is {value!r} {where}: not a finite number")


def parse_weights(text: str) -> dict[str, float]:
    """Return the weights of `NAME=WEIGHT,…`. Raises UsageError."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        # From the right, since the name of a term may hold "=" itself.
        name, equals, number = (word.strip() for word in part.rpartition("="))
        if not equals or not name:
            raise UsageError(f"--reward {text}: '{part.strip()}' is not of the form NAME=WEIGHT")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise UsageError(f"--reward {text}: the weight of {name}, '{number}', is not a number")
        if name in weights:
            raise UsageError(f"--reward {text}: {name} appears twice")
        weights[name] = weight
    return weights


def _find_term(
    name: str, game: Game, available: Mapping[str, RewardTerm], reward_fn: str
) -> RewardTerm:
    """Return the term of this name; raises UsageError, with the known names, if there is none."""
    if name in available:
        return available[name]
    if name == "custom":
        if not reward_fn:
            raise UsageError("--reward custom=…: name the function with --reward-fn")
        function = load_function(reward_fn)
        # `_evaluate` checks the value: a user's function may return any type.
        return function_term(name, f"{reward_fn}, a function of the seat's episode.", function)  # type: ignore[arg-type]
    if name.startswith(MEASURE):
        return _find_measure(name.removeprefix(MEASURE), game)
    names = f"its terms are: {', '.join(available)}"
    if name in catalog().names("reward"):
        raise UsageError(
            f"the reward term '{name}' needs exact knowledge of a kind that {game.name} does not "
            f"offer; {names}"
        )
    raise UsageError(f"there is no reward term '{name}'; {did_you_mean(name, available)}{names}")


def _find_measure(name: str, game: Game) -> RewardTerm:
    measures = {measure.name: measure for measure in game.analysis.measures}
    if name not in measures:
        # NAME/NUMBER is one point of a series; a list of all of them would be too long.
        known = ", ".join(each for each in measures if "/" not in each) or "none"
        near = did_you_mean(name, measures)
        raise UsageError(f"{game.name} has no measure '{name}'; {near}its measures are: {known}")
    return measure_term(measures[name])


def entropy_removed(assessments: Sequence[Assessment]) -> float:
    """Return (H_dealt - H_end) / H_dealt, from 0 to 1; 0 if the deal hid nothing.

    It is read from the seat's last assessment of the kind `knowledge`. Raises ArenaError if there
    is no such assessment.
    """
    # The last one is that of the end; earlier ones belong to earlier moments.
    for assessment in reversed(assessments):
        if assessment.kind == "knowledge":
            dealt = assessment.facts.get("entropy_dealt")
            end = assessment.facts.get("entropy_end")
            if isinstance(dealt, int | float) and isinstance(end, int | float):
                return (dealt - end) / dealt if dealt else 0.0
    raise ArenaError(
        "the game's assessor does not report a player's final knowledge: it must give an "
        "assessment of the kind 'knowledge' with entropy_dealt and entropy_end"
    )


def _format(seat_episode: SeatEpisode) -> float:
    own = [ply for ply in seat_episode.episode.plies if CHANCE != ply.player == seat_episode.seat]
    # A decision without any reply and without a fallback was not put to a model.
    asked = [ply for ply in own if _reply_failures(ply) or ply.decision.failure]
    if not asked:
        return 1.0
    # None is the failure of a legal reply.
    first_legal = sum(_reply_failures(ply)[:1] == [None] for ply in asked)
    # A fallback counts twice: it was no legal first reply, and it costs 1 more.
    fallbacks = sum(bool(ply.decision.failure) for ply in asked)
    return (first_legal - fallbacks) / len(asked)


def _reply_failures(ply: Ply) -> list[object]:
    """Return the failure of each reply of the model at this decision; None for a legal reply.

    Requests that the provider did not answer gave no reply and are left out.
    """
    failures = (attempt.failure for attempt in attempts_in(ply.decision))
    return [failure for failure in failures if failure != "provider_error"]


WIN = RewardTerm(
    "win",
    "The seat's return, in the game's own unit: 1 for a win of Cluedo and 0 otherwise; chips in "
    "Kuhn poker.",
    lambda seat_episode, _: seat_episode.episode.outcome.returns[seat_episode.seat],
    cheap=True,
)
FORMAT = RewardTerm(
    "format",
    "Share of the seat's decisions whose first reply was a legal action, minus the share in which "
    "a fallback had to be played; from -1 to 1, and 1 if the model was never asked.",
    lambda seat_episode, _: _format(seat_episode),
    cheap=True,
)
ENTROPY_REMOVED = RewardTerm(
    "entropy_removed",
    "Share of the entropy of the hidden information after the deal that exact knowledge of all "
    "the seat saw has removed by the end; from 0 to 1.",
    lambda _, assessments: entropy_removed(assessments),
    frozenset({"knowledge"}),
    cheap=True,
)
