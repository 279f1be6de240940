"""Assessment of a game of Cluedo by exact knowledge.

Each seat has its own exact knowledge, which assumes that refuters choose evenly among the cards
they can show. `measures` lists the measures, `judgements` the facts of each kind of assessment.

A measure for comparisons must not move because games get shorter or longer. So each is taken in the
same position: against the best choice or a random one there, or separately for positions that are
equally far (`_stage`) or equally hard (`Facts.candidates`). The others only serve rewards and
summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from pydantic import JsonValue

from arena import Action, Assessment, Outcome, Ply, WeightedSum
from arena.core.analysis import SeatAssessor
from games.cluedo.analysis.beliefs import belief_measurements
from games.cluedo.analysis.judgements import (
    NEGLIGIBLE,
    AccusationFacts,
    AnswerFacts,
    MissedAccusationFacts,
    RefutationFacts,
    SuggestionFacts,
)
from games.cluedo.analysis.measures import STAGES, TURNS
from games.cluedo.inference.answers import AnswerDistribution
from games.cluedo.inference.information import (
    QuestionValues,
    ScoredQuestion,
    break_even,
)
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import PASSAGE, ROLL, Accuse, EndTurn, Show, Suggest
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.rules.state import CluedoState, TurnPhase

_MAY_ACCUSE = (TurnPhase.START, TurnPhase.SUGGEST, TurnPhase.ACCUSE)


@dataclass(slots=True)
class SeatHistory:
    """Record of one seat, updated by the assessor."""

    knowledge: CluedoKnowledge
    entropy_dealt: float | None = None
    """Entropy of the envelope after the deal, in bits, if it is needed."""
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
    accused: bool = False

    def note_opportunity(self, ply: Ply) -> None:
        """Note a decision at which accusing is legal."""
        # Knowledge never shrinks: what is provable once stays so.
        self.is_provable = self.is_provable or self.knowledge.is_certain()
        if self.is_provable:
            self.turns_passed += isinstance(ply.decision.action, EndTurn)

    # Turns and accusations

    def judge_turn(self, ply: Ply) -> Assessment:
        """Record the entropy at the start of a turn."""
        entropy = self.knowledge.entropy()
        measured = self.own_turns in TURNS
        measurements = {f"entropy/{self.own_turns}": WeightedSum(entropy)} if measured else {}
        facts = {"own_turn": self.own_turns, "entropy": entropy}
        return Assessment(ply.number, ply.player, "turn", facts, measurements)

    def judge_accusation(
        self, ply: Ply, probability: float, break_even: float, correct: bool
    ) -> Assessment:
        """Assess an accusation by its probability in the accuser's view."""
        facts = AccusationFacts(probability, break_even, correct, self.is_provable)
        measurements = {
            "accusations_right": WeightedSum(float(correct)),
            "accusation_probability": WeightedSum(probability),
            "premature": WeightedSum(float(facts.premature)),
        }
        if facts.provable:
            # A provable envelope that was accused rightly was not missed: total 0, weight 1.
            missed = WeightedSum(float(not correct))
            measurements["missed"] = missed
            if not self.turns_passed:
                measurements[self._first_chance] = missed
        return facts.assessment("accusation", ply.number, ply.player, measurements)

    @property
    def _first_chance(self) -> str:
        """The measure of the first turn in which the envelope was provable.

        Only the first turn counts: how many follow depends on when other players end the game.
        """
        return "missed_seen" if self.knowledge.facts.name_envelope else "missed_deduced"

    def judge_missed_accusation(self, ply: Ply) -> Assessment:
        """Assess a turn that ends although only one envelope is possible."""
        envelope, turns = next(iter(self.knowledge.envelopes())), self.turns_passed
        measurements = {"missed": WeightedSum(1.0)}
        # This turn is among the turns passed already.
        if turns == 1:
            measurements[self._first_chance] = WeightedSum(1.0)
        facts = MissedAccusationFacts(list(envelope), turns)
        return facts.assessment("missed accusation", ply.number, ply.player, measurements)

    # Questions and answers

    def _stage(self, entropy: float) -> str:
        """Return the measure of a question asked at this entropy of the envelope."""
        dealt = self.knowledge.facts.entropy_dealt
        left = entropy / dealt if dealt else 0.0
        # An unlikely answer may raise the entropy above that of the deal: still the first stage.
        return next(stage.measure for stage in STAGES if left >= stage.least)

    def judge_suggestion(self, ply: Ply, facts: SuggestionFacts) -> Assessment:
        """Assess a question by its expected information: the player did not choose the answer."""
        measurements = {}
        if facts.best > NEGLIGIBLE:
            # Ratio of sums over a game: questions with much to gain weigh more.
            value = WeightedSum(facts.expected, facts.best)
            measurements = {"efficiency": value, self._stage(facts.entropy_before): value}
        return facts.assessment("suggestion", ply.number, ply.player, measurements)

    def judge_skipped_question(self, ply: Ply) -> Iterator[Assessment]:
        """Assess a turn without a question: its gain is 0 of what the best question would give."""
        entropy = self.knowledge.entropy()
        # A player that knows the envelope has nothing to ask.
        if entropy < NEGLIGIBLE:
            return
        best = QuestionValues(self.knowledge).best(self.open_questions)
        if best.bits > NEGLIGIBLE:
            question: list[JsonValue] = [*best.suggestion.triple]
            facts: dict[str, JsonValue] = {"best": best.bits, "best_question": question}
            measurements = {self._stage(entropy): WeightedSum(0.0, best.bits)}
            yield Assessment(ply.number, ply.player, "skipped question", facts, measurements)

    def judge_answer(self, question: Ply, asked: SuggestionFacts) -> Assessment:
        """Assess the bits that the question gained; the difference to the expectation is luck."""
        after = self.knowledge.entropy()
        gained = asked.entropy_before - after
        luck = WeightedSum(gained - asked.expected)
        measurements = {"bits": WeightedSum(gained), "luck": luck}
        facts = AnswerFacts(gained, asked.expected, asked.entropy_before, after)
        return facts.assessment("answer", question.number, question.player, measurements)


REFUTATIONS = ("refutation", "forced refutation")
"""Kinds of assessments of a shown card: with a choice among several cards, and without."""


def refutation_kind(choices: Sequence[str]) -> str:
    """Return the kind of a refutation by the cards that could be shown."""
    return REFUTATIONS[len(choices) == 1]


def judge_refutation(ply: Ply, card: str, leaks: Mapping[str, float]) -> Assessment:
    """Assess the information that the shown card gives; `leaks` has the bits of each card."""
    facts = RefutationFacts(leaks[card], min(leaks.values()), len(leaks))
    measurements = {}
    if facts.choices > 1:
        # Only with a choice: a forced card is no decision.
        excess = facts.leaked - facts.least
        measurements["excess_leak"] = WeightedSum(excess)
        # A card drawn at random has this expectation in every position. So a player that draws has
        # the ratio 1, and one that gives least has 0, in short and in long games.
        at_random = sum(leaks.values()) / len(leaks) - facts.least
        if at_random > NEGLIGIBLE:
            measurements["leak_ratio"] = WeightedSum(excess, at_random)
    return facts.assessment(refutation_kind([*leaks]), ply.number, ply.player, measurements)


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

    def probability(self, accused: Triple) -> float:
        """Return the probability of an envelope."""
        return self._envelopes.get(accused, 0.0)

    @cached_property
    def _envelopes(self) -> dict[Triple, float]:
        return self._knowledge.envelopes()

    @cached_property
    def break_even(self) -> float:
        """The probability above which accusing pays."""
        legal, rivals = self._legal, self._state.game.num_players - 1 - len(self._state.out)
        # With dice or a passage a suggestion may still follow in this turn.
        may_suggest = bool(legal.of(Suggest)) or ROLL in legal or PASSAGE in legal
        return break_even(self._knowledge, rivals, may_suggest)


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question that has not been answered yet."""

    ply: Ply
    answers: AnswerDistribution
    facts: SuggestionFacts | None
    """None if only the refutation is assessed."""

    def leaks(self, refuter: int, choices: Iterable[str]) -> dict[str, float]:
        """Return the bits about the envelope that each of these cards would give."""
        leaks = self.answers.leaks(refuter)
        return {card: leaks[card] for card in choices}


class CluedoAssessor(SeatAssessor):
    """Assessor of one game. Only what the wanted assessments need is computed.

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
        judged = any(map(self._wants, REFUTATIONS))
        known = range(self.game.num_players) if judged else self._assessed
        self._seats = {player: SeatHistory(CluedoKnowledge(self.game, player)) for player in known}
        self._pending: PendingQuestion | None = None
        self._position: PositionValues | None = None

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the new assessments of this ply and of earlier ones."""
        assessments, action = list[Assessment](), ply.decision.action
        # Everything in this block is judged in the position before the ply, so before `_advance`.
        if ply.player == self._state.player and self._state.phase in _MAY_ACCUSE:
            if ply.player in self._assessed:
                assessments += self._assess_decision(ply)
            if isinstance(action, Suggest):
                self._pending = self._pending_question(ply, action)
                if self._pending and self._pending.facts and self._wants("suggestion"):
                    seat = self._seats[ply.player]
                    assessments.append(seat.judge_suggestion(ply, self._pending.facts))
            elif isinstance(action, Accuse) and ply.player in self._seats:
                self._seats[ply.player].accused = True
        if isinstance(action, Show):
            choices = self._state.choices
            if self._wants(refutation_kind(choices), ply.player):
                assert self._pending is not None
                leaks = self._pending.leaks(ply.player, choices)
                assessments.append(judge_refutation(ply, action.card, leaks))
        # From here on the state is that after the ply.
        self._advance(ply)
        # The answer is complete as soon as no card has to be shown.
        if self._pending and self._state.phase is not TurnPhase.REFUTE:
            question = self._pending.ply
            if self._pending.facts and self._wants("answer"):
                seat = self._seats[question.player]
                assessments.append(seat.judge_answer(question, self._pending.facts))
            self._pending = None
        return assessments

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessments of the knowledge of each seat.

        This changes nothing: before the end of the game, it describes the current position.
        """
        assessments = list[Assessment]()
        for player in self._assessed:
            seat = self._seats[player]
            # It is set only if the kind "knowledge" is wanted for this player.
            if seat.entropy_dealt is not None:
                end = seat.knowledge.entropy()
                assessments.append(self._knowledge_of(player, seat.entropy_dealt, end))
        return assessments

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
                odds = position.probability(triple), position.break_even
                return {"probability": odds[0], "break_even": odds[1]}
            case Show(card) if self._pending:
                leaks = self._pending.leaks(player, self._state.choices)
                return asdict(RefutationFacts(leaks[card], min(leaks.values()), len(leaks)))
        return {}

    def _advance(self, ply: Ply) -> None:
        """Apply the ply; every seat that is still in the game takes in what it witnesses.

        The contents of the envelope, once announced or seen, are not a deduction: a seat's
        knowledge ends with its accusation, and with the right accusation of any seat.
        """
        self._position = None
        action = ply.decision.action
        is_deal = self._state.phase is TurnPhase.DEAL
        solved = isinstance(action, Accuse) and action.triple == self._state.envelope
        self._state.apply(ply.player, action)
        self._latest_ply = ply.number
        for player, seat in self._seats.items():
            # `accused` is set before this call, so the accuser's own envelope event is excluded
            # too.
            if solved or seat.accused:
                continue
            for event in ply.events:
                if event.seen_by(player):
                    seat.knowledge.update(event)
            if is_deal and self._wants("knowledge", player):
                seat.entropy_dealt = seat.knowledge.entropy()

    def _position_values(self, player: int) -> PositionValues:
        """Return the values for the player in turn; they are shared within one position."""
        if self._position is None:
            self._position = PositionValues(self._state, self._seats[player].knowledge)
        return self._position

    # Turns and accusations

    def _assess_decision(self, ply: Ply) -> Iterator[Assessment]:
        """Assess a decision at which accusing is legal.

        Every turn has at least one, unless the pawn cannot move.
        """
        seat, action = self._seats[ply.player], ply.decision.action
        if seat.latest_turn != self._state.turn:
            # The first decision of a turn; a turn has several.
            seat.latest_turn, seat.own_turns = self._state.turn, seat.own_turns + 1
            seat.open_questions = ()
            if self._wants("turn"):
                yield seat.judge_turn(ply)
        if self._wants("beliefs") and "beliefs" in ply.decision.details:
            stated = ply.decision.details["beliefs"]
            measurements = belief_measurements(stated, seat.knowledge)
            yield Assessment(ply.number, ply.player, "beliefs", measurements=measurements)
        ends_turn = isinstance(action, EndTurn)
        if self._wants("accusation") or self._wants("missed accusation"):
            seat.note_opportunity(ply)
        if isinstance(action, Accuse) and self._wants("accusation"):
            position = self._position_values(ply.player)
            right = action.triple == self._state.envelope
            yield seat.judge_accusation(
                ply, position.probability(action.triple), position.break_even, right
            )
        if self._wants("skipped question"):
            yield from self._skipped_question(ply, seat)
        if ends_turn and self._wants("missed accusation") and seat.is_provable:
            yield seat.judge_missed_accusation(ply)

    def _skipped_question(self, ply: Ply, seat: SeatHistory) -> Iterator[Assessment]:
        """Assess a turn that ends without a question although the player could have asked one."""
        # On the board a turn may have several such decisions; the last of them counts. A question
        # is legal once in a turn.
        seat.open_questions = self._state.legal_actions(ply.player).of(Suggest) or (
            seat.open_questions
        )
        match ply.decision.action:
            case Suggest():
                seat.open_questions = ()
            case EndTurn() if seat.open_questions:
                yield from seat.judge_skipped_question(ply)

    # Questions

    def _pending_question(self, ply: Ply, suggestion: Suggest) -> PendingQuestion | None:
        """Return the values of a question; None if no wanted assessment needs them."""
        assessed = self._wants("suggestion", ply.player) or self._wants("answer", ply.player)
        shown = self._state.refutation_of(suggestion.triple)
        if not assessed and not (shown and self._wants(refutation_kind(shown[1]), shown[0])):
            return None
        position = self._position_values(ply.player)
        answers = position.questions.answers(suggestion.triple)
        facts = position.suggestion(suggestion, answers.information()) if assessed else None
        return PendingQuestion(ply, answers, facts)
