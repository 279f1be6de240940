"""Bots of increasing strength; each beats the one before it.

- `Random`: any legal move; accuses at random, rarely.
- `Novice`: excludes only the cards that it has seen.
- `Detective`: knows everything that logically follows; asks about unknown cards.
- `Oracle`: exact probabilities; asks for the most information, accuses when it pays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from arena import Action, ActionSet, Decision, Event, Observation, Seat
from games.cluedo.analysis.judgements import break_even
from games.cluedo.facts import Facts
from games.cluedo.inference.knowledge import CluedoKnowledge, estimated_information
from games.cluedo.inference.questions import QuestionValues
from games.cluedo.rules import board
from games.cluedo.rules.board import Triple
from games.cluedo.rules.setting import (
    END_TURN,
    PASSAGE,
    ROLL,
    Accuse,
    CluedoSetting,
    Move,
    Passage,
    Roll,
    Show,
    Suggest,
)

A = TypeVar("A", bound=Action)


class CluedoBot(ABC):
    """Bot with the facts that it has seen and a fixed order of decisions; subclasses choose cards.

    Args:
        seat: The seat of the bot; its game must be Cluedo.
    """

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, CluedoSetting)
        self.game = seat.game
        self.player = seat.player
        self.rng = seat.rng
        self.facts = Facts(self.game, seat.player)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        """Process the new events and choose an action."""
        for event in observation.events_since(self._read):
            self.observe_event(event)
        self._read = observation.num_events
        return Decision(self.choose(observation.legal_actions))

    def observe_event(self, event: Event) -> None:
        """Process an event."""
        self.facts.update(event)

    def choose(self, legal: ActionSet) -> Action:
        """Choose an action: show, move, accuse, then move on or suggest."""
        # Cards to show and ends of a move are decisions of their own, so the first action tells.
        if isinstance(legal[0], Show):
            return self.show(legal.of(Show))
        if isinstance(legal[0], Move):
            return self.move(legal.of(Move))
        suggestions = legal.of(Suggest)
        accusation = self.accusation(may_suggest=bool(suggestions) or ROLL in legal)
        if accusation:
            return Accuse(*accusation)
        if ROLL in legal or PASSAGE in legal:
            # Drawn in any case, so that later draws do not depend on the choice.
            return self.best_start(legal, self.suggest(suggestions) if suggestions else None)
        return self.suggest(suggestions) if suggestions else END_TURN

    def show(self, choices: Sequence[Show]) -> Action:
        """Choose the card to show."""
        return self.rng.choice(choices)

    @abstractmethod
    def accusation(self, may_suggest: bool) -> Triple | None:
        """Return the envelope to accuse now, or None.

        `may_suggest` is true if a suggestion is still possible in this turn.
        """

    @abstractmethod
    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        """Choose a suggestion."""

    @abstractmethod
    def room_value(self, room: str) -> float:
        """Return the value of a suggestion in `room`; 0 if it is useless."""

    # Movement on the board

    def move(self, moves: Sequence[Move]) -> Action:
        """Choose the end with the highest value, discounted by the steps that are left."""
        return max(self._shuffled(moves), key=self.move_value)

    def move_value(self, move: Move) -> float:
        """Return the value of a move by this throw."""
        place = self.facts.place
        walk = board.walk(place, move.room, sum(self.facts.dice), self.facts.other_squares)
        # The distance on an empty board is only a heuristic: the real way may be blocked.
        steps = 0 if walk.enters else board.steps_to(place, move.room)
        return self._discounted_value(move.room, steps)

    def best_start(self, legal: ActionSet, suggestion: Action | None) -> Action:
        """Return `suggestion`, the passage or the dice, by the highest discounted value.

        All suggestions on the board name the same room, so that they have the same value.
        """
        here, options = self.facts.place, list[tuple[float, Action]]()
        if suggestion:
            options.append((self._discounted_value(str(here), 0), suggestion))
        if PASSAGE in legal:
            options.append((self._discounted_value(board.PASSAGES[str(here)], 0), PASSAGE))
        if ROLL in legal:
            rooms = [room for room in self.game.deck.rooms if room != here]
            # Before the throw its number is unknown, so the average in the discount has to do.
            best = max(self._discounted_value(room, board.steps_to(here, room)) for room in rooms)
            options.append((best, ROLL))
        return max(options, key=lambda option: option[0])[1]

    def _discounted_value(self, room: str, steps: int) -> float:
        """Return the value of a suggestion in `room` after `steps` steps.

        It halves for each throw, of 7 on average. The constant makes the bot prefer near rooms
        when no room has a value.
        """
        return float((self.room_value(room) + 0.01) * 0.5 ** (steps / 7))

    def _shuffled(self, moves: Sequence[A]) -> list[A]:
        """Return the actions in random order, so that ties are broken at random."""
        return self.rng.sample(moves, len(moves))


class EliminationBot(CluedoBot):
    """Bot that knows which cards may be in the envelope and asks about those."""

    @abstractmethod
    def candidates(self, cards: Sequence[str]) -> list[str]:
        """Return the cards, of one category, that may be in the envelope."""

    def accusation(self, may_suggest: bool) -> Triple | None:
        """Return the envelope if one candidate is left in each category."""
        left = [self.candidates(cards) for cards in self.game.deck.categories]
        return Triple(*(cards[0] for cards in left)) if all(len(c) == 1 for c in left) else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        """Suggest a candidate of each category, or an own card if the category is solved."""
        suspects, weapons, rooms = map(self._targets, self.game.deck.categories)

        def num_targets(suggestion: Suggest) -> int:
            return (
                (suggestion.suspect in suspects)
                + (suggestion.weapon in weapons)
                + (suggestion.room in rooms)
            )

        shuffled = self._shuffled(suggestions)
        # Nearly always one asks about a candidate of each category; the first such one is the
        # maximum, and comes soon.
        perfect = (suggestion for suggestion in shuffled if num_targets(suggestion) == 3)
        return next(perfect, None) or max(shuffled, key=num_targets)

    def room_value(self, room: str) -> float:
        """Return 1 for a room to ask about, else 0."""
        return float(room in self._targets(self.game.deck.rooms))

    def _targets(self, cards: Sequence[str]) -> list[str]:
        """Return the cards of a category to ask about."""
        left = self.candidates(cards)
        own = [card for card in cards if card in self.facts.hand]
        # A solved category is named with an own card: it cannot be refuted by others, so that the
        # answer is about the other two categories.
        return own if len(left) == 1 and own else left


class Novice(EliminationBot):
    """Bot that excludes its own cards and those that it was shown.

    From the other events it draws one conclusion: if no seat can refute its own suggestion, the
    named cards that it has not seen are in the envelope.
    """

    def candidates(self, cards: Sequence[str]) -> list[str]:
        return self.facts.candidates(cards)


class Detective(EliminationBot):
    """Bot that knows everything that logically follows from the events it witnessed."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player, "logic")
        self.facts = self.knowledge.facts

    def observe_event(self, event: Event) -> None:
        self.knowledge.update(event)

    def candidates(self, cards: Sequence[str]) -> list[str]:
        # A card is a candidate if some consistent deal has it in the envelope.
        possible = self.knowledge.envelope_cards()
        return [card for card in cards if card in possible]


class Random:
    """Bot that plays any legal action except ending a turn early.

    It accuses in one of fifty decisions at which that is legal.
    """

    ACCUSATION_PROBABILITY = 0.02

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        accusations = legal.of(Accuse)
        if accusations and self._rng.random() < self.ACCUSATION_PROBABILITY:
            return Decision(self._rng.choice(accusations))
        # Ending the turn is the last choice: a bot that always passed would not play at all.
        moves = [*legal.of(Suggest), *legal.of(Show), *legal.of(Move)]
        moves += [*legal.of(Roll), *legal.of(Passage)]
        return Decision(self._rng.choice(moves or [END_TURN]))


MAX_ENTROPY = 2.5
"""Entropy of the envelope in bits above which an accusation is not considered, which saves time."""


class Oracle(CluedoBot):
    """Bot that acts on exact probabilities.

    Its question is the best by exact expected information, or nearly the best (see
    `QuestionValues.best`). It accuses when accusing wins more often than waiting, by the estimate
    `break_even`.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player)
        self.facts = self.knowledge.facts

    def observe_event(self, event: Event) -> None:
        self.knowledge.update(event)
        self.__dict__.pop("estimates", None)  # Clears the cached property.

    def show(self, choices: Sequence[Show]) -> Action:
        """Show a card that gives little information.

        Prefer a card that the suggester has seen, else a card of the category with the most cards
        that the suggester has not seen from this seat.
        """
        # Only the player in turn makes suggestions.
        suggester = self.facts.in_turn
        known = self.facts.shown_to.get(suggester, set())

        def cost(show: Show) -> float:
            if show.card in known:
                # A card that the suggester knows gives it nothing new.
                return 0.0
            category = next(cards for cards in self.game.deck.categories if show.card in cards)
            return 1.0 / len([card for card in category if card not in known])

        return min(self._shuffled(choices), key=cost)

    def accusation(self, may_suggest: bool) -> Triple | None:
        """Return the likeliest envelope if accusing it now wins more often than waiting."""
        if self.knowledge.entropy() > MAX_ENTROPY:
            return None
        envelope, probability = next(iter(self.knowledge.envelopes().items()))
        # Certain, up to rounding: no threshold is needed.
        if probability > 1 - 1e-9:
            return envelope
        # Seats that still take turns; those that are out cannot win.
        rivals = self.game.num_players - 1 - len(self.facts.seats_out)
        return envelope if probability > break_even(self.knowledge, rivals, may_suggest) else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        return QuestionValues(self.knowledge).best(self._shuffled(suggestions)).suggestion

    def room_value(self, room: str) -> float:
        """Return the estimated bits of the best question in the room."""
        return max(bits for triple, bits in self.estimates.items() if triple.room == room)

    @cached_property
    def estimates(self) -> dict[Triple, float]:
        """Estimated bits of all questions, until the next event."""
        return estimated_information(self.knowledge)
