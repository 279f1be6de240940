"""Exact knowledge of the own hand in Hanabi, and judgements of play by it.

Knowledge uses the content of hints only, not the meaning that players may have agreed on: why
others gave a hint, or did not, is not evidence.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log2, perm

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    Event,
    GameAnalysis,
    Measure,
    Outcome,
    Placement,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from arena.core.text import per_cent
from games.hanabi.deck import Kinds, flags
from games.hanabi.notes import HanabiNotes
from games.hanabi.rules import (
    CardDiscarded,
    CardPlayed,
    DiscardSlot,
    DrawCard,
    Hanabi,
    HanabiDeal,
    HintGiven,
    PlaySlot,
)

CERTAIN = 1 - 1e-9
"""Probabilities are ratios of integers; this allows for rounding."""

# Hand posterior

Counts = NDArray[np.int64]
"""A number for each set of slots, as bits, along the last axis: a set function."""
FALLING = np.array([[perm(copies, taken) for taken in range(6)] for copies in range(4)])
"""Ways to put different copies of one kind into that many slots, by the number of its copies."""


@cache
def _disjoint(slots: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return all pairs of disjoint sets of slots, ordered by union, and where each union begins."""
    sets = range(1 << slots)
    pairs = sorted((one | other, one, other) for one in sets for other in sets if not one & other)
    unions, first, second = np.array(pairs, dtype=np.intp).T
    return first, second, np.searchsorted(unions, sets)


def _combine(one: Counts, other: Counts, slots: int) -> Counts:
    """Return for each set the sum, over its splits into two parts, of the product of both counts.

    It counts the ways to fill a set of slots with cards of two groups of kinds.
    """
    first, second, starts = _disjoint(slots)
    combined: Counts = np.add.reduceat(one[..., first] * other[..., second], starts, axis=-1)
    return combined


def _combine_all(counts: Counts, slots: int) -> Counts:
    """Return the combination of all rows."""
    while len(counts) > 1:
        halves = _combine(counts[0:-1:2], counts[1::2], slots)
        counts = np.concatenate((halves, counts[-1:])) if len(counts) % 2 else halves
    combined: Counts = counts[0]
    return combined


class HandPosterior:
    """Exact distribution of a hand that its owner does not see.

    The unseen cards (the own hand and the deck) are in uniformly random order. So each assignment
    of different physical cards to the slots that agrees with the hints has the same probability.
    For each kind, the assignments of its cards to exactly a set of slots are a set function; that
    of several kinds is their combination (subset convolution).

    Args:
        unseen: Copies of each kind that are in the hand or in the deck.
        allowed: Kinds that the hints allow in each slot.

    Raises:
        ValueError: No hand agrees with the hints.
    """

    def __init__(self, unseen: Sequence[int], allowed: Sequence[Kinds]) -> None:
        self.unseen, self.allowed = np.array(unseen), tuple(allowed)
        slots, full = len(self.allowed), (1 << len(self.allowed)) - 1
        # Whether all slots of a set allow a kind; shape (kinds, sets).
        fits = np.ones((len(unseen), full + 1), dtype=np.int64)
        for slot, kinds in enumerate(self.allowed):
            row = np.frombuffer(flags(kinds, len(unseen)), np.int8)[:, None]
            # The sets with this slot as the highest one are the lower sets plus the slot.
            fits[:, 1 << slot : 2 << slot] = fits[:, : 1 << slot] * row
        sizes = [each.bit_count() for each in range(full + 1)]
        self._falling = FALLING[self.unseen][:, sizes]
        ways = fits * self._falling
        every = _combine_all(ways, slots)
        self.assignments = int(every[full])
        """Number of assignments of physical cards to the slots."""
        if self.assignments <= 0:
            raise ValueError("no hand agrees with the hints and the cards that were seen")
        # The ways of all other kinds: those of all kinds, combined with the inverse of one. The
        # inverse of 1 + x is 1 - x (1 - x (…)), with as many steps as slots.
        one = np.eye(1, full + 1, dtype=np.int64)
        inverse, rest = one, ways - one
        for _ in range(slots):
            inverse = one - _combine(rest, inverse, slots)
        others = _combine(every[None], inverse, slots)
        self._exactly = ways * others[:, ::-1]
        """Assignments in which a kind fills exactly a set of slots; the reversed order has the
        complement of each set."""
        self._is_way = (ways > 0).astype(np.int64)
        member = np.array([[each >> slot & 1 for each in range(full + 1)] for slot in range(slots)])
        self.marginals: NDArray[np.float64] = (
            member.reshape(slots, full + 1) @ self._exactly.T / self.assignments
        )
        """The probability of each kind in each slot; shape (slots, kinds)."""

    def entropy(self) -> float:
        """Return the entropy of the hand, as a sequence of kinds, in bits.

        A sequence with k(c) cards of kind c has the probability prod_c u(c)_k(c) / N, where
        u_k = u (u-1) … (u-k+1) and u(c) are the unseen copies. So the entropy is

            H = log2 N - sum_c E[log2 u(c)_k(c)].
        """
        known = (self._exactly * np.log2(np.maximum(self._falling, 1))).sum() / self.assignments
        return max(0.0, log2(self.assignments) - float(known))

    def hand_count(self) -> int:
        """Return the number of possible hands, as sequences of kinds."""
        return int(_combine_all(self._is_way, len(self.allowed))[-1])

    def sample(self, rng: random.Random) -> list[int]:
        """Draw a hand: the number of the kind in each slot."""
        allowed, kinds = list(self.allowed), list[int]()
        for slot in range(len(allowed)):
            # Given the slots before it, which are fixed in `allowed`.
            chances = HandPosterior(self.unseen.tolist(), allowed).marginals[slot].tolist()
            kinds += rng.choices(range(len(chances)), chances)
            allowed[slot] = 1 << kinds[-1]
        return kinds


class HanabiKnowledge(HanabiNotes):
    """The notes of one player, and the exact distribution of its own hand.

    It follows from the cards that the player sees, the cards that are gone, and the hints.
    """

    _posterior: HandPosterior | None = None

    def update(self, event: Event) -> None:
        super().update(event)
        self._posterior = None

    @property
    def posterior(self) -> HandPosterior:
        """The distribution of the own hand now, computed on demand."""
        if self._posterior is None:
            hand = [held.kinds for held in self.hands[self.player]]
            self._posterior = HandPosterior(self.unseen, hand)
        return self._posterior

    def chances(self, kinds: Kinds) -> NDArray[np.float64]:
        """Return for each own slot the probability that its card is of one of these kinds."""
        row = np.frombuffer(flags(kinds, len(self.gone)), bool)
        # Row by row: the order of a sum decides its last digit.
        return np.array([chances @ row for chances in self.posterior.marginals])

    def entropy(self) -> float:
        """Return the entropy of the own hand, as a sequence of kinds, in bits."""
        return self.posterior.entropy()

    def world_count(self) -> int:
        """Return the number of possible own hands, as sequences of kinds."""
        return self.posterior.hand_count()

    def placement(self) -> Placement:
        """Return for each slot the probability that its card fits now, later, or never.

        An empty slot has no row.
        """
        now, size = self.prospects, self.game.hand_size
        later = self.everything & ~now.fitting & ~now.useless
        columns = [self.chances(kinds).tolist() for kinds in (now.fitting, later, now.useless)]
        slots = tuple(f"slot {slot}" for slot in range(1, size + 1))
        places = ("fits now", "fits later", "useless")
        return Placement(slots, ("own hand",) * size, places, tuple(zip(*columns, strict=True)))


# Assessment

MEASURES: tuple[Measure, ...] = (
    Measure(
        "play_probability",
        "probability of plays",
        "probability",
        "higher",
        "Exact probability, in the player's view, that the card it played would fit; over cards "
        "played. Plays that trust a convention have a low probability here and still fit.",
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
    "best": Fact("%", "probability that the likeliest slot fits"),
    "risk": Fact("%", "probability that the discarded card is the last copy of a needed card"),
    "useless": Fact("%", "probability that the discarded card can no longer score"),
    "bits": Fact("bits", "information of the hint about the receiver's hand"),
}
"""Descriptions of the facts of assessments, by name."""

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
        # Plays and discards are judged in the position before the ply, hints by the change.
        made = self._judge(ply) if ply.player in self._assessed else []
        for player, seat in self._seats.items():
            for event in ply.events:
                if event.seen_by(player):
                    seat.knowledge.update(event)
            # The first ply is the deal, after which the hands are known to the others.
            if seat.entropy_dealt is None and self._wants("knowledge", player):
                seat.entropy_dealt = seat.knowledge.entropy()
        return made

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
        if player not in self._assessed:
            return {}
        knowledge = self._seats[player].knowledge
        in_hand = len(knowledge.hands[player])
        match action:
            case PlaySlot(slot) if slot <= in_hand:
                return _play_facts(knowledge, slot)
            case DiscardSlot(slot) if slot <= in_hand:
                return _discard_facts(knowledge, slot)
        return {}

    def _judge(self, ply: Ply) -> list[Assessment]:
        """Return the assessment of a player's move, if its kind is wanted."""
        seat = self._seats[ply.player]
        if self._wants("knowledge"):
            seat.entropy_end = seat.knowledge.entropy()
        # A move causes exactly one event; draws are plies of chance.
        match ply.events[0]:
            case CardPlayed(slot=slot, fits=fits):
                seat.misplays += not fits
                if not self._wants("play"):
                    return []
                kind, facts = "play", _play_facts(seat.knowledge, slot)
                measured = {"play_probability": facts["probability"]}
            case CardDiscarded(slot=slot) if self._wants("discard"):
                kind, facts = "discard", _discard_facts(seat.knowledge, slot)
                measured = {"discard_risk": facts["risk"]}
            case HintGiven(target=target) if self._wants("hint"):
                # Bits of the receiver, credited to the player who spent the token. A copy takes
                # the hint in; the knowledge of the seat itself follows later.
                before = self._seats[target].knowledge
                after = copy.copy(before)
                after.update(ply.events[0])
                kind, facts = "hint", {"bits": before.entropy() - after.entropy()}
                measured = {"hint_bits": facts["bits"]}
            case _:
                return []
        sums = {name: WeightedSum(value) for name, value in measured.items()}
        return [Assessment(ply.number, ply.player, kind, dict(facts), sums)]


def _play_facts(knowledge: HanabiKnowledge, slot: int) -> dict[str, float]:
    fits: list[float] = knowledge.chances(knowledge.prospects.fitting).tolist()
    return {"probability": fits[slot - 1], "best": max(fits)}


def _discard_facts(knowledge: HanabiKnowledge, slot: int) -> dict[str, float]:
    now = knowledge.prospects
    risk, useless = (knowledge.chances(kinds) for kinds in (now.last_copies, now.useless))
    return {"risk": float(risk[slot - 1]), "useless": float(useless[slot - 1])}


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
        facts: Mapping[str, float] = assessment.facts  # type: ignore[assignment]
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
                    f"{per_cent(facts['risk'])}, and useless with {per_cent(facts['useless'])}."
                )
                return Comment(text, mistake=facts["risk"] > CERTAIN)
            case "hint":
                text = f"The hint gives {facts['bits']:.2f} bits about the hand."
                return Comment(text, omniscient=True)
        return None

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the cards of the own hand again, from their exact distribution.

        Everything else that is in a history, the player has seen: other hands, cards that were
        played or discarded, and all moves. The deck has no order yet.
        """
        if not history:
            return []
        state, knowledge = self.game.initial_state(), HanabiKnowledge(self.game, player)
        for event in state.apply_all(history).log.witnessed[player]:
            knowledge.update(event)
        hand = [self.game.deck.kinds[kind] for kind in knowledge.posterior.sample(rng)]
        return replace_hand(history, player, hand)


def replace_hand(history: Sequence[Step], player: int, hand: Sequence[str]) -> list[Step]:
    """Return a history that deals the player these cards in place of those that it holds now.

    It need not be legal. `hand` begins with the oldest card.
    """
    steps, origins, mover = list(history), list[tuple[int, int]](), 0
    # For each card that the player holds: the step that dealt it, and its place there.
    for number, step in enumerate(history):
        match step.action:
            case HanabiDeal(hands):
                origins = [(number, place) for place in range(len(hands[player]))]
            # The player who has moved last draws.
            case DrawCard() if mover == player:
                origins.append((number, 0))
            case PlaySlot(slot) | DiscardSlot(slot) if step.player == player:
                # The newer cards move down, as in the hand.
                del origins[slot - 1]
        if step.player != CHANCE:
            mover = step.player
    # Cards that were played or discarded stay: all players have seen them.
    for (number, place), card in zip(origins, hand, strict=True):
        action: Action = DrawCard(card)
        if isinstance(dealt := steps[number].action, HanabiDeal):
            cards = dealt.hands[player]
            cards = (*cards[:place], card, *cards[place + 1 :])
            action = HanabiDeal((*dealt.hands[:player], cards, *dealt.hands[player + 1 :]))
        steps[number] = Step(CHANCE, action)
    return steps
