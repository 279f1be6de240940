"""Analysis of hidden-role games by exact knowledge: judged choices and talk, worlds drawn again."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Ply,
    State,
    Step,
    WeightedSum,
)
from arena.core.analysis import Fact
from arena.core.errors import ArenaError
from arena.evaluation.talk import (
    SPEECH_MEASURES,
    STATEMENT_FACTS,
    TALK_KINDS,
    SpokenStatement,
    TalkAssessor,
    comment_talk,
)
from games.hidden_roles.notes import RoleNotes
from games.hidden_roles.rules import (
    DealRoles,
    HiddenRolesGame,
    RolesRevealed,
    Suspect,
    Trust,
)
from games.hidden_roles.talk import MODELS, MOST_WORLDS, Listener, RoleTalk, true_minority

ROLE_TALK_KINDS = TALK_KINDS | {"detection", "effect"}
FLOOR = 1e-3
"""Least stated probability in the logarithmic score. Without it a false 0 would cost infinity."""
ATTEMPTS = 1000
"""Draws of the hidden actions between two public moves, and of whole histories."""
KEPT = 0.7
"""Share of the other seats' legal actions that a draw keeps."""
SURE = 0.75
"""Probability that the suspected player belongs to the minority, for the score of a suspicion."""
ROLE_FACTS: Mapping[str, Fact] = {
    "probability": Fact("probability", "exact probability, in this seat's view, of what it chose"),
    "best": Fact("probability", "the highest such probability of a legal choice"),
    **STATEMENT_FACTS,
    "literal_bits": Fact("bits", "how far the statement moves literal listeners to the truth"),
    "level1_bits": Fact("bits", "how far the statement moves cautious listeners to the truth"),
    "entropy_dealt": Fact("bits", "uncertainty about the roles after the deal"),
    "entropy_end": Fact("bits", "uncertainty about the roles at the end, before they are shown"),
}
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
    by_role = (
        replace(
            each,
            name=f"{each.name} as {role}",
            title=f"{each.title} as {role}",
            about=f"{each.about} Of seats with this role or side.",
        )
        for each in (SPEECH_MEASURES[0], DETECTION_MEASURES[0])
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


class RoleAssessor(TalkAssessor):
    """Assessor of one game: choices, which the analysis of the game judges, talk and knowledge.

    Beyond `TALK_KINDS` it has the kinds of the game, `detection`, `effect` and `knowledge`.
    """

    talk_kinds = ROLE_TALK_KINDS
    shows_hidden = (RolesRevealed,)
    game: HiddenRolesGame
    talk: RoleTalk
    _knowledge: dict[int, RoleNotes]

    def _begin(self) -> None:
        super()._begin()
        analysis = self.game.analysis
        assert isinstance(analysis, HiddenRolesAnalysis)
        self._judge, self._state = analysis.judge, self.game.initial_state()
        self._stated: dict[int, float] = {}
        """Score of the latest stated beliefs of a seat, in bits."""
        self._since: dict[int, list[tuple[int, int, Action]]] = {}
        """Ply, speaker and statement of what it has heard since then."""
        self._listeners = {
            seat: {name: Listener(self.talk, rates) for name, rates in MODELS.items()}
            for seat in range(self.game.num_players)
        }

    def ply(self, ply: Ply) -> list[Assessment]:
        """Judge the next ply; return the assessments that are possible now."""
        player, action = ply.player, ply.decision.action
        # Judged before the ply is applied, by what the seat knew when it decided.
        choice = None
        if player in self._assessed:
            choice = self._judge(self._state, self._knowledge[player], ply)
        found = [choice] if choice and self._wants(choice.kind) else []
        stated = [*self._believes(ply)]
        self._state.apply(player, action)
        found += super().ply(ply)
        more = (*stated, *self._vote(player, action))
        found += (each for each in more if self._wants(each.kind, each.player))
        return found

    def _believes(self, ply: Ply) -> Iterator[Assessment]:
        """Yield the effect of the statements between two answers of a listener."""
        listener, teams = ply.player, self._state.teams()
        if listener == CHANCE or teams[listener] or not self.game.options.talk:
            return
        score = belief_score(ply.decision.details, listener, teams)
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

    def _by_role(self, name: str, seat: int, value: WeightedSum) -> dict[str, WeightedSum]:
        role = self._state.dealt[seat]
        sides = {role, self.game.team_name(role)}
        return {name: value, **{f"{name} as {side}": value for side in sides}}

    def _vote(self, player: int, action: Action) -> Iterator[Assessment]:
        """Yield whether a vote of the majority hits the minority."""
        teams, vote = self._state.teams(), self.game.vote if self.game.options.talk else None
        if vote and isinstance(action, vote) and not teams[player]:
            hit = bool(teams[action.seat])
            measured = self._by_role("detection", player, WeightedSum(float(hit)))
            yield Assessment(self._latest_ply, player, "detection", {"hit": hit}, measured)

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
        teams = self._state.teams()
        if not isinstance(statement, Suspect | Trust) or statement.seat == player or teams[player]:
            return {}
        stated = SURE if isinstance(statement, Suspect) else 1 - SURE
        prior = sum(teams) / (self.game.num_players - 1)
        if not teams[statement.seat]:
            stated, prior = 1 - stated, 1 - prior
        return {"suspicion_score": WeightedSum(math.log2(stated / prior))}

    def _effect(self, speaker: int, statement: Action) -> Mapping[str, float]:
        """Return the mean change of the listeners' score of the true minority, by model."""
        if not self._wants("statement"):
            return {}
        sums: dict[str, list[float]] = {name: [] for name in MODELS}
        teams = self._state.teams()
        for seat, models in self._listeners.items():
            if seat == speaker or teams[seat] or self._state.is_out(seat):
                continue
            worlds = self._knowledge[seat].worlds
            if worlds.shape[1] > MOST_WORLDS:
                return {}
            is_true = true_minority(self.game, worlds, self._state.dealt)
            for name, model in models.items():
                before = float(model.weights(worlds) @ is_true)
                model.hear(speaker, statement)
                after = float(model.weights(worlds) @ is_true)
                # A listener who knows all sides cannot be moved.
                if not is_true.all():
                    sums[name].append(math.log2(after / before))
        return {name: math.fsum(bits) / len(bits) for name, bits in sums.items() if bits}


class HiddenRolesAnalysis(GameAnalysis, ABC):
    """Exact posterior of the roles, and other worlds drawn from it."""

    game: HiddenRolesGame
    has_sheet = True
    facts = ROLE_FACTS
    assessor_type = RoleAssessor
    hidden_phases: ClassVar[frozenset[str]]
    """Phases whose actions are not published."""

    @abstractmethod
    def judge(self, state: Any, notes: Any, ply: Ply) -> Assessment | None:
        """Judge a decision by the notes of its player; None if there is nothing to judge.

        Args:
            state: The position before the decision.
            notes: Notes of the player who decides.
            ply: The decision.
        """

    @abstractmethod
    def comment_choice(self, assessment: Assessment, chosen: float, best: float) -> Comment:
        """Return the assessment of a choice as text, by the probabilities that it states."""

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return an assessment as text; None if there is nothing to report."""
        facts = assessment.facts
        if assessment.kind in ROLE_TALK_KINDS:
            return comment_talk(assessment)
        if assessment.kind == "knowledge":
            dealt, end = facts["entropy_dealt"], facts["entropy_end"]
            return Comment(
                f"Of {dealt:.1f} bits of uncertainty about the roles {end:.1f} are left."
            )
        chosen, best = facts["probability"], facts["best"]
        assert isinstance(chosen, int | float) and isinstance(best, int | float)
        return self.comment_choice(assessment, chosen, best)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the roles from the posterior of `player`, and then all hidden actions again."""
        # Before the deal there is nothing to draw again.
        if not history:
            return []
        notes = self.game.text.new_notes(player)
        assert isinstance(notes, RoleNotes)
        for event in self.game.initial_state().apply_all(history).log.witnessed[player]:
            notes.update(event)
        roles = notes.sample(rng)
        # A draw may make what follows impossible: a doctor cannot protect the same player twice.
        for _ in range(ATTEMPTS):
            steps = self._redraw(history, player, roles, rng)
            if steps is not None:
                return steps
        raise ArenaError(f"{self.game.name}: no hidden actions found with the roles {roles}")

    def _redraw(
        self, history: Sequence[Step], player: int, roles: tuple[str, ...], rng: random.Random
    ) -> list[Step] | None:
        """Draw hidden actions until `player` has seen the same; None if none are found."""
        steps: list[Step] = []
        true, other = self.game.initial_state(), self.game.initial_state()
        for is_hidden, run in groupby(self._visibility(history), lambda pair: pair[0]):
            taken, seen = [step for _, step in run], len(other.log.witnessed[player])
            true.apply_all(taken)
            if not is_hidden:
                drawn: list[Step] | None = [
                    Step(CHANCE, DealRoles(roles)) if step.player == CHANCE else step
                    for step in taken
                ]
                other.apply_all(drawn or ())
            else:
                for _ in range(ATTEMPTS):
                    twin = other.clone()
                    drawn = _draw(twin, taken, player, rng)
                    if drawn and _looks_the_same(true, twin, player, seen):
                        other = twin
                        break
                else:
                    return None
            steps += drawn or ()
        return steps

    def _visibility(self, history: Sequence[Step]) -> Iterable[tuple[bool, Step]]:
        """Return for each step whether its action is hidden, and the step."""
        state, hidden = self.game.initial_state(), []
        for step in history:
            hidden.append(state.phase in self.hidden_phases)
            state.apply(step.player, step.action)
        # The commitments of an unfinished phase are sealed.
        finished = len(history) - len(state.sealed)
        return zip(hidden[:finished] + [True] * len(state.sealed), history, strict=True)


def _draw(
    state: State, taken: Sequence[Step], player: int, rng: random.Random
) -> list[Step] | None:
    """Apply actions of the same seats, drawn but for those of `player`; None if one is illegal."""
    steps: list[Step] = []
    for step in taken:
        legal = state.legal_actions(step.player)
        is_legal = step.action in legal
        if not legal or (step.player == player and not is_legal):
            return None
        action = step.action
        # The more of the true actions are kept, the sooner the player sees the same.
        if not is_legal or (step.player != player and rng.random() > KEPT):
            action = rng.choice([*legal, *(offer.sample(rng) for offer in legal.speech)])
        state.apply(step.player, action)
        steps.append(Step(step.player, action))
    return steps


def _looks_the_same(true: State, other: State, player: int, since: int) -> bool:
    """Return whether a player saw the same in two positions, after so many events of its own."""
    seen, others = (state.log.witnessed[player][since:] for state in (true, other))
    return seen == others and true.to_act == other.to_act
