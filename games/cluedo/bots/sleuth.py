"""What novice, detective and oracle share: the notebook, the order of a turn, walking about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from arena import Action, ActionSet, Decision, Event, Observation, Seat
from games.cluedo.base import CluedoBase
from games.cluedo.rules import board
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import END_TURN, PASSAGE, ROLL, Accuse, Move, Show, Suggest
from games.cluedo.text.notebook import Notebook

A = TypeVar("A", bound=Action)


class Sleuth(ABC):
    """What novice, detective and oracle share: the notebook, and the order of a turn."""

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, CluedoBase)
        self.game = seat.game
        self.player = seat.player
        self.rng = seat.rng
        self.notebook = Notebook(self.game, seat.player)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        for event in observation.events_since(self._read):
            self.notebook.update(event)
            self.watch(event)
        self._read = observation.num_events
        return Decision(self.choose(observation.legal_actions))

    def watch(self, event: Event) -> None:  # noqa: B027 - some keep nothing more.
        """Take in an event beyond what the notebook holds."""

    def choose(self, legal: ActionSet) -> Action:
        if isinstance(legal[0], Show):
            return self.show(legal.of(Show))
        if isinstance(legal[0], Move):
            return self.move(legal.of(Move))
        suggestions = legal.of(Suggest)
        accusation = self.accusation(may_suggest=bool(suggestions) or ROLL in legal)
        if accusation:
            return Accuse(*accusation)
        if ROLL in legal or PASSAGE in legal:
            return self.set_out(legal, suggestions)
        return self.suggest(suggestions) if suggestions else END_TURN

    def show(self, choices: Sequence[Show]) -> Action:
        return self.rng.choice(choices)

    @abstractmethod
    def accusation(self, may_suggest: bool) -> Triple | None:
        """What to accuse now, if anything; `may_suggest` says whether a question is still free."""

    @abstractmethod
    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        """One of the suggestions."""

    @abstractmethod
    def worth(self, room: str) -> float:
        """How much a suggestion in `room` is worth; 0 is nothing."""

    # Moving about, with a board

    @property
    def place(self) -> int | str:
        return self.notebook.places[self.game.deck.suspects[self.player]]

    def move(self, moves: Sequence[Move]) -> Action:
        """A room worth a suggestion that this throw reaches, else the best one to head for."""
        squares = self.notebook.other_squares

        def value(move: Move) -> float:
            walk = board.walk(self.place, move.room, self.notebook.throw, squares)
            steps = 0 if walk.enters else board.steps_to(self.place, move.room)
            return self._value_at(move.room, steps)

        return max(self._shuffled(moves), key=value)

    def set_out(self, legal: ActionSet, suggestions: Sequence[Suggest]) -> Action:
        """Suggest here if summoned, take a passage, or throw the dice: whatever promises most."""
        here, options = self.place, list[tuple[float, Action]]()
        if suggestions:
            options.append((self._value_at(suggestions[0].room, 0), self.suggest(suggestions)))
        if PASSAGE in legal:
            options.append((self._value_at(board.PASSAGES[str(here)], 0), PASSAGE))
        if ROLL in legal:
            rooms = [room for room in self.game.deck.rooms if room != here]
            best = max(self._value_at(room, board.steps_to(here, room)) for room in rooms)
            options.append((best, ROLL))
        return max(options, key=lambda option: option[0])[1]

    def _value_at(self, room: str, steps: int) -> float:
        """A suggestion later is worth less: by half for each further throw of seven."""
        return float((self.worth(room) + 0.01) * 0.5 ** (steps / 7))

    def _shuffled(self, moves: Sequence[A]) -> list[A]:
        return self.rng.sample(moves, len(moves))


class Eliminator(Sleuth):
    """Keeps a list of cards that may be in the envelope and asks about those."""

    @abstractmethod
    def suspected(self, cards: Sequence[str]) -> list[str]:
        """Those of one kind that may be in the envelope."""

    def accusation(self, may_suggest: bool) -> Triple | None:
        left = [self.suspected(cards) for cards in self.game.deck.categories]
        return Triple(*(cards[0] for cards in left)) if all(len(c) == 1 for c in left) else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        """A suspected card of each kind; of a kind that is solved, a card of one's own."""
        wanted = [self._worth_asking(cards) for cards in self.game.deck.categories]

        def interest(suggestion: Suggest) -> int:
            return sum(c in cards for c, cards in zip(suggestion.triple, wanted, strict=True))

        return max(self._shuffled(suggestions), key=interest)

    def worth(self, room: str) -> float:
        return float(room in self._worth_asking(self.game.deck.rooms))

    def _worth_asking(self, cards: Sequence[str]) -> list[str]:
        left = self.suspected(cards)
        own = [card for card in cards if card in self.notebook.hand]
        return own if len(left) == 1 and own else left
