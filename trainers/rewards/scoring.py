"""From the text of --reward to the reward of a rollout, with all its terms."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

from arena import Assessment, Game
from arena.core.errors import ArenaError, UsageError
from arena.episodes.reward import Rollout, Term, function_term, measure_term
from arena.plugins.loader import catalog
from trainers.rewards.loading import load_function

CHEAP = frozenset({"knowledge", "accusation", "missed accusation"})
"""Assessments that cost a few milliseconds a game: terms made of them are always logged."""
MEASURE = "measure:"


def default_reward(game: Game) -> str:
    """The reward of this game unless told otherwise."""
    return "win=1,information=0.5,format=1" if "information" in terms_of(game) else "win=1,format=1"


def terms_of(game: Game) -> dict[str, Term]:
    """The terms of the catalog that this game has, by name."""
    found = {name: _from_catalog(name) for name in catalog().names("reward")}
    return {name: term for name, term in found.items() if term.is_of(game)}


def _from_catalog(name: str) -> Term:
    found = catalog().load("reward", name)
    if isinstance(found, Term):
        return found
    entry = next(entry for entry in catalog().entries("reward") if entry.name == name)
    return function_term(name, entry.summary, found)


@dataclass(frozen=True, slots=True)
class Scored:
    """A rollout's reward, and each term by name, unweighted: those that are only logged too."""

    reward: float
    terms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TermLine:
    """What a person is told of a term."""

    name: str
    about: str
    weight: float
    """0 if it is only logged, or not computed at all."""
    computed: bool


@dataclass(frozen=True, slots=True)
class Rewards:
    """The reward of one game: which terms are computed, and what they weigh."""

    game: Game
    weights: Mapping[str, float]
    """By the name of the term, as they were given."""
    terms: tuple[Term, ...]
    """Those with a weight, then those that are only logged."""
    kinds: frozenset[str] | None = field(init=False)
    """Of the assessments that they need together; None: all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", _union(self.terms))

    @classmethod
    def parse(
        cls, text: str, game: Game, reward_fn: str = "", logged: Collection[str] = ()
    ) -> Rewards:
        """The reward that `NAME=WEIGHT,…` describes; an empty text is the game's default.

        `reward_fn`, `module:function`, is the term `custom`. Terms in `logged`, and those that
        cost next to nothing, are computed without being weighed. Raises UsageError for what is
        no number, no term, or no term of this game.
        """
        weights = _weights(text.strip() or default_reward(game))
        if reward_fn and "custom" not in weights:
            raise UsageError(
                f"--reward-fn {reward_fn} has no weight: add custom=1 to --reward {text}".rstrip()
            )
        known = terms_of(game)
        chosen = {name: _find(name, game, known, reward_fn) for name in (*weights, *logged)}
        affordable = _union(chosen.values())
        if affordable is not None:
            affordable |= CHEAP
        for name, term in known.items():
            # A plain function may be slow; a Term says what it needs.
            if isinstance(catalog().load("reward", name), Term) and _costs_nothing(
                term, affordable
            ):
                chosen.setdefault(name, term)
        return cls(game, weights, tuple(chosen.values()))

    def score(self, rollout: Rollout) -> Scored:
        """Raises ArenaError, naming the term, for a value that is no finite number."""
        said = self._assess(rollout)
        values = {
            term.name: _evaluate(
                term,
                rollout,
                [each for each in said if term.kinds is None or each.kind in term.kinds],
            )
            for term in self.terms
        }
        reward = math.fsum(weight * values[name] for name, weight in self.weights.items())
        return Scored(reward, values)

    def _assess(self, rollout: Rollout) -> list[Assessment]:
        """What exact knowledge says of the seat, of the kinds that are needed."""
        if self.kinds is not None and not self.kinds:
            return []
        assessor = self.game.assessor((rollout.seat,), self.kinds)
        assert assessor is not None  # Else no term would need it.
        found = [each for ply in rollout.episode.plies for each in assessor.ply(ply)]
        return found + assessor.end(rollout.episode.outcome)

    def describe(self) -> list[TermLine]:
        """The terms that are computed, then the others that this game has."""
        computed = {term.name: term for term in self.terms}
        return [
            TermLine(term.name, term.about, self.weights.get(term.name, 0.0), term.name in computed)
            for term in {**computed, **terms_of(self.game)}.values()
        ]


def _union(terms: Iterable[Term]) -> frozenset[str] | None:
    """The kinds of assessments that these terms need together; None: all."""
    found = frozenset[str]()
    for term in terms:
        if term.kinds is None:
            return None
        found |= term.kinds
    return found


def _costs_nothing(term: Term, kinds: frozenset[str] | None) -> bool:
    return kinds is None or (term.kinds is not None and term.kinds <= kinds)


def _evaluate(term: Term, rollout: Rollout, assessments: Sequence[Assessment]) -> float:
    where = f"(seat {rollout.seat}, seed {rollout.episode.header.seed})"
    try:
        value: object = term.value(rollout, assessments)  # A function may give any number.
    except ArenaError:
        raise
    except Exception as error:  # The edge of a plugin: a user's function may fail in any way.
        raise ArenaError(f"the reward term '{term.name}' failed {where}: {error!r}") from error
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise ArenaError(f"the reward term '{term.name}' is {value!r} {where}: no finite number")


def _weights(text: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (word.strip() for word in part.rpartition("="))
        if not equals or not name:
            raise UsageError(f"--reward {text}: '{part.strip()}' is not of the form NAME=WEIGHT")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise UsageError(f"--reward {text}: the weight of {name}, '{number}', is no number")
        if name in weights:
            raise UsageError(f"--reward {text}: {name} stands in it twice")
        weights[name] = weight
    return weights


def _find(name: str, game: Game, known: Mapping[str, Term], reward_fn: str) -> Term:
    """The term of this name; raises UsageError, with what there is, if the game has none."""
    if name in known:
        return known[name]
    if name == "custom":
        if not reward_fn:
            raise UsageError("--reward custom=…: say which function with --reward-fn")
        function = load_function(reward_fn, "--reward-fn")
        return function_term(name, f"{reward_fn}, a function of the rollout.", function)
    if name.startswith(MEASURE):
        return _measure(name, game)
    there_are = f"its terms are: {', '.join(known)}"
    if name in catalog().names("reward"):
        raise UsageError(
            f"the reward term '{name}' needs exact knowledge of a kind that {game.name} does not "
            f"offer; {there_are}"
        )
    raise UsageError(f"there is no reward term '{name}'; {_near(name, known)}{there_are}")


def _measure(name: str, game: Game) -> Term:
    measures = {measure.name: measure for measure in game.measures}
    wanted = name.removeprefix(MEASURE)
    if wanted not in measures:
        known = ", ".join(each for each in measures if "/" not in each) or "none"
        near = _near(wanted, measures)
        raise UsageError(f"{game.name} has no measure '{wanted}'; {near}its measures are: {known}")
    measure = measures[wanted]
    return measure_term(wanted, f"{measure.about} In {measure.unit}; 0 if it never came up.")


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'? " if near else ""
