"""Exact knowledge of one seat of liar's dice, and judgements of bids and challenges by it.

The rules allow every higher bid with any dice. So a bid excludes no hand, and what logically
follows for a seat is: its own dice are known, and the n hidden dice are independent and uniform.
The number of hidden dice that count as a face is binomial,

    P(K >= k) = sum_{i=k}^{n} C(n, i) p^i (1 - p)^(n - i),

with p = 2 / faces if another face is wild, else 1 / faces. What bids suggest, given an assumption
about how others play, is in `games.liars_dice.bots`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

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
from arena.core.analysis import DecisionKind, Fact, GameTalk
from arena.core.text import per_cent, percentage
from arena.evaluation.talk import STATEMENT_FACTS, STATEMENT_MEASURES, TalkAssessor
from games.liars_dice.notes import LiarsDiceNotes
from games.liars_dice.rules import (
    CHALLENGE,
    DiceBid,
    DiceRevealed,
    LiarsDice,
    LiarsDiceState,
    face_name,
    hand_distribution,
)


@lru_cache(maxsize=4096)
def tail(trials: int, chance: float, least: int) -> float:
    """Return the probability of at least `least` successes in independent trials.

    It is exactly 1 for `least` <= 0 and exactly 0 for `least` > `trials`.
    """
    if least <= 0:
        return 1.0
    # An exact sum of few terms: n is at most 36.
    terms = (
        math.comb(trials, i) * chance**i * (1 - chance) ** (trials - i)
        for i in range(least, trials + 1)
    )
    # Rounding must not give a probability above 1.
    return min(1.0, math.fsum(terms))


def match_chance(game: LiarsDice, face: int) -> float:
    """Return p, the probability that a hidden die counts as `face`."""
    # The wild face itself is counted once; each other face also counts the wild ones.
    counting = 1 if game.wild_face in (None, face) else 2
    return counting / game.options.faces


class LiarsDiceKnowledge(LiarsDiceNotes):
    """Notes of one seat with exact probabilities: its own dice, and nothing about the others.

    Example:
        >>> from games.liars_dice.rules import DiceRolled, RoundStarted
        >>> knowledge = LiarsDiceKnowledge(LiarsDice(players=2, dice=1), 0)
        >>> knowledge.update(RoundStarted(1, (1, 1), 0))
        >>> knowledge.update(DiceRolled(0, (6,)))
        >>> knowledge.world_count()
        6
        >>> knowledge.count_probabilities(5)  # None or one of the hidden dice: 5 or wild 6.
        [0.6666666666666667, 0.3333333333333333]
    """

    def probability(self, bid: DiceBid) -> float:
        """Return the exact probability that a bid is true; once all dice are shown, 0 or 1."""
        # Seen dice are certain; only the rest of the bid depends on hidden dice.
        needed = bid.quantity - self.seen_matches(bid.face)
        return tail(sum(self.hidden.values()), match_chance(self.game, bid.face), needed)

    def entropy(self) -> float:
        """Return the uncertainty about the hands of the others, in bits; order does not count."""
        # Hands are independent, so their entropies add up.
        # H = -sum p log2 p, over multisets with their multinomial probabilities.
        return -math.fsum(
            p * math.log2(p)
            for dice in self.hidden.values()
            for _, p in hand_distribution(dice, self.game.options.faces)
        )

    def world_count(self) -> int:
        """Return the number of possible hands of the others; order does not count."""
        faces = self.game.options.faces
        # Multisets of n dice: C(n + faces - 1, n).
        return math.prod(math.comb(n + faces - 1, n) for n in self.hidden.values())

    def count_probabilities(self, face: int) -> list[float]:
        """Return the probability that 0, 1, ... of the others' dice count as `face`."""
        others = sum(n for seat, n in enumerate(self.dice_left) if seat != self.player)
        hidden, chance = sum(self.hidden.values()), match_chance(self.game, face)
        # Dice that a challenge has shown are certain; the binomial is shifted by their matches.
        shown = self.seen_matches(face) - self.game.matches(self.own, face)
        found = [0.0] * (others + 1)
        for k in range(hidden + 1):
            found[shown + k] = math.comb(hidden, k) * chance**k * (1 - chance) ** (hidden - k)
        return found

    def placement(self) -> Placement:
        """Return the distribution of the number of others' dice that count, one row per face."""
        game = self.game
        columns = game.total_dice - game.options.dice + 1
        rows = [self.count_probabilities(face) for face in game.faces]
        return Placement(
            things=tuple(face_name(face) for face in game.faces),
            kinds=("number of the others' dice that count",) * len(rows),
            places=tuple(map(str, range(columns))),
            # Lost dice leave columns of zeros at the end.
            probabilities=tuple((*row, *[0.0] * (columns - len(row)))[:columns] for row in rows),
        )


class LiarsDiceTalk(GameTalk):
    """Bids as statements. A bid that is more probably false than true is a bluff."""

    bluff_below = 0.5

    def statements(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Action]:
        """Return a bid."""
        return (action,) if isinstance(action, DiceBid) else ()

    def probability(
        self, statement: Action, speaker: int, knowledge: LiarsDiceKnowledge
    ) -> float | None:
        """Return the probability that a bid is true, given the bidder's own dice."""
        assert isinstance(statement, DiceBid)
        return knowledge.probability(statement)


# Judgements


FACTS: dict[str, Fact] = {
    "probability": Fact("%", "probability that the bid is true, given the bidder's own dice"),
    "last": Fact("%", "probability that the last bid is true, given own dice"),
    "best": Fact("%", "probability of the likeliest higher bid"),
}
"""Descriptions of the facts of assessments, by name."""

MEASURES: tuple[Measure, ...] = (
    Measure(
        "bid_probability",
        "probability of own bids",
        "probability",
        None,
        "Probability that a bid is true, given the bidder's own dice only; over bids.",
    ),
    Measure(
        "impossible_bids",
        "impossible bids",
        "share",
        "lower",
        "Bids that the bidder's own dice show to be false, over bids of seats that had another "
        "legal action which could win.",
    ),
    Measure(
        "challenges_sound",
        "sound challenges",
        "share",
        "higher",
        "Challenges of bids that were at least as probably false as true, given the challenger's "
        "own dice; over challenges with a choice.",
    ),
    Measure(
        "challenges_missed",
        "missed challenges",
        "share",
        "lower",
        "Bids in answer to a bid that the own dice show to be false, so that a challenge would win "
        "for certain; over answers to such bids.",
    ),
)


class LiarsDiceAssessor(TalkAssessor):
    """Assessor of one game; beside talk, its kinds are `bid`, `challenge` and `knowledge`."""

    game: LiarsDice
    shows_hidden = (DiceRevealed,)

    def _judge_decision(self, ply: Ply, knowledge: LiarsDiceKnowledge) -> list[Assessment]:
        kind = "bid" if isinstance(ply.decision.action, DiceBid) else "challenge"
        return [_judge(ply, knowledge)] if self._wants(kind, ply.player) else []

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the entropy of each seat: bids exclude no hand, so it is that after the roll."""
        entropies = ((seat, self._knowledge[seat].entropy()) for seat in self._dealt)
        return [self._knowledge_of(seat, entropy, entropy) for seat, entropy in entropies]


def _judge(ply: Ply, knowledge: LiarsDiceKnowledge) -> Assessment:
    """Return the assessment of a bid or a challenge."""
    bid, last_bid = ply.decision.action, knowledge.last_bid
    last = None if last_bid is None else knowledge.probability(last_bid)
    best = max(map(knowledge.probability, knowledge.raises), default=None)
    facts: dict[str, JsonValue] = {"last": last, "best": best}
    measured = dict[str, WeightedSum]()
    if isinstance(bid, DiceBid):
        probability = facts["probability"] = knowledge.probability(bid)
        measured["bid_probability"] = WeightedSum(probability)
        # A false bid is no fault if every other action loses as certainly.
        if best or (last is not None and last < 1):
            measured["impossible_bids"] = WeightedSum(float(probability == 0))
    # Without a higher bid the challenge is forced.
    elif best is not None and last is not None:
        measured["challenges_sound"] = WeightedSum(float(last <= 0.5))
    # The last bid could not be true: the opportunity was taken or missed.
    if last == 0 and best is not None:
        measured["challenges_missed"] = WeightedSum(float(bid != CHALLENGE))
    kind = "challenge" if bid == CHALLENGE else "bid"
    return Assessment(ply.number, ply.player, kind, facts, measured)


class LiarsDiceAnalysis(GameAnalysis):
    """Exact knowledge and judgements of liar's dice."""

    game: LiarsDice

    facts: ClassVar[Mapping[str, Fact]] = {**STATEMENT_FACTS, **FACTS}
    measures = (*MEASURES, *STATEMENT_MEASURES)
    decision_kinds: ClassVar = {
        "bid": DecisionKind.of_measure(
            "bid_probability", "probability that the bid is true, by the own dice", "bids"
        ),
        "challenge": DecisionKind.of_measure(
            "challenges_sound",
            "1 if the challenged bid was false with at least 50 %, else 0",
            "challenges",
        ),
    }
    knowledge_type = LiarsDiceKnowledge
    assessor_type = LiarsDiceAssessor

    def consequences(
        self, knowledge: LiarsDiceKnowledge, actions: Collection[Action]
    ) -> dict[Action, str]:
        """Return the chance that each bid is true and a challenge is right, by the own dice."""
        bids = (action for action in actions if isinstance(action, DiceBid))
        values: dict[Action, float] = {bid: knowledge.probability(bid) for bid in bids}
        if knowledge.last_bid and CHALLENGE in actions:
            values[CHALLENGE] = 1 - knowledge.probability(knowledge.last_bid)
        return {
            action: f"{'true' if isinstance(action, DiceBid) else 'right'} with probability "
            f"{percentage(value)}, by your own dice"
            # Rounded, so that equal values stay in the order of the game.
            for action, value in sorted(values.items(), key=lambda item: -round(item[1], 9))
        }

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the comment on a bid or a challenge. It uses only what the seat could know."""
        if assessment.kind not in ("bid", "challenge"):
            return None
        facts = {name: p for name, p in assessment.facts.items() if isinstance(p, float)}
        # Without a last bid, or without a higher one, there is no such fact.
        last, best = facts.get("last"), facts.get("best", 0.0)
        if assessment.kind == "challenge":
            text = f"Challenged a bid that was true with {per_cent(last or 0.0)}, by the own dice."
            return Comment(text, mistake=last == 1 and best > 0)
        probability = facts["probability"]
        text = f"True with {per_cent(probability)}, by the own dice."
        if last is not None:
            text += f" The last bid was true with {per_cent(last)}."
        # A bid is a mistake for certain if a challenge could not fail, or if it cannot be true.
        could_win = best > 0 or (last is not None and last < 1)
        return Comment(text, last == 0 or (probability == 0 and could_win))

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Roll the hands of the other seats again, if they have not been revealed."""
        state, steps = self.game.initial_state(), list[Step]()
        assert isinstance(state, LiarsDiceState)
        # Every challenge reveals all hands that were rolled before it.
        challenges = [n for n, step in enumerate(history) if step.action == CHALLENGE]
        hidden_from = challenges[-1] if challenges else -1
        for number, step in enumerate(history):
            action = step.action
            if step.player == CHANCE and number > hidden_from and state.roller != player:
                action = state.sample_chance(rng)
            state.apply(step.player, action)
            steps.append(Step(step.player, action))
        return steps
