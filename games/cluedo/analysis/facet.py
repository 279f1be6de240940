"""Exact knowledge, judgements, other worlds and action values of Cluedo: a facet of the game.

Action values take luck out of results (`arena.evaluation.scoring`), which any fixed estimate may
do; this one is cheap. With N[j] the envelopes that seat j has not excluded by cards that it has
seen,

    v[j] = w[j] / sum_k w[k],    w[j] = N[j]^-SHARPNESS, or 0 after a false accusation.

A seat in turn with N[j] = 1 wins. Cards that follow from other seats' answers do not count.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from math import prod

from arena import (
    Action,
    ActionValues,
    Assessment,
    Comment,
    GameAnalysis,
    Knowledge,
    State,
    Step,
)
from arena.core.text import bits_text, percentage
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.comments import WRITERS
from games.cluedo.analysis.judgements import DECISION_KINDS
from games.cluedo.analysis.measures import FACTS, MEASURES
from games.cluedo.inference.information import QuestionValues
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    Accuse,
    CardShown,
    DealCards,
    Dealt,
    Show,
    Suggest,
    Suggested,
    Unable,
)
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.rules.state import CluedoState


class CluedoAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Cluedo."""

    has_sheet = True

    game: CluedoSetting

    facts = FACTS
    measures = MEASURES
    decision_kinds = DECISION_KINDS
    is_judged_by_default = True
    knowledge_type = CluedoKnowledge
    assessor_type = CluedoAssessor

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the comment on an assessment.

        None if there is nothing to say, or if another kind of assessment says it of the same ply.
        """
        write = WRITERS.get(assessment.kind)
        return write(assessment.facts) if write else None

    def consequences(self, knowledge: Knowledge, actions: Collection[Action]) -> dict[Action, str]:
        """Return the expected information of questions and the chances of accusations."""
        assert isinstance(knowledge, CluedoKnowledge)
        questions, envelopes = QuestionValues(knowledge), knowledge.envelopes()
        # Rounded, so that equal values stay in the order of the game.
        values: dict[Action, float] = {}
        for action in actions:
            if isinstance(action, Suggest):
                values[action] = round(questions.bits(action.triple), 9)
            elif isinstance(action, Accuse):
                values[action] = round(envelopes.get(action.triple, 0.0), 9)
        return {
            action: f"right with probability {percentage(value)}"
            if isinstance(action, Accuse)
            else f"{bits_text(value)} of information expected"
            for action, value in sorted(values.items(), key=lambda item: -item[1])
        }

    def resample(self, history: Sequence[Step], player: int, rng: random.Random) -> list[Step]:
        """Return the same public history over another deal that `player` considers possible.

        All actions stay the same, except for the cards that other players show each other: these
        are drawn again among the cards that the new deal allows.
        """
        if not history:
            return []
        # First pass, over the real history: the events that the player has witnessed.
        state = CluedoState(self.game).apply_all(history)
        # Without a refuter model every consistent deal may be drawn.
        witnessed = state.log.witnessed[player]
        knowledge = CluedoKnowledge.after(self.game, player, witnessed, "logic")
        # Second pass, over the new deal. It agrees with every "cannot refute" and every showing, so
        # each public action is legal again, and the same seats refute.
        state, steps = CluedoState(self.game), list[Step]()
        for step in history:
            action = step.action
            if isinstance(action, DealCards):
                action = knowledge.sample(rng)
            # A card that the player showed or was shown is known to it and stays.
            elif isinstance(action, Show) and player not in (step.player, state.player):
                action = rng.choice(state.legal_actions(step.player))
            steps.append(Step(step.player, action))
            state.apply(step.player, action)
        return steps

    def action_values(self, state: State, actions: Collection[Action]) -> ActionValues | None:
        """Return the estimated chances (seats,) after each of these actions, after the deal."""
        assert isinstance(state, CluedoState)
        if not state.hands:
            return None
        position = _Position(state)
        unchanged = position.chances()
        return {action: position.after(action) or unchanged for action in actions}


# Action values


Cards = tuple[str, ...]

SHARPNESS = 0.5
"""Chosen among 0.5, 1 and 2 by the variance that remains in games of novices and detectives."""


class _Position:
    """The cards that each seat has excluded from the envelope, by its own eyes."""

    def __init__(self, state: CluedoState) -> None:
        self._state = state
        self._excluded = _excluded(state)
        self._left = [self._envelopes(cards) for cards in self._excluded]
        self._after: dict[tuple[Cards, ...], tuple[float, ...]] = {}

    def _envelopes(self, excluded: Collection[str]) -> int:
        """Return N, at least 1."""
        deck = self._state.game.deck
        return prod(max(1, sum(c not in excluded for c in kind)) for kind in deck.categories)

    def chances(self) -> tuple[float, ...]:
        return self._chances(self._left, self._state.out)

    def _chances(self, left: Sequence[int], out: Collection[int]) -> tuple[float, ...]:
        in_turn = self._state.player
        if left[in_turn] == 1 and in_turn not in out:
            return self._certain(in_turn)
        weights = [0.0 if seat in out else n**-SHARPNESS for seat, n in enumerate(left)]
        total = sum(weights)
        return tuple(weight / total if total else 0.0 for weight in weights)

    def _certain(self, winner: int) -> tuple[float, ...]:
        return tuple(float(seat == winner) for seat in range(len(self._left)))

    def after(self, action: Action) -> tuple[float, ...] | None:
        """Return the chances after an action; None if it does not change them."""
        state = self._state
        match action:
            case Suggest(triple=triple):
                return self._learning(_answers(state, triple))
            case Show(card):
                return self._learning(((card,),))
            case Accuse(triple=triple) if triple == state.envelope:
                return self._certain(state.player)
            case Accuse():
                return self._chances(self._left, state.out | {state.player})
        return None

    def _learning(self, answers: tuple[Cards, ...]) -> tuple[float, ...]:
        """Return the mean chances after the seat in turn has excluded the cards of an answer."""
        # Most questions of a position have an answer like that of another one.
        if answers not in self._after:
            seat, chances = self._state.player, list[tuple[float, ...]]()
            for cards in answers:
                left = list(self._left)
                left[seat] = self._envelopes(self._excluded[seat].union(cards))
                chances.append(self._chances(left, self._state.out))
            means = (sum(each) / len(answers) for each in zip(*chances, strict=True))
            self._after[answers] = tuple(means)
        return self._after[answers]


def _answers(state: CluedoState, triple: Triple) -> tuple[Cards, ...]:
    """Return the cards that each possible answer to a question excludes.

    A refuter with a choice counts as if it drew the card.
    """
    if refutations := state.refutations_of(triple):
        return tuple(product(*(cards for _, cards in refutations)))
    hand = state.hands[state.player]
    return (_others(state.game, (card for card in triple if card not in hand)),)


def _others(game: CluedoSetting, certain: Iterable[str]) -> Cards:
    """Return the other cards of the categories of cards that are certainly in the envelope."""
    return tuple(
        other
        for card in certain
        for kind in game.deck.categories
        if card in kind
        for other in kind
        if other != card
    )


def _excluded(state: CluedoState) -> list[set[str]]:
    """Return the cards that each seat has seen, or excluded by a question without refutation."""
    game, excluded = state.game, [set(hand) for hand in state.hands]
    asked: Suggested | None = None
    for event in state.log.events:
        match event:
            case Dealt(open_cards=cards):
                for own in excluded:
                    own.update(cards)
            case Suggested():
                asked = event
            case CardShown(suggester=seat, card=card):
                excluded[seat].add(card)
            case Unable(players) if asked and len(players) == game.num_players - 1:
                hand = state.hands[asked.player]
                found = (card for card in asked.triple if card not in hand)
                excluded[asked.player].update(_others(game, found))
    return excluded
