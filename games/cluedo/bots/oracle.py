"""The strongest bot: exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from arena import Action, Event, Observation, Seat
from games.cluedo.bots.logic import CluedoBot
from games.cluedo.inference.information import QuestionValues, estimated_information
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.rivals import solving_chances, waiting_value
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Show, Suggest, Suggested

MAX_ENTROPY = 2.5
"""Entropy of the envelope in bits above which an accusation is not considered, which saves time."""


class Oracle(CluedoBot):
    """Bot that acts on exact probabilities.

    Its question is the best by exact expected information, or nearly the best (see
    `QuestionValues.best`). It accuses when accusing wins more often than waiting, which it judges
    by what its rivals can know (see `rivals`).
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player)
        self.events = list[Event]()

    def observe_event(self, event: Event) -> None:
        self.events.append(event)
        self.knowledge.update(event)
        self.__dict__.pop("estimates", None)  # Clears the cached property.

    def show(self, choices: Sequence[Show]) -> Action:
        """Show a card that gives little information.

        Prefer a card that the suggester has seen, else a card of the category with the most cards
        that the suggester has not seen from this seat.
        """
        # Only the player in turn makes suggestions.
        suggester = self.notebook.in_turn
        known = self.notebook.shown_to.get(suggester, set())

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
        # Rivals that still take turns; those who are out cannot win.
        rivals = [r for r in self.game.refuters(self.player) if r not in self.notebook.out]
        # Asking first costs nothing, and without rivals there is no hurry.
        if may_suggest or not rivals:
            return None
        chances = solving_chances(self.knowledge, self.events, rivals)
        waiting = waiting_value(self.knowledge.entropy(), chances)
        return envelope if probability > waiting else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        return QuestionValues(self.knowledge).best(self._shuffled(suggestions)).suggestion

    def room_value(self, room: str) -> float:
        """Return the estimated bits of the best question in the room."""
        return max(bits for triple, bits in self.estimates.items() if triple.room == room)

    @cached_property
    def estimates(self) -> dict[Triple, float]:
        """Estimated bits of all questions, until the next event."""
        return estimated_information(self.knowledge)


FIRST_QUESTIONS = 3
"""Questions of a rival that `QuestionReader` reads. Later ones may name an own card, in a category
that the rival has solved."""


class QuestionReader(Oracle):
    """Oracle that also reads the first questions of its rivals: they do not hold what they name.

    True of players that ask about cards which may be in the envelope, as `Novice` and `Detective`
    do, but not of an oracle. Where no deal is consistent with that, it knows the facts only.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.facts = self.knowledge
        self._named: dict[int, list[Triple]] = {}

    def read_events(self, observation: Observation) -> None:
        self.knowledge = self.facts  # What the base class updates.
        super().read_events(observation)
        absent = [
            (rival, card)
            for rival, triples in self._named.items()
            for triple in triples[:FIRST_QUESTIONS]
            for card in triple
        ]
        self.knowledge = self.facts.assuming(absent) or self.facts

    def observe_event(self, event: Event) -> None:
        super().observe_event(event)
        if isinstance(event, Suggested) and event.player != self.player:
            self._named.setdefault(event.player, []).append(event.triple)
