"""Analysis of hidden-role games by exact knowledge: judged choices and talk, worlds drawn again."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

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
)
from games.hidden_roles.talk import MOST_WORLDS, Listener, RoleTalk, true_minority

ROLE_TALK_KINDS = TALK_KINDS | {"detection"}
ATTEMPTS = 1000
"""Draws of the hidden actions between two public moves, and of whole histories."""
KEPT = 0.7
"""Share of the other seats' legal actions that a draw keeps."""
ROLE_FACTS: Mapping[str, Fact] = {
    "probability": Fact("probability", "exact probability, in this seat's view, of what it chose"),
    "best": Fact("probability", "the highest such probability of a legal choice"),
    **STATEMENT_FACTS,
    "level1_bits": Fact("bits", "how far the statement moves cautious listeners to the truth"),
    "entropy_dealt": Fact("bits", "uncertainty about the roles after the deal"),
    "entropy_end": Fact("bits", "uncertainty about the roles at the end, before they are shown"),
}
EFFECT_MEASURES = (
    Measure(
        "level1_bits",
        "statements move cautious listeners",
        "bits per statement",
        None,
        "Mean over the listeners of the majority who do not know all sides, in bits of log2 of the "
        "probability of the true minority; they weigh statements by each side's rates.",
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


class RoleAssessor(TalkAssessor):
    """Assessor of one game: choices, which the analysis of the game judges, talk and knowledge.

    Beyond `TALK_KINDS` it has the kinds of the game, `detection` and `knowledge`.
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
        seats = range(self.game.num_players)
        self._listeners = {seat: Listener(self.talk) for seat in seats}

    def ply(self, ply: Ply) -> list[Assessment]:
        """Judge the next ply; return the assessments that are possible now."""
        player, action = ply.player, ply.decision.action
        # Judged before the ply is applied, by what the seat knew when it decided.
        choice = None
        if player in self._assessed:
            choice = self._judge(self._state, self._knowledge[player], ply)
        found = [choice] if choice and self._wants(choice.kind) else []
        self._state.apply(player, action)
        found += super().ply(ply)
        found += (e for e in self._vote(player, action) if self._wants(e.kind, e.player))
        return found

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
        measured = {**found.measurements}
        if "lies" in measured:
            measured |= self._by_role("lies", player, measured["lies"])
        if found.facts.get("truth") == "honest" and "level1_bits" in effect:
            measured["misleading_truths"] = WeightedSum(float(effect["level1_bits"] < -1e-9))
        return replace(found, measurements=measured)

    def _effect(self, speaker: int, statement: Action) -> Mapping[str, float]:
        """Return the mean change of the listeners' score of the true minority."""
        if not self._wants("statement"):
            return {}
        bits, teams = list[float](), self._state.teams()
        for seat, listener in self._listeners.items():
            if seat == speaker or teams[seat] or self._state.is_out(seat):
                continue
            worlds = self._knowledge[seat].worlds
            if worlds.shape[1] > MOST_WORLDS:
                return {}
            is_true = true_minority(self.game, worlds, self._state.dealt)
            before = float(listener.weights(worlds) @ is_true)
            listener.hear(speaker, statement)
            after = float(listener.weights(worlds) @ is_true)
            # A listener who knows all sides cannot be moved.
            if not is_true.all():
                bits.append(math.log2(after / before))
        return {"level1_bits": math.fsum(bits) / len(bits)} if bits else {}


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
