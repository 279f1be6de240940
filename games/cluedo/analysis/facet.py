"""Exact knowledge, judgements and other worlds of Cluedo: a facet of the game."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from pydantic import JsonValue

from arena import (
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Knowledge,
    Step,
)
from arena.core.text import bits_text, percentage
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.judgements import DECISION_KINDS
from games.cluedo.analysis.measures import FACTS, MEASURES
from games.cluedo.analysis.position_analysis import (
    NEGLIGIBLE,
    AccusationFacts,
    AnswerFacts,
    MissedAccusationFacts,
    RefutationFacts,
    SuggestionFacts,
    UnusedCertaintyFacts,
)
from games.cluedo.inference.information import QuestionValues
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import (
    Accuse,
    DealCards,
    Show,
    Suggest,
)
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.rules.state import CluedoState

# Comments


SMALL = 0.005
"""Fewer bits are written as 0.00."""
POOR = 0.5
"""A question is a mistake if its expected bits are below this share of the best question's. The
search for the best may miss it by an eighth, so that half is well below any error."""
MUCH = 0.2
"""A mistake costs at least this many bits. The envelope has 6 to 8 bits, and a good question gains
one or two of them: a smaller loss does not change a game."""

Facts = Mapping[str, JsonValue]


def _suggestion(values: Facts) -> Comment:
    facts = SuggestionFacts.model_validate(values)
    if facts.entropy_before < NEGLIGIBLE:
        return Comment("Asked although the case was already certain: there was nothing to learn.")
    expected = f"Expected {_bits(facts.expected)}"
    if facts.best - facts.expected < SMALL:
        return Comment(f"{expected}; no question was better.")
    question = ", ".join(facts.best_question)
    poor = facts.expected < POOR * facts.best and facts.best - facts.expected >= MUCH
    return Comment(f"{expected}; the best question ({question}): {_bits(facts.best)}.", poor)


def _answer(values: Facts) -> Comment | None:
    facts = AnswerFacts.model_validate(values)
    # The comment on the suggestion says already that there was nothing to learn.
    if abs(facts.gained) < NEGLIGIBLE and facts.expected < NEGLIGIBLE:
        return None
    expectation = f"{_number(facts.expected)} were expected"
    if facts.gained <= -SMALL:  # An unlikely answer may leave more open than before.
        return Comment(
            f"Gained nothing: the uncertainty grew by {_bits(-facts.gained)}; {expectation}."
        )
    return Comment(f"Gained {_bits(facts.gained)}; {expectation}.")


def _accusation(values: Facts) -> Comment:
    facts = AccusationFacts.model_validate(values)
    if facts.provable and facts.correct:
        return Comment("Accused with certainty: no other envelope was possible. Right.")
    if facts.provable:
        return Comment("Accused an impossible envelope although the case was certain: wrong.", True)
    if facts.probability < NEGLIGIBLE:
        return Comment("Accused an envelope that its own view excluded: wrong.", True)
    # A break-even of 1 means that waiting is better as long as any doubt is left.
    certainty_only = facts.break_even >= 1
    threshold = "only when certain" if certainty_only else f"from {_probability(facts.break_even)}"
    premature = facts.probability < facts.break_even - NEGLIGIBLE
    if premature:
        verdict = f"premature, {'although right' if facts.correct else 'and wrong'}"
    else:
        verdict = f"well timed, {'and right' if facts.correct else 'although wrong'}"
    accused = f"Accused with probability {_probability(facts.probability)}"
    return Comment(f"{accused}; accusing pays {threshold}: {verdict}.", premature)


def _missed_accusation(values: Facts) -> Comment:
    facts = MissedAccusationFacts.model_validate(values)
    envelope = ", ".join(facts.envelope)
    text = f"Ended the turn without accusing although the case was certain: {envelope}."
    if facts.turns > 1:
        text += f" Number of such turns so far: {facts.turns}."
    return Comment(text, mistake=True)


def _refutation(values: Facts) -> Comment:
    # The information depends on what the suggester knows, so only an omniscient viewer may see it.
    facts = RefutationFacts.model_validate(values)
    gave = f"Gave {_bits(facts.leaked)} to the suggester"
    if facts.leaked < SMALL:
        gave = "Gave no information"
    if facts.leaked <= -SMALL:
        gave += f" and increased the uncertainty by {_bits(-facts.leaked)}"
    if facts.choices == 1:
        return Comment(f"{gave}: there was only one card to show.", omniscient=True)
    if facts.leaked - facts.least < SMALL:
        text = f"{gave}; none of the {facts.choices} possible cards gives less."
        return Comment(text, omniscient=True)
    text = f"{gave}; another card gives {_least(facts.least)}."
    return Comment(text, mistake=facts.leaked - facts.least >= MUCH, omniscient=True)


def _unused_certainty(values: Facts) -> Comment:
    # Not a mistake of its own: each missed accusation is marked as one already.
    facts = UnusedCertaintyFacts.model_validate(values)
    passed = "the game ended before its next turn"
    if facts.turns:
        passed = f"turns without an accusation: {facts.turns}"
    return Comment(f"The case was certain from here on but was never accused; {passed}.")


def _least(bits: float) -> str:
    if bits <= -SMALL:
        return f"no information and increases the uncertainty by {_bits(-bits)}"
    return "no information" if bits < SMALL else _number(bits)


WRITERS: dict[str, Callable[[Facts], Comment | None]] = {
    "suggestion": _suggestion,
    "answer": _answer,
    "accusation": _accusation,
    "missed accusation": _missed_accusation,
    "refutation": _refutation,
    "forced refutation": _refutation,
    "unused certainty": _unused_certainty,
}


def _number(value: float) -> str:
    """Return a number with two decimals, without "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"


def _bits(value: float) -> str:
    return f"{_number(value)} bits"


def _probability(value: float) -> str:
    """Return a probability; only 0 and 1 are written as 0.00 and 1.00."""
    if 0 < value < 0.005:
        return "below 0.01"
    if 0.995 <= value < 1:
        return "over 0.99"
    return _number(value)


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
