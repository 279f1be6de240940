"""Judges a game of Cluedo by what each seat could have known.

Every seat has its own exact knowledge, which assumes that refuters choose evenly among the cards
they could show. The measures are listed in `measures`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field

from arena import Action, Assessment, Json, Outcome, Ply, Share
from games.cluedo.analysis.belief_metrics import stated_shares
from games.cluedo.analysis.measures import TURNS
from games.cluedo.base import CluedoBase
from games.cluedo.inference.accusation_threshold import break_even
from games.cluedo.inference.answer_distribution import Answers
from games.cluedo.inference.constraints import Problem
from games.cluedo.inference.counting import Count
from games.cluedo.inference.information import Information, Question
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import PASSAGE, ROLL, Accuse, EndTurn, Show, Suggest
from games.cluedo.rules.state import CluedoState, Phase

NOTHING = 1e-9
"""Fewer bits, or a smaller difference of probabilities, are none."""

_MAY_ACCUSE = (Phase.START, Phase.SUGGEST, Phase.ACCUSE)


class CluedoAssessor:
    """Judges one game, ply by ply from the deal on: these seats, by these kinds of assessments.

    None stands for all. What nobody asks for is not computed.
    """

    def __init__(
        self,
        game: CluedoBase,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        self.game = game
        self._kinds = kinds
        self._state = CluedoState(game)
        self._judged = range(game.num_players) if players is None else sorted(players)
        # What a refutation tells depends on what the suggester knows, whoever that will be.
        known = range(game.num_players) if self._wants("refutation") else self._judged
        self._seats = {player: _Seat(CluedoKnowledge(game, player)) for player in known}
        self._asked: _Asked | None = None
        self._information: Information | None = None
        self._best: Question | None = None
        self._last = 0

    def _wants(self, kind: str, player: int | None = None) -> bool:
        """Whether this kind is to be judged, of this player."""
        wanted = self._kinds is None or kind in self._kinds
        return wanted and (player is None or player in self._judged)

    def ply(self, ply: Ply) -> list[Assessment]:
        """Take in the next ply; what can be said now, of this ply or of earlier ones."""
        found, action = list[Assessment](), ply.decision.action
        if ply.player == self._state.player and self._state.phase in _MAY_ACCUSE:
            if ply.player in self._judged:
                found += self._judge_turn(ply)
            if isinstance(action, Suggest):
                self._asked = self._ask(ply, action)
                if self._asked and self._asked.worth and self._wants("suggestion"):
                    found.append(_judge_question(ply, self._asked.worth))
            elif isinstance(action, Accuse) and ply.player in self._seats:
                self._seats[ply.player].accused = True
        if isinstance(action, Show) and self._wants("refutation", ply.player):
            found.append(self._judge_showing(ply, action))
        self._advance(ply)
        if self._asked and self._state.phase is not Phase.REFUTE:
            if self._asked.worth and self._wants("answer"):
                found.append(self._judge_answer(self._asked.ply, self._asked.worth))
            self._asked = None
        return found

    def end(self, outcome: Outcome) -> list[Assessment]:
        """What each seat knew, and how long those waited who could have accused and never did.

        Nothing changes by it: called earlier, it says how things stand.
        """
        found = list[Assessment]()
        for player in self._judged:
            seat = self._seats[player]
            if self._wants("unused certainty") and not seat.accused:
                found += _judge_waiting(player, seat)
            if seat.dealt is not None:
                facts = {"entropy_dealt": seat.dealt, "entropy_end": seat.knowledge.entropy()}
                found.append(Assessment(self._last, player, "knowledge", facts))
        return found

    def appraise(self, player: int, action: Action) -> dict[str, Json]:
        """What can be said of a move that `player` may make now, before it is known what comes."""
        if player not in self._judged or action not in self._state.legal_actions(player):
            return {}
        match action:
            case Suggest(triple=triple):
                answers = Answers(self._look(player).position, triple)
                return self._worth(player, action, answers).facts()
            case Accuse(triple=triple):
                return self._odds(player, triple).facts()
            case Show(card) if self._asked:
                return self._leak(self._asked, player, card).facts()
        return {}

    def _advance(self, ply: Ply) -> None:
        """Everybody takes in what it sees, as long as it is in the game.

        That the case is solved, or what the envelope holds, is no deduction of those who are told.
        """
        self._information = self._best = None
        action = ply.decision.action
        dealt = self._state.phase is Phase.DEAL
        solved = isinstance(action, Accuse) and action.triple == self._state.envelope
        self._state.apply(ply.player, action)
        self._last = ply.number
        for player, seat in self._seats.items():
            if solved or seat.accused:
                continue
            for event in ply.events:
                if event.seen_by(player):
                    seat.knowledge.update(event)
            if dealt and self._wants("knowledge", player):
                seat.dealt = seat.knowledge.entropy()

    # The player in turn

    def _judge_turn(self, ply: Ply) -> Iterator[Assessment]:
        """A decision at which accusing is legal; every turn but a blocked one has at least one."""
        seat, action = self._seats[ply.player], ply.decision.action
        if seat.turn != self._state.turn:
            seat.turn, seat.turns = self._state.turn, seat.turns + 1
            if self._wants("turn"):
                yield self._begin_turn(ply, seat)
        if self._wants("beliefs") and "beliefs" in ply.decision.details:
            shares = stated_shares(ply.decision.details["beliefs"], seat.knowledge)
            yield Assessment(ply.number, ply.player, "beliefs", shares=shares)
        # Where each turn's entropy is asked for, what follows has been counted already.
        known = seat.provable if self._wants("turn") else None
        ends_turn = isinstance(action, EndTurn)
        seat.cases.append(_Case(ply.number, ends_turn, seat.knowledge.problem.copy(), known))
        if isinstance(action, Accuse) and self._wants("accusation"):
            yield self._judge_accusation(ply, action.triple)
        if ends_turn and self._wants("missed accusation"):
            yield from self._judge_end_of_turn(ply)

    def _begin_turn(self, ply: Ply, seat: _Seat) -> Assessment:
        entropy = seat.knowledge.entropy()
        shares = {"bits_per_turn": Share(0.0)}
        if seat.turns in TURNS:
            shares[f"entropy/{seat.turns}"] = Share(entropy)
        facts = {"own_turn": seat.turns, "entropy": entropy}
        return Assessment(ply.number, ply.player, "turn", facts, shares)

    def _may_suggest(self) -> bool:
        """Whether a question may still come in this turn."""
        legal = self._state.legal_actions(self._state.player)
        return bool(legal.of(Suggest)) or ROLL in legal or PASSAGE in legal

    def _judge_accusation(self, ply: Ply, accused: Triple) -> Assessment:
        seat, odds = self._seats[ply.player], self._odds(ply.player, accused)
        correct = accused == self._state.envelope
        premature = odds.probability < odds.break_even - NOTHING
        shares = {
            "accusations_right": Share(float(correct)),
            "accusation_probability": Share(odds.probability),
            "premature": Share(float(premature)),
        }
        if seat.provable:
            shares["missed"] = Share(float(not correct))
            shares["turns_to_accuse"] = Share(seat.turns_let_pass)
        facts = {**odds.facts(), "correct": correct, "provable": seat.provable}
        return Assessment(ply.number, ply.player, "accusation", facts, shares)

    def _odds(self, player: int, accused: Triple) -> _Odds:
        knowledge = self._seats[player].knowledge
        rivals = self.game.num_players - 1 - len(self._state.out)
        least = break_even(knowledge, rivals, self._may_suggest())
        return _Odds(knowledge.envelopes().get(accused, 0.0), least)

    def _judge_end_of_turn(self, ply: Ply) -> Iterator[Assessment]:
        seat = self._seats[ply.player]
        if seat.provable:
            envelope = next(iter(seat.knowledge.envelopes()))
            facts = {"envelope": list(envelope), "turns": seat.turns_let_pass}
            shares = {"missed": Share(1.0)}
            yield Assessment(ply.number, ply.player, "missed accusation", facts, shares)

    # Questions and answers

    def _ask(self, ply: Ply, suggestion: Suggest) -> _Asked | None:
        """What this question may bring, if anybody wants to know."""
        judged = self._wants("suggestion", ply.player) or self._wants("answer", ply.player)
        if not judged and not self._wants("refutation", self._refuter(suggestion)):
            return None
        answers = Answers(self._look(ply.player).position, suggestion.triple)
        worth = self._worth(ply.player, suggestion, answers) if judged else None
        return _Asked(ply, answers, worth)

    def _look(self, player: int) -> Information:
        """What the questions of the player in turn are worth; computed once in a position."""
        if self._information is None:
            self._information = Information(self._seats[player].knowledge)
        return self._information

    def _worth(self, player: int, suggestion: Suggest, answers: Answers) -> _Worth:
        information = self._look(player)
        if self._best is None:
            self._best = information.best(self._state.legal_actions(player).of(Suggest))
        expected, best = answers.information(), self._best
        if expected > best.bits:  # The best is the best of those that were compared.
            best = Question(suggestion, expected)
        return _Worth(expected, best, information.position.entropy)

    def _refuter(self, suggestion: Suggest) -> int:
        """Who will show a card; no seat if nobody can."""
        named = set(suggestion.triple)
        seats = self.game.refuters(self._state.player)
        return next((seat for seat in seats if named & self._state.hands[seat]), -1)

    def _judge_answer(self, asked: Ply, worth: _Worth) -> Assessment:
        """What the question brought: partly luck."""
        after = self._seats[asked.player].knowledge.entropy()
        gained = worth.entropy - after
        shares = {
            "bits": Share(gained),
            "luck": Share(gained - worth.expected),
            "bits_per_turn": Share(gained, 0.0),
        }
        facts = {
            "gained": gained,
            "expected": worth.expected,
            "entropy_before": worth.entropy,
            "entropy_after": after,
        }
        return Assessment(asked.number, asked.player, "answer", facts, shares)

    def _judge_showing(self, ply: Ply, shown: Show) -> Assessment:
        """What the suggester learns from the card, since it knew already who would refute."""
        assert self._asked is not None
        leak = self._leak(self._asked, ply.player, shown.card)
        shares = {"leaked": Share(leak.leaked)}
        if leak.choices > 1:
            shares["excess_leak"] = Share(leak.leaked - leak.least)
        return Assessment(ply.number, ply.player, "refutation", leak.facts(), shares)

    def _leak(self, asked: _Asked, refuter: int, card: str) -> _Leak:
        told = asked.answers.refutation(refuter)
        leaks = {choice: told.entropy - told.after[choice] for choice in self._state.choices}
        return _Leak(leaks[card], min(leaks.values()), len(leaks))


def _judge_question(ply: Ply, worth: _Worth) -> Assessment:
    """By what was to be expected of it: the choice was the player's, the answer was not."""
    shares = {}
    if worth.best.bits > NOTHING:
        shares["efficiency"] = Share(worth.expected, worth.best.bits)
    facts = {**worth.facts(), "entropy_before": worth.entropy}
    return Assessment(ply.number, ply.player, "suggestion", facts, shares)


def _judge_waiting(player: int, seat: _Seat) -> Iterator[Assessment]:
    """A seat that could have accused and never did."""
    certain = seat.certain()
    if certain:
        turns = seat.turns_let_pass
        shares = {"turns_to_accuse": Share(turns)}
        yield Assessment(certain[0].ply, player, "unused certainty", {"turns": turns}, shares)


@dataclass(slots=True)
class _Case:
    """What stood at one decision at which accusing was legal."""

    ply: int
    ends_turn: bool
    problem: Problem
    provable: bool | None
    """Whether just one envelope was possible; None until somebody asks."""

    def is_provable(self) -> bool:
        if self.provable is None:
            self.provable = Count(self.problem).entropy() < NOTHING
        return self.provable


@dataclass(slots=True)
class _Seat:
    """One player, as the game goes."""

    knowledge: CluedoKnowledge
    dealt: float | None = None
    """Entropy of the envelope after the deal, if it is wanted."""
    turns: int = 0
    """Own turns so far."""
    turn: int = 0
    """The game's number of the last of them."""
    cases: list[_Case] = field(default_factory=list)
    accused: bool = False

    @property
    def provable(self) -> bool:
        """Whether just one envelope is possible."""
        return self.knowledge.entropy() < NOTHING

    def certain(self) -> list[_Case]:
        """The decisions at which the envelope was provable.

        What is certain stays certain, so that few of them have to be counted.
        """
        if not self.cases or not self.cases[-1].is_provable():
            return []
        return self.cases[bisect_left(self.cases, True, key=_Case.is_provable) :]

    @property
    def turns_let_pass(self) -> int:
        """Own turns that it ended although the envelope was provable."""
        return sum(case.ends_turn for case in self.certain())


@dataclass(frozen=True, slots=True)
class _Worth:
    """What a question was worth when it was asked, in bits."""

    expected: float
    best: Question
    entropy: float

    def facts(self) -> dict[str, Json]:
        return {
            "expected": self.expected,
            "best": self.best.bits,
            "best_question": list(self.best.suggestion.triple),
        }


@dataclass(frozen=True, slots=True)
class _Odds:
    """What an accusation risks."""

    probability: float
    break_even: float

    def facts(self) -> dict[str, Json]:
        return {"probability": self.probability, "break_even": self.break_even}


@dataclass(frozen=True, slots=True)
class _Leak:
    """What a card that is shown tells the suggester, in bits."""

    leaked: float
    least: float
    """Of the cards that could be shown."""
    choices: int

    def facts(self) -> dict[str, Json]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that waits for its answer."""

    ply: Ply
    answers: Answers
    worth: _Worth | None
    """None if only the refutation is judged."""
