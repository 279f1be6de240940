"""Assessor of statements in games of hidden roles: truth, effect on listeners, detection."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from arena import CHANCE, Action, Assessment, Measure, Ply, WeightedSum
from arena.evaluation.talk import SPEECH_MEASURES, TALK_KINDS, SpokenStatement, TalkAssessor
from games.hidden_roles.game import (
    DealRoles,
    HiddenRolesGame,
    RolesRevealed,
    SeatAction,
    Suspect,
    Trust,
)
from games.hidden_roles.knowledge import RolePosterior
from games.hidden_roles.talk import MODELS, MOST_WORLDS, Listener, RoleTalk, true_minority

ROLE_TALK_KINDS = TALK_KINDS | {"detection", "effect"}
FLOOR = 1e-3
"""Least stated probability in the logarithmic score. Without it a false 0 would cost infinity."""
SURE = 0.75
"""Probability that the suspected player belongs to the minority, for the score of a suspicion."""
_MOVED = (
    "Mean over the listeners of the majority who do not know all sides, in bits of log2 of the "
)
EFFECT_MEASURES = (
    Measure(
        "literal_bits",
        "statements move literal listeners",
        "bits per statement",
        None,
        f"{_MOVED}probability of the true minority; they believe statements but for slips of 5 %.",
    ),
    Measure(
        "level1_bits",
        "statements move cautious listeners",
        "bits per statement",
        None,
        f"{_MOVED}probability of the true minority; they weigh statements by each side's rates.",
    ),
    Measure(
        "stated_bits",
        "statements move stated beliefs",
        "bits per statement and listener",
        None,
        "Change of log2 of what a listener of the majority states for the true sides of others, "
        "from its last answer before the statement to its next one, divided among the statements "
        "between; only with beliefs=true.",
    ),
    Measure(
        "misleading_truths",
        "truths that mislead",
        "share",
        None,
        "Statements that are certain in the speaker's view and move cautious listeners away from "
        "the true minority, over statements that are certain.",
    ),
)
DETECTION_MEASURES = (
    Measure(
        "detection",
        "votes that hit the minority",
        "share",
        "higher",
        "Votes of the majority for a player of the minority, over its votes for a player.",
    ),
    Measure(
        "suspicion_score",
        "score of stated suspicions",
        "bits per suspicion",
        "higher",
        "log2 of the stated probability of what is true, minus the same for a player who knows "
        "only the number of the minority; over suspicions and trust that the majority states. A "
        "suspicion counts as 75 %, trust as 25 %.",
    ),
)


def talk_measures(roles: Sequence[str], sides: Sequence[str]) -> tuple[Measure, ...]:
    """Return the measures of talk of a game, with lies and detection by role and by side."""
    lies, detection = SPEECH_MEASURES[0], DETECTION_MEASURES[0]
    by_role = tuple(
        Measure(
            f"{each.name} as {role}",
            f"{each.title} as {role}",
            each.unit,
            each.better,
            f"{each.about} Of seats with this role or side.",
        )
        for each in (lies, detection)
        for role in dict.fromkeys((*sides, *roles))
    )
    return (*SPEECH_MEASURES, *EFFECT_MEASURES, *DETECTION_MEASURES, *by_role)


def belief_score(
    details: Mapping[str, JsonValue], player: int, teams: Sequence[int]
) -> float | None:
    """Return the sum over the other seats of log2 of what was stated for their true side.

    A seat that is not stated counts as 1/2. None if the decision has no stated beliefs.
    """
    beliefs = details.get("beliefs")
    stated = beliefs.get("minority") if isinstance(beliefs, dict) else None
    if not isinstance(stated, dict):
        return None
    score = 0.0
    for seat in (seat for seat in range(len(teams)) if seat != player):
        share = stated.get(str(seat), 0.5)
        share = float(share) if isinstance(share, int | float) and 0 <= share <= 1 else 0.5
        score += math.log2(max(FLOOR, share if teams[seat] else 1 - share))
    return score


class RoleTalkAssessor(TalkAssessor):
    """Assessor of talk; beyond `TALK_KINDS` it has the kinds `detection` and `effect`."""

    game: HiddenRolesGame
    talk: RoleTalk

    def __init__(
        self,
        game: HiddenRolesGame,
        talk: RoleTalk,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        super().__init__(game, talk, players, kinds)
        self._truth: tuple[str, ...] = ()
        self._stated: dict[int, float] = {}
        """Score of the latest stated beliefs of a seat, in bits."""
        self._since: dict[int, list[tuple[int, int, Action]]] = {}
        """Ply, speaker and statement of what it has heard since then."""
        self._listeners = {
            seat: {name: Listener(talk, rates) for name, rates in MODELS.items()}
            for seat in range(game.num_players)
        }

    def ply(self, ply: Ply) -> list[Assessment]:
        """Read the statements of the next ply; return the assessments that are possible now."""
        action = ply.decision.action
        if isinstance(action, DealRoles):
            self._truth = action.roles
        elif any(isinstance(event, RolesRevealed) for event in ply.events):
            # The game is over: what is shown now moves no listener.
            ply = Ply(ply.number, ply.player, ply.decision, (), ply.seconds)
        stated = list(self._believes(ply))
        found = super().ply(ply)
        more = (*stated, *self._vote(ply.player, action))
        return [*found, *(each for each in more if self._wants(each.kind, each.player))]

    def _believes(self, ply: Ply) -> Iterator[Assessment]:
        """Yield the effect of the statements between two answers of a listener."""
        listener, details = ply.player, ply.decision.details
        if not self._truth or listener == CHANCE or self._team(listener):
            return
        teams = [self.game.team_of(role) for role in self._truth]
        score = belief_score(details, listener, teams)
        if score is None:
            return
        heard = self._since.pop(listener, [])
        for number, speaker, statement in heard if listener in self._stated else ():
            # They were heard together, so each counts as an equal part.
            bits = (score - self._stated[listener]) / len(heard)
            facts: dict[str, JsonValue] = {"statement": str(statement)}
            facts |= {"listener": listener, "bits": bits}
            measured = {"stated_bits": WeightedSum(bits)}
            yield Assessment(number, speaker, "effect", facts, measured)
        self._stated[listener] = score

    def _team(self, seat: int) -> int:
        return self.game.team_of(self._truth[seat])

    def _by_role(self, name: str, seat: int, value: WeightedSum) -> dict[str, WeightedSum]:
        role = self._truth[seat]
        sides = {role, self.game.team_name(role)}
        return {name: value, **{f"{name} as {side}": value for side in sides}}

    def _vote(self, player: int, action: Action) -> Iterator[Assessment]:
        if (
            isinstance(action, SeatAction)
            and str(action).startswith("vote ")
            and not self._team(player)
        ):
            hit = WeightedSum(float(self._team(action.seat) == 1))
            measured = self._by_role("detection", player, hit)
            yield Assessment(
                self._latest_ply, player, "detection", {"hit": bool(hit.total)}, measured
            )

    def _assess(
        self, player: int, spoken: SpokenStatement, effect: Mapping[str, float]
    ) -> Assessment:
        found = super()._assess(player, spoken, effect)
        measured = {**found.measurements, **self._suspicion_score(player, spoken.statement)}
        if "lies" in measured:
            measured |= self._by_role("lies", player, measured["lies"])
        if found.facts.get("truth") == "honest" and "level1_bits" in effect:
            measured["misleading_truths"] = WeightedSum(float(effect["level1_bits"] < -1e-9))
        for seat in self._stated.keys() - {player}:
            heard = self._since.setdefault(seat, [])
            heard.append((spoken.ply, player, spoken.statement))
        return replace(found, measurements=measured)

    def _suspicion_score(self, player: int, statement: Action) -> dict[str, WeightedSum]:
        """Score a stated suspicion of the majority against one who knows only the numbers."""
        if not isinstance(statement, Suspect | Trust) or statement.seat == player:
            return {}
        if self._team(player):
            return {}
        stated = SURE if isinstance(statement, Suspect) else 1 - SURE
        prior = sum(map(self.game.team_of, self._truth)) / (self.game.num_players - 1)
        if not self._team(statement.seat):
            stated, prior = 1 - stated, 1 - prior
        return {"suspicion_score": WeightedSum(math.log2(stated / prior))}

    def _effect(self, speaker: int, statement: Action) -> Mapping[str, float]:
        """Return the mean change of the listeners' score of the true minority, by model."""
        sums: dict[str, list[float]] = {name: [] for name in MODELS}
        for seat, models in self._listeners.items():
            knowledge = self._knowledge[seat]
            assert isinstance(knowledge, RolePosterior)
            if seat == speaker or self._team(seat) or self._dead(seat):
                continue
            worlds = knowledge.worlds
            if worlds.shape[1] > MOST_WORLDS:
                return {}
            is_true = true_minority(self.game, worlds, self._truth)
            for name, model in models.items():
                before = float(model.weights(worlds) @ is_true)
                model.hear(speaker, statement)
                after = float(model.weights(worlds) @ is_true)
                # A listener who knows all sides cannot be moved.
                if not is_true.all():
                    sums[name].append(math.log2(after / before))
        return {name: math.fsum(bits) / len(bits) for name, bits in sums.items() if bits}

    def _dead(self, seat: int) -> bool:
        living = getattr(self._knowledge[seat], "living", None)
        return living is not None and seat not in living
