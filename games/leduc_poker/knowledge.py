"""Exact knowledge of one viewer of Leduc hold'em, strategies, and judgements of moves by both.

The declared model of play: the others draw evenly from their legal moves. These do not depend on
their cards, so their moves reveal nothing, and the posterior is that of the unseen copies. This is
also what logically follows from the events.

Strategies are tables: a row of probabilities for each information set. A file has one line per
information set: own card, board card (`-` in the first round), moves so far (rounds parted by `/`),
and the probabilities of fold, call and raise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Observation,
    Placement,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from arena.core.text import per_cent
from games.leduc_poker.notes import LeducKey, LeducNotes
from games.leduc_poker.rules import (
    LETTERS,
    MOVES,
    DealHoleCards,
    LeducPoker,
    LeducShowdown,
    card_chances,
    draws,
    strength,
)


@dataclass(frozen=True, slots=True)
class ShowdownChances:
    """Probabilities of the results if the cards are shown at the end; they add up to 1."""

    win: float
    tie: float

    @property
    def share(self) -> float:
        """Expected share of the pot: a tie gives half of it, as there are two cards of a rank."""
        return self.win + self.tie / 2


class LeducKnowledge(LeducNotes):
    """Notes of one seat with exact probabilities of the cards of the others.

    Example:
        >>> from games.leduc_poker.rules import HoleCardDealt
        >>> knowledge = LeducKnowledge(LeducPoker(), 0)
        >>> knowledge.update(HoleCardDealt(0, "King"))
        >>> knowledge.probabilities(1)
        {'Jack': 0.4, 'Queen': 0.4, 'King': 0.2}
        >>> knowledge.world_count()
        3
    """

    @property
    def _others(self) -> list[int]:
        return [seat for seat in range(self.game.num_players) if seat != self.player]

    @property
    def _seen(self) -> tuple[str, ...]:
        """The cards that the viewer has seen."""
        return (*self.cards.values(), *filter(None, (self.board,)))

    def probabilities(self, other: int) -> dict[str, float]:
        """Return the probability of each card of another player, given all that the viewer saw.

        It is the share of the card among the copies that the viewer has not seen.
        """
        # After a showdown nothing is left to infer.
        if other in self.cards:
            return {self.cards[other]: 1.0}
        return card_chances(self._seen, self.game.deck)

    def placement(self) -> Placement:
        """Return the probabilities of the others' cards as a table, a row for each of them."""
        deck, names = self.game.deck, self.game.seat_names
        chances = map(self.probabilities, self._others)
        return Placement(
            tuple(f"card of {names[other]}" for other in self._others),
            ("hidden card",) * len(self._others),
            deck,
            tuple(tuple(each.get(card, 0.0) for card in deck) for each in chances),
        )

    def entropy(self) -> float:
        """Return the uncertainty about the cards of the other players, in bits."""
        # H = -sum p log2 p; cards of probability 0 are not listed.
        return math.fsum(-p * math.log2(p) for _, p in self._hands(self._others))

    def world_count(self) -> int:
        """Return the number of cards that the others may have; suits do not count."""
        return sum(1 for _ in self._hands(self._others))

    def _hands(self, seats: Sequence[int]) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the cards that some other players may have, with their probabilities."""
        hidden = [seat for seat in seats if seat not in self.cards]
        for drawn, chance in draws(len(hidden), self._seen, self.game.deck):
            cards = self.cards | dict(zip(hidden, drawn, strict=True))
            yield tuple(cards[seat] for seat in seats), chance

    def showdown(self) -> ShowdownChances:
        """Return the chances of the viewer's hand, whose card has been dealt, at a showdown."""
        own, win, tie = self.own, 0.0, 0.0
        for cards, chance in self._hands([s for s in self.betting.left if s != self.player]):
            # Before the board card, all of its possible values are summed over.
            seen = (own, *cards)
            boards = {self.board: 1.0} if self.board else card_chances(seen, self.game.deck)
            for board, weight in boards.items():
                # Joint probability of the other cards and the board card.
                margin = strength(own, board) - max(strength(card, board) for card in cards)
                win += chance * weight * (margin > 0)
                tie += chance * weight * (margin == 0)
        return ShowdownChances(win, tie)


# Strategies


Strategy = Mapping[LeducKey, Mapping[str, float]]
"""Probability of each legal move, by its letter."""

BUNDLED = Path(__file__).with_name("equilibrium.txt")
"""The strategy that `tests/support/leduc_solver.py` has written."""


@cache
def equilibrium(path: Path = BUNDLED) -> Strategy:
    """Return the approximate equilibrium of a file, by default the bundled one."""
    strategy = {}
    # Rows are divided by their sums, because the file is rounded.
    for line in path.read_text("utf-8").splitlines()[1:]:
        card, board, moves, *row = line.split()
        numbers = dict(zip(MOVES, map(float, row), strict=True))
        total = sum(numbers.values())
        # Empty fields are written as "-", so that each line splits into six words.
        key = (card, board.replace("-", ""), moves if moves != "-" else "")
        strategy[key] = {move: n / total for move, n in numbers.items() if n}
    return strategy


@cache
def move_values() -> Mapping[LeducKey, Mapping[str, float]]:
    """Return Q(I, a) of each move where there is a choice: the expected chips of its player.

    The other player follows the bundled equilibrium, and the later moves are best responses to it.
    All values are 0 where the equilibrium never leads.
    """
    from arena.evaluation.exact import game_tree, policy_array

    game, values = LeducPoker(), dict[LeducKey, dict[str, float]]()
    tree = game_tree(game)
    policy = policy_array(game, [partial(probabilities, equilibrium())] * 2)
    for player in range(2):
        found = tree.action_values(tree.best_response(policy, player))
        for first, situation in zip(tree.first_pairs, tree.situations, strict=True):
            observation = situation.observation
            if observation.player == player:
                moves = enumerate(observation.legal_actions, start=first)
                row = {LETTERS[action]: float(found[pair]) for pair, action in moves}
                values[observation.notes.key] = row
    return values


def probabilities(strategy: Strategy, observation: Observation) -> dict[Action, float]:
    """Return the probability of each legal action of the observer under a strategy."""
    return {MOVES[move]: p for move, p in strategy[observation.notes.key].items()}


# Judgements


FACTS: dict[str, Fact] = {
    "share": Fact("%", "expected share of the pot, against a random hand"),
    "price": Fact("%", "share of the pot above which a call pays"),
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
)


class LeducAssessor(SeatAssessor):
    """Assessor of one hand; its kinds are `move` and `knowledge`."""

    game: LeducPoker
    shows_hidden = (LeducShowdown,)

    def _judge_decision(self, ply: Ply, knowledge: LeducKnowledge) -> list[Assessment]:
        """Return the assessment of a move."""
        if not self._wants("move"):
            return []
        betting, share = knowledge.betting, knowledge.showdown().share
        move = LETTERS[ply.decision.action]
        facts: dict[str, JsonValue] = {"move": move, "share": share}
        measured = dict[str, WeightedSum]()
        if knowledge.game.is_solved:
            facts["equilibrium"] = usual = equilibrium()[knowledge.key].get(move, 0.0)
            measured["equilibrium_probability"] = WeightedSum(usual)
            values = move_values()[knowledge.key]
            lost = max(values.values()) - values[move]
            measured["value_lost"] = WeightedSum(lost if lost >= ACCURACY else 0.0)
        if betting.price:
            # A call of c chips into a pot of p pays if share * (p + c) >= c.
            facts["price"] = price = betting.price / (betting.pot + betting.price)
            if move == "c":
                measured["calls_paid"] = WeightedSum(float(share >= price))
        return [Assessment(ply.number, ply.player, "move", facts, measured)]


class LeducAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Leduc hold'em."""

    game: LeducPoker

    facts = FACTS
    measures = MEASURES
    decision_kinds: ClassVar = {
        "move": DecisionKind.of_measure(
            "equilibrium_probability", "probability of the move in the equilibrium", "moves"
        ),
    }
    knowledge_type = LeducKnowledge
    assessor_type = LeducAssessor

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the comment on a move. It uses only what the seat could know."""
        facts = assessment.facts
        if assessment.kind != "move":
            return None
        shares = {name: value for name, value in facts.items() if isinstance(value, float)}
        text = f"Expected share of the pot against a random hand: {per_cent(shares['share'])}."
        if "price" in shares:
            text += f" A call pays above {per_cent(shares['price'])}."
        if "equilibrium" in shares:
            text += f" In equilibrium this move has {per_cent(shares['equilibrium'])}."
        # Only a hand that cannot lose makes a fold a mistake for certain.
        return Comment(text, mistake=facts["move"] == "f" and shares["share"] == 1)

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
