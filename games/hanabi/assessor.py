"""Assessment of a game of Hanabi by exact knowledge.

Each seat has its own exact knowledge (`HanabiKnowledge`), which uses the content of hints only, not
the meaning that players may have agreed on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Outcome,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from arena.core.text import per_cent
from games.hanabi.game import Hanabi
from games.hanabi.moves import CardDiscarded, CardPlayed, DiscardSlot, HintGiven, PlaySlot
from games.hanabi.posterior import CERTAIN
from games.hanabi.table import HanabiKnowledge, HanabiTable, replace_hand

MEASURES: tuple[Measure, ...] = (
    Measure(
        "certain_plays",
        "certain plays",
        "share",
        "higher",
        "Cards played that fitted for certain, by the player's exact knowledge without the meaning "
        "of conventions; over cards played.",
    ),
    Measure(
        "play_probability",
        "probability of plays",
        "probability",
        "higher",
        "Exact probability, in the player's view, that the card it played would fit; over cards "
        "played. Plays that trust a convention have a low probability here and still fit.",
    ),
    Measure(
        "fitting_plays",
        "plays that fitted",
        "share",
        "higher",
        "Cards played that fitted, over cards played.",
    ),
    Measure(
        "certain_taken",
        "certain plays taken",
        "share",
        None,
        "Turns in which a card was played that fitted for certain, over turns in which the player "
        "held such a card.",
    ),
    Measure(
        "discard_risk",
        "risk of discards",
        "probability",
        "lower",
        "Exact probability, in the player's view, that the card it discarded was the last copy of "
        "a card that could still score; over discards.",
    ),
    Measure(
        "hint_bits",
        "bits per hint",
        "bits per hint",
        "higher",
        "Entropy of the receiver's hand, in its own exact view, before the hint minus after it; "
        "over hints.",
    ),
    Measure(
        "lives_lost",
        "lives lost",
        "lives per game",
        "lower",
        "Plays of the seat that did not fit, per game.",
    ),
)

FACTS: dict[str, Fact] = {
    "probability": Fact(
        "%", "probability that the played card fits, in the seat's exact view", ranks="plays"
    ),
    "best": Fact("%", "probability that the likeliest slot fits", of_position=True),
    "risk": Fact("%", "probability that the discarded card is the last copy of a needed card"),
    "useless": Fact("%", "probability that the discarded card can no longer score"),
    "bits": Fact("bits", "information of the hint about the receiver's hand"),
}
"""Descriptions of the facts of assessments, by name."""

Facts = dict[str, float]
SMALL = 0.005
"""Smaller differences of probabilities are not mentioned."""


@dataclass(slots=True)
class SeatRecord:
    """Record of one seat: its knowledge, its entropies and its wrong plays."""

    knowledge: HanabiKnowledge
    entropy_dealt: float | None = None
    """Entropy of the own hand after the deal, in bits."""
    entropy_end: float = 0.0
    """Entropy of the own hand at the latest own decision."""
    misplays: int = 0


class HanabiAssessor(SeatAssessor):
    """Assessor of one game; its kinds are `play`, `discard`, `hint`, `lives` and `knowledge`."""

    game: Hanabi

    def _begin(self) -> None:
        # A hint is assessed by the knowledge of its receiver, who may be any seat.
        known = range(self.game.num_players) if self._wants("hint") else self._assessed
        self._seats = {player: SeatRecord(HanabiKnowledge(self.game, player)) for player in known}

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return its assessments."""
        self._latest_ply = ply.number
        judged = ply.player != CHANCE and ply.player in self._assessed
        # Plays and discards are judged in the position before the ply, hints by the change.
        made = self._judge(ply) if judged else None
        self._update(ply)
        return [made] if made else []

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessments of the whole game: lives lost, and knowledge."""
        assessments, number = list[Assessment](), self._latest_ply
        for player in self._assessed:
            seat = self._seats[player]
            if self._wants("lives"):
                lost = {"lives_lost": WeightedSum(float(seat.misplays))}
                assessments.append(Assessment(number, player, "lives", measurements=lost))
            if self._wants("knowledge") and seat.entropy_dealt is not None:
                knowledge = self._knowledge_of(player, seat.entropy_dealt, seat.entropy_end)
                assessments.append(knowledge)
        return assessments

    def appraise(self, player: int, action: Action) -> Mapping[str, JsonValue]:
        """Return the facts of a play or discard that `player` may make now; {} for hints."""
        seat = self._seats.get(player)
        if player not in self._assessed or seat is None:
            return {}
        in_hand = len(seat.knowledge.table.hands[player])
        match action:
            case PlaySlot(slot) if slot <= in_hand:
                return _play_facts(seat.knowledge, slot)
            case DiscardSlot(slot) if slot <= in_hand:
                return _discard_facts(seat.knowledge, slot)
        return {}

    def _judge(self, ply: Ply) -> Assessment | None:
        """Return the assessment of a player's move; None if its kind is not wanted."""
        seat = self._seats[ply.player]
        if self._wants("knowledge"):
            seat.entropy_end = seat.knowledge.entropy()
        for event in ply.events:
            # A move causes exactly one of these events; draws are plies of chance.
            match event:
                case CardPlayed(slot=slot, fits=fits):
                    seat.misplays += not fits
                    if self._wants("play"):
                        facts = _play_facts(seat.knowledge, slot)
                        return self._assess(ply, "play", facts, _of_play(facts, fits))
                case CardDiscarded(slot=slot) if self._wants("discard"):
                    facts = _discard_facts(seat.knowledge, slot)
                    measured = {"discard_risk": WeightedSum(facts["risk"])}
                    return self._assess(ply, "discard", facts, measured)
                case HintGiven(target=target) if self._wants("hint"):
                    # A copy takes the hint in; the knowledge of the seat itself follows later.
                    knowledge = self._seats[target].knowledge
                    after = knowledge.table.with_hint(event).posterior().entropy()
                    facts = {"bits": knowledge.entropy() - after}
                    # Bits of the receiver, credited to the player who spent the token.
                    measured = {"hint_bits": WeightedSum(facts["bits"])}
                    return self._assess(ply, "hint", facts, measured)
        return None

    def _assess(
        self, ply: Ply, kind: str, facts: Facts, measured: dict[str, WeightedSum]
    ) -> Assessment:
        """Return an assessment; it also counts whether a card that fits for certain was played."""
        if max(_fit_chances(self._seats[ply.player].knowledge)) > CERTAIN:
            # The weight is 1 only if there was such a card, so the value is a share of these turns.
            taken = kind == "play" and facts["probability"] > CERTAIN
            measured["certain_taken"] = WeightedSum(float(taken))
        return Assessment(ply.number, ply.player, kind, dict(facts), measured)

    def _update(self, ply: Ply) -> None:
        """Let each seat take in the events that it witnesses."""
        for player, seat in self._seats.items():
            for event in ply.events:
                if event.seen_by(player):
                    seat.knowledge.update(event)
            # The first ply is the deal, after which the hands are known to the others.
            if seat.entropy_dealt is None and player in self._assessed and self._wants("knowledge"):
                seat.entropy_dealt = seat.knowledge.entropy()


def _fit_chances(knowledge: HanabiKnowledge) -> list[float]:
    """Return for each own slot the probability that its card fits now."""
    fits: list[float] = (knowledge.marginals @ knowledge.table.playable).tolist()
    return fits


def _play_facts(knowledge: HanabiKnowledge, slot: int) -> Facts:
    fits = _fit_chances(knowledge)
    return {"probability": fits[slot - 1], "best": max(fits)}


def _discard_facts(knowledge: HanabiKnowledge, slot: int) -> Facts:
    row, table = knowledge.marginals[slot - 1], knowledge.table
    # Both are sums of the slot's probabilities over a set of kinds.
    useless = ~np.array(table.needed)
    return {"risk": float(row @ table.critical), "useless": float(row @ useless)}


def _of_play(facts: Facts, fits: bool) -> dict[str, WeightedSum]:
    """Return the contributions of one play to the measures."""
    return {
        # Each has the weight 1, so that the values are means over plays.
        "certain_plays": WeightedSum(float(facts["probability"] > CERTAIN)),
        "play_probability": WeightedSum(facts["probability"]),
        "fitting_plays": WeightedSum(float(fits)),
    }


DECISION_KINDS = {
    "play": DecisionKind.of_measure(
        "play_probability", "probability", "probability that the card fits", "plays"
    ),
    "discard": DecisionKind.of_measure(
        "discard_risk",
        "probability",
        "minus the probability that a last copy is lost",
        "discards",
        sign=-1,
    ),
    "hint": DecisionKind.of_measure(
        "hint_bits", "bits", "information of the hint for its receiver", "hints"
    ),
}


class HanabiAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Hanabi."""

    game: Hanabi

    facts = FACTS
    measures = MEASURES
    decision_kinds = DECISION_KINDS
    knowledge_type = HanabiKnowledge
    assessor_type = HanabiAssessor

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return an assessment as text for a viewer; None if there is nothing to report."""
        facts = {
            name: value for name, value in assessment.facts.items() if isinstance(value, float)
        }
        match assessment.kind:
            case "play":
                chance, best = facts["probability"], facts["best"]
                text = f"By exact knowledge the card fits with {per_cent(chance)}"
                if best > chance + SMALL:
                    text += f"; another slot has {per_cent(best)}"
                # A play that trusts a convention may be good at a low probability.
                return Comment(f"{text}.", mistake=chance < SMALL)
            case "discard":
                text = (
                    "The discard was the last copy of a needed card with "
                    f"{100 * facts['risk']:.0f} %, and useless with {100 * facts['useless']:.0f} %."
                )
                return Comment(text, mistake=facts["risk"] > CERTAIN)
            case "hint":
                return Comment(
                    f"The hint gives {facts['bits']:.2f} bits about the hand.", omniscient=True
                )
        return None

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the cards of the own hand again, from their exact distribution.

        Everything else that is in a history, the player has seen: other hands, cards that were
        played or discarded, and all moves.
        """
        if not history:
            return []
        # First pass, over the real history: what the player has seen.
        state = self.game.initial_state().apply_all(history)
        table = HanabiTable(self.game, player)
        for event in state.log.witnessed[player]:
            table.update(event)
        # The deck has no order yet, so only the own hand is hidden.
        hand = [self.game.deck.kinds[kind] for kind in table.posterior().sample(rng)]
        return replace_hand(self.game, history, player, hand)
