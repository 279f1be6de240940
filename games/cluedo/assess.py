"""Judges a game of Cluedo by what each seat could have known.

Every seat has its own exact knowledge, which assumes that refuters choose evenly among the cards
they could show. The measures are listed in `measures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena import Assessment, Outcome, Ply, Share
from games.cluedo.answers import Answers
from games.cluedo.cards import Triple
from games.cluedo.events import PASSAGE, ROLL, Accuse, EndTurn, Show, Suggest
from games.cluedo.game import Cluedo
from games.cluedo.information import Information, Question
from games.cluedo.knowledge import CluedoKnowledge
from games.cluedo.measures import TURNS
from games.cluedo.rules import Phase
from games.cluedo.stated_shares import stated_shares
from games.cluedo.timing import break_even

NOTHING = 1e-9
"""Fewer bits, or a smaller difference of probabilities, are none."""

_MAY_ACCUSE = (Phase.START, Phase.SUGGEST, Phase.ACCUSE)


class CluedoAssessor:
    """Judges one game, ply by ply from the deal on."""

    def __init__(self, game: Cluedo) -> None:
        self.game = game
        self._state = game.initial_state()
        self._seats = [_Seat(CluedoKnowledge(game, player)) for player in range(game.num_players)]
        self._asked: _Asked | None = None

    def ply(self, ply: Ply) -> list[Assessment]:
        """Take in the next ply; what can be said now, of this ply or of earlier ones."""
        found, action = list[Assessment](), ply.decision.action
        if ply.player == self._state.player and self._state.phase in _MAY_ACCUSE:
            found += self._judge_turn(ply)
        if isinstance(action, Show):
            found.append(self._judge_showing(ply, action))
        self._advance(ply)
        if self._asked and self._state.phase is not Phase.REFUTE:
            found.append(self._judge_question(self._asked))
            self._asked = None
        return found

    def end(self, outcome: Outcome) -> list[Assessment]:
        """How long those waited who could have accused and never did."""
        return [
            Assessment(
                seat.provable_at,
                player,
                "unused certainty",
                {"turns": seat.let_pass},
                {"turns_to_accuse": Share(seat.let_pass)},
            )
            for player, seat in enumerate(self._seats)
            if seat.provable_at is not None and not seat.accused
        ]

    def _advance(self, ply: Ply) -> None:
        self._state.apply(ply.player, ply.decision.action)
        for event in ply.events:
            for player, seat in enumerate(self._seats):
                if event.seen_by(player):
                    seat.knowledge.update(event)

    # The player in turn

    def _judge_turn(self, ply: Ply) -> Iterator[Assessment]:
        """A decision at which accusing is legal; every turn but a blocked one has at least one."""
        seat, action = self._seats[ply.player], ply.decision.action
        if seat.turn != self._state.turn:
            seat.turn, seat.turns = self._state.turn, seat.turns + 1
            yield self._begin_turn(ply, seat)
        if "beliefs" in ply.decision.details:
            shares = stated_shares(ply.decision.details["beliefs"], seat.knowledge)
            yield Assessment(ply.number, ply.player, "beliefs", shares=shares)
        if seat.provable_at is None and seat.provable:
            seat.provable_at = ply.number
        match action:
            case Suggest():
                self._asked = self._ask(ply, action)
            case Accuse():
                yield self._judge_accusation(ply, action.triple)
            case EndTurn():
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
        seat = self._seats[ply.player]
        rivals = self.game.num_players - 1 - len(self._state.out)
        probability = seat.knowledge.envelopes().get(accused, 0.0)
        least = break_even(seat.knowledge, rivals, self._may_suggest())
        correct = accused == self._state.envelope
        seat.accused = True
        premature = probability < least - NOTHING
        shares = {
            "accusations_right": Share(float(correct)),
            "accusation_probability": Share(probability),
            "premature": Share(float(premature)),
        }
        if seat.provable:
            shares["missed"] = Share(float(not correct))
        if seat.provable_at is not None:
            shares["turns_to_accuse"] = Share(seat.let_pass)
        facts = {
            "probability": probability,
            "break_even": least,
            "correct": correct,
            "provable": seat.provable,
        }
        return Assessment(ply.number, ply.player, "accusation", facts, shares)

    def _judge_end_of_turn(self, ply: Ply) -> Iterator[Assessment]:
        seat = self._seats[ply.player]
        seat.let_pass += seat.provable_at is not None
        if seat.provable:
            envelope = next(iter(seat.knowledge.envelopes()))
            facts = {"envelope": list(envelope), "turns": seat.let_pass}
            shares = {"missed": Share(1.0)}
            yield Assessment(ply.number, ply.player, "missed accusation", facts, shares)

    # Questions and answers

    def _ask(self, ply: Ply, suggestion: Suggest) -> _Asked:
        information = Information(self._seats[ply.player].knowledge)
        answers = Answers(information.position, suggestion.triple)
        best = information.best(self._state.legal_actions(ply.player).of(Suggest))
        expected = answers.information()
        if expected > best.bits:  # The best is the best of those that were compared.
            best = Question(suggestion, expected)
        return _Asked(ply, answers, expected, best, information.position.entropy)

    def _judge_question(self, asked: _Asked) -> Assessment:
        after = self._seats[asked.ply.player].knowledge.entropy()
        gained = asked.entropy - after
        shares = {
            "bits": Share(gained),
            "luck": Share(gained - asked.expected),
            "bits_per_turn": Share(gained, 0.0),
        }
        if asked.best.bits > NOTHING:
            shares["efficiency"] = Share(asked.expected, asked.best.bits)
        facts = {
            "expected": asked.expected,
            "best": asked.best.bits,
            "best_question": list(asked.best.suggestion.triple),
            "gained": gained,
            "entropy_before": asked.entropy,
            "entropy_after": after,
        }
        return Assessment(asked.ply.number, asked.ply.player, "suggestion", facts, shares)

    def _judge_showing(self, ply: Ply, shown: Show) -> Assessment:
        """What the suggester learns from the card, since it knew already who would refute."""
        assert self._asked is not None
        told = self._asked.answers.refutation(ply.player)
        leaks = {card: told.entropy - told.after[card] for card in self._state.choices}
        leaked, least = leaks[shown.card], min(leaks.values())
        shares = {"leaked": Share(leaked)}
        if len(leaks) > 1:
            shares["excess_leak"] = Share(leaked - least)
        facts = {"leaked": leaked, "least": least, "choices": len(leaks)}
        return Assessment(ply.number, ply.player, "refutation", facts, shares)


@dataclass(slots=True)
class _Seat:
    """One player, as the game goes."""

    knowledge: CluedoKnowledge
    turns: int = 0
    """Own turns so far."""
    turn: int = 0
    """The game's number of the last of them."""
    provable_at: int | None = None
    """The ply of the first own decision at which the envelope was certain and accusing legal."""
    let_pass: int = 0
    """Own turns that it ended from then on."""
    accused: bool = False

    @property
    def provable(self) -> bool:
        """Whether just one envelope is possible."""
        return self.knowledge.entropy() < NOTHING


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that waits for its answer."""

    ply: Ply
    answers: Answers
    expected: float
    best: Question
    entropy: float
