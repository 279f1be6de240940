"""Assessment of the moves of Leduc hold'em by exact probabilities and the equilibrium."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pydantic import JsonValue

from arena import (
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Outcome,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.action import CHANCE
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from games.leduc_poker.knowledge import (
    LeducKnowledge,
    equilibrium,
    move_values,
    own_key,
    showdown_chances,
)
from games.leduc_poker.rules import LETTERS, DealHoleCards, LeducPoker, LeducShowdown, card_chances

FACTS: dict[str, Fact] = {
    "share": Fact("%", "expected share of the pot, against a random hand", of_position=True),
    "price": Fact("%", "share of the pot above which a call pays", of_position=True),
    "equilibrium": Fact("%", "probability of the move in the equilibrium"),
}
"""Descriptions of the facts of assessments, by name."""

ACCURACY = 0.01
"""Chips below which a difference of values is an error of the bundled equilibrium."""

MEASURES: tuple[Measure, ...] = (
    Measure(
        "equilibrium_probability",
        "probability of own moves in equilibrium",
        "probability",
        "higher",
        "Probability that the bundled approximate equilibrium takes the same move; over moves with "
        "the default options. An equilibrium that mixes has less than 1 itself.",
    ),
    Measure(
        "value_lost",
        "chips lost by own moves",
        "chips per move",
        "lower",
        "Expected chips of the best legal move minus those of the move, against the bundled "
        "equilibrium, with best responses later on; over moves with the default options. The luck "
        "of the cards is not in it. Less than 0.01 chips, the accuracy of the equilibrium, is 0.",
    ),
    Measure(
        "calls_paid",
        "calls at a fair price",
        "share",
        "higher",
        "Calls whose expected share of the pot at a showdown, against a player who moves at "
        "random, was at least the price; over calls of a raise.",
    ),
    Measure(
        "best_hand_folded",
        "unbeatable hands folded",
        "share",
        "lower",
        "Folds of a pair, which no other hand can beat; over moves in answer to a raise while the "
        "seat held a pair.",
    ),
)


class LeducAssessor(SeatAssessor):
    """Assessor of one hand; its kinds are `move` and `knowledge`."""

    game: LeducPoker

    def _begin(self) -> None:
        self._knowledge = {seat: LeducKnowledge(self.game, seat) for seat in self._assessed}
        self._entropies: dict[int, list[float]] = {seat: [] for seat in self._assessed}
        """Entropy of each seat after the deal, and at each of its decisions, in bits."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return its assessment if it was a decision."""
        found = list[Assessment]()
        knowledge = self._knowledge.get(ply.player)
        if knowledge:
            # Judged before the events of the ply, in the position of the decision.
            self._entropies[ply.player].append(knowledge.entropy())
            if self._wants("move"):
                found.append(_judge(ply, knowledge))
        for seat, known in self._knowledge.items():
            for event in ply.events:
                if event.seen_by(seat):
                    known.update(event)
            # The first entry is the entropy after the deal of hole cards.
            if ply.player == CHANCE and not self._entropies[seat]:
                self._entropies[seat].append(known.entropy())
        self._latest_ply = ply.number
        return found

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the entropies of each seat. This changes nothing."""
        if not self._wants("knowledge"):
            return []
        return [
            self._knowledge_of(seat, entropies[0], entropies[-1])
            for seat, entropies in self._entropies.items()
            if entropies
        ]


def _judge(ply: Ply, knowledge: LeducKnowledge) -> Assessment:
    notes, move = knowledge.notes, LETTERS[ply.decision.action]
    betting, share = notes.betting, showdown_chances(notes).share
    facts: dict[str, JsonValue] = {"move": move, "share": share}
    measured = dict[str, WeightedSum]()
    if notes.game.is_solved:
        facts["equilibrium"] = usual = equilibrium()[own_key(notes)].get(move, 0.0)
        measured["equilibrium_probability"] = WeightedSum(usual)
        values = move_values()[own_key(notes)]
        lost = max(values.values()) - values[move]
        measured["value_lost"] = WeightedSum(lost if lost >= ACCURACY else 0.0)
    if betting.price:
        # A call of c chips into a pot of p pays if share * (p + c) >= c.
        facts["price"] = price = betting.price / (betting.pot + betting.price)
        if move == "c":
            measured["calls_paid"] = WeightedSum(float(share >= price))
        # A pair cannot be beaten or tied: both copies are in sight.
        if notes.own == notes.board:
            measured["best_hand_folded"] = WeightedSum(float(move == "f"))
    return Assessment(ply.number, ply.player, "move", facts, measured)


def _percent(value: JsonValue) -> float:
    return 100 * float(value) if isinstance(value, int | float) else 0.0


DECISION_KINDS = {
    "move": DecisionKind.of_measure(
        "equilibrium_probability",
        "probability",
        "probability of the move in the equilibrium",
        "moves",
    ),
}


class LeducAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Leduc hold'em."""

    game: LeducPoker

    facts = FACTS
    measures = MEASURES
    decision_kinds = DECISION_KINDS
    knowledge_type = LeducKnowledge
    assessor_type = LeducAssessor

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the comment on a move. It uses only what the seat could know."""
        facts = assessment.facts
        if assessment.kind != "move":
            return None
        share = _percent(facts["share"])
        text = f"Expected share of the pot against a random hand: {share:.0f} %."
        if "price" in facts:
            text += f" A call pays above {_percent(facts['price']):.0f} %."
        if "equilibrium" in facts:
            text += f" In equilibrium this move has {_percent(facts['equilibrium']):.0f} %."
        # Only a hand that cannot lose makes a fold a mistake for certain.
        return Comment(text, mistake=facts["move"] == "f" and share == 100)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the others' cards again that no showdown has revealed."""
        state, steps = self.game.initial_state().apply_all(history), list(history)
        if not steps:
            return steps
        cards, events = list(state.cards), state.log.events
        shown = next((e.cards for e in events if isinstance(e, LeducShowdown)), ())
        hidden = [n for n in range(len(cards)) if n != player and not (shown and shown[n])]
        seen = [card for n, card in enumerate(cards) if n not in hidden]
        # One of the copies that neither the player nor the board has, one by one.
        seen += filter(None, (state.board,))
        for seat in hidden:
            chances = card_chances(tuple(seen), self.game.deck)
            (cards[seat],) = rng.choices(list(chances), list(chances.values()))
            seen.append(cards[seat])
        # Chance on the board and all moves stay as they were: they were public.
        steps[0] = Step(CHANCE, DealHoleCards(tuple(cards)))
        return steps
