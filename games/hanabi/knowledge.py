"""Exact knowledge of the own hand in Hanabi, and judgements of play by it.

Knowledge uses the content of hints only, not the meaning that players may have agreed on: why
others gave a hint, or did not, is not evidence.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from functools import cache
from math import log2, perm

import numpy as np
from numpy.typing import NDArray

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    Event,
    GameAnalysis,
    Measure,
    Placement,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from arena.core.text import per_cent
from games.hanabi.deck import Kinds
from games.hanabi.notes import HanabiNotes
from games.hanabi.rules import (
    DiscardSlot,
    DrawCard,
    Hanabi,
    HanabiDeal,
    Hint,
    HintGiven,
    PlaySlot,
)

CERTAIN = 1 - 1e-9
"""Probabilities are ratios of integers; this allows for rounding."""

# Hand posterior

Counts = NDArray[np.float64]
"""A number for each set of slots, as bits. All are whole and far below 2**53, so they are exact."""


@cache
def _remainders(sets: int) -> NDArray[np.intp]:
    """Return the slots that a part (column) leaves of a set (row); -1 if it is no part of it."""
    parts = np.arange(sets)
    rows = parts[:, None]
    return np.where(rows & parts == parts, rows ^ parts, -1)


def _adders(ways: Counts) -> Counts:
    """Return a matrix for each row of ways in which some kinds of cards fill each set of slots.

    It turns the ways of other kinds into those of both: a sum over the parts that the others fill.
    """
    # The last column, 0, is for what is no part of a set.
    padded = np.pad(ways, ((0, 0), (0, 1)))
    adders: Counts = padded[:, _remainders(ways.shape[1])]
    return adders


def _of_first_kinds(ways: Counts) -> Counts:
    """Return the ways to fill each set with the first 0, 1, 2 … kinds; one row for each number."""
    rows = [np.eye(1, ways.shape[1])[0]]
    for adder in _adders(ways):
        rows.append(adder @ rows[-1])
    return np.array(rows)


class HandPosterior:
    """Exact distribution of a hand that its owner does not see.

    The unseen cards (the own hand and the deck) are in uniformly random order. So each assignment
    of different physical cards to the slots that agrees with the hints has the same probability.
    The u cards of one kind fill exactly a set of k slots that allow it in u (u-1) … (u-k+1) ways;
    those of several kinds are combined kind by kind, for all sets of slots.

    Args:
        unseen: Copies of each kind that are in the hand or in the deck.
        allowed: Kinds that the hints allow in each slot.

    Raises:
        ValueError: No hand agrees with the hints.
    """

    def __init__(self, unseen: Sequence[int], allowed: Sequence[Kinds]) -> None:
        self.unseen, self.allowed = unseen, tuple(allowed)
        slots, sets = len(allowed), range(1 << len(allowed))
        self._ways: Counts = np.zeros((len(unseen), len(sets)))
        for kind, copies in enumerate(unseen):
            closed = sum(1 << slot for slot, kinds in enumerate(allowed) if not kinds >> kind & 1)
            self._ways[kind] = [0 if s & closed else perm(copies, s.bit_count()) for s in sets]
        before, after = _of_first_kinds(self._ways), _of_first_kinds(self._ways[::-1])[::-1]
        self.assignments = int(before[-1, -1])
        """Number of assignments of physical cards to the slots."""
        if self.assignments <= 0:
            raise ValueError("no hand agrees with the hints and the cards that were seen")
        others = (_adders(after[1:]) @ before[:-1, :, None])[..., 0]
        self._exactly = self._ways * others[:, ::-1]
        """Assignments in which a kind fills exactly a set of slots; the reversed order has the
        complement of each set."""
        member = np.arange(len(sets)) >> np.arange(slots)[:, None] & 1
        self.marginals: NDArray[np.float64] = member @ self._exactly.T / self.assignments
        """The probability of each kind in each slot; shape (slots, kinds)."""

    def entropy(self) -> float:
        """Return the entropy of the hand, as a sequence of kinds, in bits.

        A sequence with k(c) cards of kind c has the probability prod_c u(c)_k(c) / N, where
        u_k = u (u-1) … (u-k+1) and u(c) are the unseen copies. So the entropy is

            H = log2 N - sum_c E[log2 u(c)_k(c)].
        """
        known = (self._exactly * np.log2(np.maximum(self._ways, 1))).sum() / self.assignments
        return max(0.0, log2(self.assignments) - float(known))

    def hand_count(self) -> int:
        """Return the number of possible hands, as sequences of kinds."""
        # Equal cards fill a set of slots in one way.
        return int(_of_first_kinds(np.sign(self._ways))[-1, -1])

    def sample(self, rng: random.Random) -> list[int]:
        """Draw a hand: the number of the kind in each slot."""
        allowed, kinds = list(self.allowed), list[int]()
        for slot in range(len(allowed)):
            # Given the slots before it, which are fixed in `allowed`.
            chances = HandPosterior(self.unseen, allowed).marginals[slot].tolist()
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
        row = kinds >> np.arange(len(self.gone)) & 1
        # Row by row: the order of a sum decides its last digit.
        return np.array([chances @ row for chances in self.posterior.marginals])

    def entropy(self) -> float:
        return self.posterior.entropy()

    def world_count(self) -> int:
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
)

FACTS = {
    "probability": Fact(
        "%", "probability that the played card fits, in the seat's exact view", ranks="plays"
    ),
    "best": Fact("%", "probability that the likeliest slot fits"),
    "risk": Fact("%", "probability that the discarded card is the last copy of a needed card"),
    "useless": Fact("%", "probability that the discarded card can no longer score"),
    "bits": Fact("bits", "information of the hint about the receiver's hand"),
}

DECISION_KINDS = {
    "play": DecisionKind.of_measure("play_probability", "probability that the card fits", "plays"),
    "discard": DecisionKind.of_measure(
        "discard_risk", "minus the probability that a last copy is lost", "discards", sign=-1
    ),
    "hint": DecisionKind.of_measure(
        "hint_bits", "information of the hint for its receiver", "hints"
    ),
}
JUDGED = {
    PlaySlot: ("play", "play_probability", "probability"),
    DiscardSlot: ("discard", "discard_risk", "risk"),
    Hint: ("hint", "hint_bits", "bits"),
}
"""Kind of assessment, measure, and the fact that it sums, by the class of the move."""
SMALL = 0.005
"""Smaller differences of probabilities are not mentioned."""


class HanabiAssessor(SeatAssessor):
    """Assessor of one game; its kinds are `play`, `discard`, `hint` and `knowledge`."""

    game: Hanabi

    def _begin(self) -> None:
        # A hint is assessed by the knowledge of its receiver, who may be any seat.
        known = range(self.game.num_players) if self._wants("hint") else self._assessed
        self._knowledge = {player: HanabiKnowledge(self.game, player) for player in known}

    def _judge_decision(self, ply: Ply, knowledge: HanabiKnowledge) -> list[Assessment]:
        kind, measure, fact = JUDGED[type(ply.decision.action)]
        if not self._wants(kind, ply.player):
            return []
        facts = self.appraise(ply.player, ply.decision.action) or self._hint_facts(ply.events[0])
        sums = {measure: WeightedSum(facts[fact])}
        return [Assessment(ply.number, ply.player, kind, facts, sums)]

    def appraise(self, player: int, action: Action) -> dict[str, float]:
        """Return the facts of a play or discard that `player` may make now; {} for hints."""
        knowledge = self._knowledge[player]
        now = knowledge.prospects
        match action:
            case PlaySlot(slot):
                fits: list[float] = knowledge.chances(now.fitting).tolist()
                return {"probability": fits[slot - 1], "best": max(fits)}
            case DiscardSlot(slot):
                risk, useless = map(knowledge.chances, (now.last_copies, now.useless))
                return {"risk": float(risk[slot - 1]), "useless": float(useless[slot - 1])}
        return {}

    def _hint_facts(self, hint: Event) -> dict[str, float]:
        """Return the bits of the receiver, credited to the player who spent the token."""
        assert isinstance(hint, HintGiven)
        before = self._knowledge[hint.target]
        # A copy takes the hint in; the knowledge of the seat itself follows later.
        after = copy.copy(before)
        after.update(hint)
        return {"bits": before.entropy() - after.entropy()}


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
                other = f"; another slot has {per_cent(best)}" if best > chance + SMALL else ""
                text = f"By exact knowledge the card fits with {per_cent(chance)}{other}."
                # A play that trusts a convention may be good at a low probability.
                return Comment(text, mistake=chance < SMALL)
            case "discard":
                risk, useless = per_cent(facts["risk"]), per_cent(facts["useless"])
                text = f"The discard was the last copy of a needed card with {risk}, and useless"
                return Comment(f"{text} with {useless}.", mistake=facts["risk"] > CERTAIN)
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
        state = self.game.initial_state().apply_all(history)
        notes: HanabiKnowledge = state.observe(player).notes
        hand = [self.game.deck.kinds[kind] for kind in notes.posterior.sample(rng)]
        return replace_hand(history, player, hand)


def replace_hand(history: Sequence[Step], player: int, hand: Sequence[str]) -> list[Step]:
    """Return a history that deals the player these cards in place of those that it holds now.

    It need not be legal. `hand` begins with the oldest card.
    """
    steps, held = list(history), list[str | None](hand)
    # Backwards, so that each card is found in the slot in which it was dealt.
    for number in reversed(range(len(history))):
        match history[number].action:
            case PlaySlot(slot) | DiscardSlot(slot) if history[number].player == player:
                held.insert(slot - 1, None)  # All players have seen this card, so it stays.
            # The player who has moved last draws.
            case DrawCard() if history[number - 1].player == player:
                if card := held.pop():
                    steps[number] = Step(CHANCE, DrawCard(card))
            case HanabiDeal(hands):
                cards = tuple(new or old for new, old in zip(held, hands[player], strict=True))
                dealt = (*hands[:player], cards, *hands[player + 1 :])
                steps[number] = Step(CHANCE, HanabiDeal(dealt))
    return steps
