"""Assessment of a game of Cluedo by exact knowledge, and the facet that holds it.

Each seat has its own exact knowledge, which assumes that refuters choose evenly among the cards
they can show. `measures` lists the measures, `judgements` the facts of each kind of assessment.

A measure for comparisons must not move because games get shorter or longer. So each is taken in the
same position: against the best choice or a random one there, or separately for positions that are
equally far (`STAGES`) or equally hard (`Facts.candidates`). The others only serve rewards and
summaries.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from pydantic import JsonValue

from arena import (
    Action,
    Assessment,
    Comment,
    Event,
    GameAnalysis,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import SeatAssessor
from arena.core.text import bits_text, percentage
from games.cluedo.analysis.beliefs import belief_measurements
from games.cluedo.analysis.judgements import (
    DECISION_KINDS,
    JUDGEMENTS,
    NEGLIGIBLE,
    AccusationFacts,
    AnswerFacts,
    MissedAccusationFacts,
    RefutationFacts,
    SuggestionFacts,
    WaitFacts,
    break_even,
    stage_of,
)
from games.cluedo.analysis.measures import FACTS, MEASURES, TURNS
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.questions import AnswerDistribution, QuestionValues, ScoredQuestion
from games.cluedo.rules.board import Triple
from games.cluedo.rules.setting import (
    PASSAGE,
    ROLL,
    Accuse,
    Accused,
    CluedoSetting,
    DealCards,
    EndTurn,
    Show,
    Suggest,
)
from games.cluedo.rules.state import CluedoState, TurnPhase

_MAY_ACCUSE = (TurnPhase.START, TurnPhase.SUGGEST, TurnPhase.ACCUSE)


@dataclass(slots=True)
class SeatHistory:
    """Record of one seat, updated by the assessor."""

    own_turns: int = 0
    """Number of own turns so far."""
    latest_turn: int = 0
    """The game's number of the latest own turn."""
    open_questions: Sequence[Suggest] = ()
    """The questions that it could ask last in this turn; empty as soon as it has asked one."""
    is_provable: bool = False
    """True from the first decision on at which the envelope was provable and could be accused."""
    turns_passed: int = 0
    """Number of own turns that the player ended although the envelope was provable."""


class PositionValues:
    """Values in one position, computed on demand, in the view of the player in turn.

    Neither the state nor the knowledge may change during the lifetime of this object.
    """

    def __init__(self, state: CluedoState, knowledge: CluedoKnowledge) -> None:
        self._state = state
        self._knowledge = knowledge
        self._legal = state.legal_actions(state.player)

    @cached_property
    def questions(self) -> QuestionValues:
        """Values of the questions."""
        return QuestionValues(self._knowledge)

    @cached_property
    def _best(self) -> ScoredQuestion:
        return self.questions.best(self._legal.of(Suggest))

    def suggestion(self, suggestion: Suggest, expected: float) -> SuggestionFacts:
        """Return the facts of a question with this expected information."""
        best = self._best
        # `QuestionValues.best` compares only some questions exactly: this one may be better.
        if expected > best.bits:
            best = ScoredQuestion(suggestion, expected)
        entropy = self.questions.position.entropy
        return SuggestionFacts(expected, best.bits, list(best.suggestion.triple), entropy)

    @cached_property
    def envelopes(self) -> dict[Triple, float]:
        """Probabilities of the possible envelopes, the most probable first."""
        return self._knowledge.envelopes()

    @property
    def highest(self) -> float:
        """The probability of the most probable envelope."""
        return next(iter(self.envelopes.values()))

    @cached_property
    def break_even(self) -> float:
        """The probability above which accusing pays."""
        legal = self._legal
        # With dice or a passage a suggestion may still follow in this turn.
        may_suggest = bool(legal.of(Suggest)) or ROLL in legal or PASSAGE in legal
        return break_even(self._knowledge, self._rivals, may_suggest)

    @property
    def wait(self) -> WaitFacts:
        """The facts of ending the turn, after which no question of it follows."""
        return WaitFacts(break_even(self._knowledge, self._rivals, False), self.highest)

    @property
    def _rivals(self) -> int:
        return self._state.game.num_players - 1 - len(self._state.out)


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question that has not been answered yet."""

    ply: Ply
    answers: AnswerDistribution
    facts: SuggestionFacts | None
    """None if only the refutation is assessed."""


class CluedoAssessor(SeatAssessor):
    """Assessor of one game. Only what the wanted assessments need is computed.

    The contents of the envelope, once announced or seen, are not a deduction: a seat's knowledge
    ends with its accusation, and with the right accusation of any seat.

    Example:
        >>> import random
        >>> from arena import CHANCE, Decision, Outcome, Ply
        >>> from games.cluedo.game import Cluedo
        >>> game = Cluedo(players=3)
        >>> state = game.initial_state()
        >>> deal = state.sample_chance(random.Random(0))
        >>> state.apply(CHANCE, deal)
        >>> assessor = game.analysis.assessor(kinds={"knowledge"})
        >>> assessor.ply(Ply(0, CHANCE, Decision(deal), tuple(state.log.events)))
        []
        >>> cut_off = Outcome("truncated", "turn limit", (0.0, 0.0, 0.0))
        >>> [assessment.kind for assessment in assessor.end(cut_off)]
        ['knowledge', 'knowledge', 'knowledge']
    """

    game: CluedoSetting

    def _begin(self) -> None:
        self._state = CluedoState(self.game)
        # A refutation is assessed by the suggester's knowledge, and any seat may be the suggester.
        known = range(self.game.num_players) if self._wants("refutation") else self._assessed
        self._knowledge = {player: CluedoKnowledge(self.game, player) for player in known}
        self._history = {player: SeatHistory() for player in known}
        self._learning = set(known)
        self._question: PendingQuestion | None = None
        self._position: PositionValues | None = None

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the new assessments of this ply and of earlier ones."""
        # Every decision is judged in the position before it.
        found = super().ply(ply)
        self._state.apply(ply.player, ply.decision.action)
        self._position = None
        # The answer is complete as soon as no card has to be shown.
        if self._question and self._state.phase is not TurnPhase.REFUTE:
            found += self._judge_answer(self._question)
            self._question = None
        return found

    def _witness(self, event: Event) -> None:
        if isinstance(event, Accused):
            self._learning -= self._learning if event.correct else {event.player}
        for seat in self._learning:
            if event.seen_by(seat):
                self._knowledge[seat].update(event)

    def appraise(self, player: int, action: Action) -> dict[str, JsonValue]:
        """Return the facts of an action that `player` may take now, before its result is known.

        The dict is empty if the action is not legal, or if there are no facts about it.
        """
        if player not in self._assessed or action not in self._state.legal_actions(player):
            return {}
        match action:
            case Suggest():
                position = self._position_values(player)
                facts = asdict(position.suggestion(action, position.questions.bits(action.triple)))
                del facts["entropy_before"]
                return facts
            case Accuse(triple=triple):
                position = self._position_values(player)
                probability = position.envelopes.get(triple, 0.0)
                return {"probability": probability, "break_even": position.break_even}
            case Show(card) if self._question:
                leaks = self._leaks(self._question, player)
                if len(leaks) > 1:  # A forced card is no decision.
                    return asdict(RefutationFacts(leaks[card], min(leaks.values()), len(leaks)))
        return {}

    def _position_values(self, player: int) -> PositionValues:
        """Return the values for the player in turn; they are shared within one position."""
        if self._position is None:
            self._position = PositionValues(self._state, self._knowledge[player])
        return self._position

    def _judge_decision(self, ply: Ply, knowledge: CluedoKnowledge) -> list[Assessment]:
        if isinstance(ply.decision.action, Show):
            return list(self._judge_refutation(ply, ply.decision.action.card))
        if self._state.phase not in _MAY_ACCUSE:
            return []
        found = list(self._judge_chance(ply, knowledge)) if ply.player in self._assessed else []
        if isinstance(ply.decision.action, Suggest):
            found += self._judge_suggestion(ply, ply.decision.action, knowledge)
        return found

    # Turns and accusations

    def _judge_chance(self, ply: Ply, knowledge: CluedoKnowledge) -> Iterator[Assessment]:
        """Assess a decision at which accusing is legal.

        Every turn has at least one, unless the pawn cannot move.
        """
        seat, action = self._history[ply.player], ply.decision.action
        if seat.latest_turn != self._state.turn:
            # The first decision of a turn; a turn has several.
            seat.latest_turn, seat.own_turns = self._state.turn, seat.own_turns + 1
            seat.open_questions = ()
            if self._wants("turn"):
                entropy, turn = knowledge.entropy(), seat.own_turns
                measured = {f"entropy/{turn}": WeightedSum(entropy)} if turn in TURNS else {}
                facts = {"own_turn": turn, "entropy": entropy}
                yield Assessment(ply.number, ply.player, "turn", facts, measured)
        if self._wants("beliefs") and "beliefs" in ply.decision.details:
            stated = belief_measurements(ply.decision.details["beliefs"], knowledge)
            yield Assessment(ply.number, ply.player, "beliefs", measurements=stated)
        if self._wants("accusation") or self._wants("missed accusation"):
            # Knowledge never shrinks: what is provable once stays so.
            seat.is_provable = seat.is_provable or knowledge.is_certain()
            seat.turns_passed += seat.is_provable and isinstance(action, EndTurn)
        if isinstance(action, Accuse) and self._wants("accusation"):
            yield self._judge_accusation(ply, action, seat)
        if self._wants("skipped question"):
            yield from self._judge_skipped_question(ply, seat, knowledge)
        if isinstance(action, EndTurn) and self._wants("wait"):
            yield self._position_values(ply.player).wait.assessment("wait", ply, {})
        if isinstance(action, EndTurn) and self._wants("missed accusation") and seat.is_provable:
            measurements = {"missed": WeightedSum(1.0)}
            # This turn is among the turns passed already.
            if seat.turns_passed == 1:
                measurements[_first_chance(knowledge)] = WeightedSum(1.0)
            envelope = list(next(iter(knowledge.envelopes())))
            missed = MissedAccusationFacts(envelope, seat.turns_passed)
            yield missed.assessment("missed accusation", ply, measurements)

    def _judge_accusation(self, ply: Ply, accusation: Accuse, seat: SeatHistory) -> Assessment:
        """Assess an accusation by its probability in the accuser's view."""
        correct = accusation.triple == self._state.envelope
        position = self._position_values(ply.player)
        probability = position.envelopes.get(accusation.triple, 0.0)
        facts = AccusationFacts(
            probability, position.break_even, position.highest, correct, seat.is_provable
        )
        measurements = {
            "accusations_right": WeightedSum(float(correct)),
            "accusation_probability": WeightedSum(probability),
            "premature": WeightedSum(float(facts.premature)),
        }
        if facts.provable:
            # A provable envelope that was accused rightly was not missed: total 0, weight 1.
            missed = WeightedSum(float(not correct))
            measurements["missed"] = missed
            if not seat.turns_passed:
                measurements[_first_chance(self._knowledge[ply.player])] = missed
        return facts.assessment("accusation", ply, measurements)

    # Questions and answers

    def _judge_skipped_question(
        self, ply: Ply, seat: SeatHistory, knowledge: CluedoKnowledge
    ) -> Iterator[Assessment]:
        """Assess a turn that ends without a question: its gain is 0 of that of the best one."""
        # On the board a turn may have several such decisions; the last of them counts. A question
        # is legal once in a turn.
        questions = self._state.legal_actions(ply.player).of(Suggest) or seat.open_questions
        action = ply.decision.action
        seat.open_questions = () if isinstance(action, Suggest) else questions
        # A player that knows the envelope has nothing to ask.
        if not isinstance(action, EndTurn) or not questions or knowledge.entropy() < NEGLIGIBLE:
            return
        best = QuestionValues(knowledge).best(questions)
        if best.bits > NEGLIGIBLE:
            question = list[JsonValue](best.suggestion.triple)
            facts: dict[str, JsonValue] = {"best": best.bits, "best_question": question}
            measurements = {stage_of(knowledge): WeightedSum(0.0, best.bits)}
            yield Assessment(ply.number, ply.player, "skipped question", facts, measurements)

    def _judge_suggestion(
        self, ply: Ply, suggestion: Suggest, knowledge: CluedoKnowledge
    ) -> Iterator[Assessment]:
        """Assess a question by its expected information, and keep it until it is answered.

        The player did not choose the answer.
        """
        assessed = self._wants("suggestion", ply.player) or self._wants("answer", ply.player)
        shown = self._state.refutation_of(suggestion.triple)
        # A forced card is no decision.
        chosen = shown is not None and len(shown[1]) > 1 and self._wants("refutation", shown[0])
        if not (assessed or chosen):
            return
        position = self._position_values(ply.player)
        answers = AnswerDistribution(position.questions.position, suggestion.triple)
        facts = position.suggestion(suggestion, answers.information()) if assessed else None
        self._question = PendingQuestion(ply, answers, facts)
        if facts and self._wants("suggestion"):
            measurements = {}
            if facts.best > NEGLIGIBLE:
                # Ratio of sums over a game: questions with much to gain weigh more.
                value = WeightedSum(facts.expected, facts.best)
                measurements = {"efficiency": value, stage_of(knowledge): value}
            yield facts.assessment("suggestion", ply, measurements)

    def _judge_answer(self, question: PendingQuestion) -> Iterator[Assessment]:
        """Assess the bits that a question gained."""
        asked = question.facts
        if asked and self._wants("answer"):
            after = self._knowledge[question.ply.player].entropy()
            gained = asked.entropy_before - after
            facts = AnswerFacts(gained, asked.expected, asked.entropy_before, after)
            yield facts.assessment("answer", question.ply, {})

    def _leaks(self, question: PendingQuestion, refuter: int) -> dict[str, float]:
        """Return the bits about the envelope that each card gives that may be shown."""
        leaks = question.answers.leaks(refuter)
        return {card: leaks[card] for card in self._state.choices}

    def _judge_refutation(self, ply: Ply, card: str) -> Iterator[Assessment]:
        """Assess the information that the shown card gives."""
        if len(self._state.choices) == 1 or not self._wants("refutation", ply.player):
            return
        assert self._question is not None
        leaks = self._leaks(self._question, ply.player)
        facts = RefutationFacts(leaks[card], min(leaks.values()), len(leaks))
        excess = facts.leaked - facts.least
        measurements = {"excess_leak": WeightedSum(excess)}
        # A card drawn at random has this expectation in every position. So a player that draws has
        # the ratio 1, and one that gives least has 0, in short and in long games.
        at_random = sum(leaks.values()) / len(leaks) - facts.least
        if at_random > NEGLIGIBLE:
            measurements["leak_ratio"] = WeightedSum(excess, at_random)
        yield facts.assessment("refutation", ply, measurements)


def _first_chance(knowledge: CluedoKnowledge) -> str:
    """Return the measure of the first turn in which the envelope was provable.

    Only the first turn counts: how many follow depends on when other players end the game.
    """
    return "missed_seen" if knowledge.facts.name_envelope else "missed_deduced"


class CluedoAnalysis(GameAnalysis):
    """Exact knowledge, judgements and other worlds of Cluedo."""

    game: CluedoSetting
    has_sheet = True
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
        kind = JUDGEMENTS.get(assessment.kind)
        return kind.of(assessment).comment() if kind else None

    def consequences(
        self, knowledge: CluedoKnowledge, actions: Collection[Action]
    ) -> dict[Action, str]:
        """Return the expected information of questions and the chances of accusations."""
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
