"""The bots, a ladder: each rung beats the one below it.

- `Random`: any legal move; accuses at random, rarely.
- `Novice`: crosses off only the cards it was shown.
- `Detective`: knows everything that logically follows; suggests what it does not know.
- `Oracle`: exact probabilities; asks for the most information, accuses when that pays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from arena import Action, ActionSet, Decision, Event, Observation, Seat
from games.cluedo import board
from games.cluedo.cards import Triple
from games.cluedo.events import (
    END_TURN,
    PASSAGE,
    ROLL,
    Accuse,
    Move,
    Passage,
    Roll,
    Show,
    Suggest,
    Unable,
)
from games.cluedo.game import Cluedo
from games.cluedo.knowledge import CluedoKnowledge
from games.cluedo.notebook import Notebook

A = TypeVar("A", bound=Action)


class Random:
    """Chooses a kind of action, then one of the kind; accuses one time in fifty that it may."""

    ACCUSES = 0.02

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        accusations = legal.of(Accuse)
        if accusations and self._rng.random() < self.ACCUSES:
            return Decision(self._rng.choice(accusations))
        # Passing all the time would be legal and no game at all.
        moves = [*legal.of(Suggest), *legal.of(Show), *legal.of(Move)]
        moves += [*legal.of(Roll), *legal.of(Passage)]
        return Decision(self._rng.choice(moves or [END_TURN]))


class Sleuth:
    """What novice, detective and oracle share: the notebook, and the order of a turn."""

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Cluedo)
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

    def watch(self, event: Event) -> None:
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
        pawn = self.game.deck.suspects[self.player]
        squares = board.bits(
            place
            for suspect, place in self.notebook.places.items()
            if suspect != pawn and isinstance(place, int)
        )

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


class Novice(Eliminator):
    """Crosses off its own cards and those it was shown.

    Of all that is said at the table it notices one thing: that nobody could refute it.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._solved: set[str] = set()

    def watch(self, event: Event) -> None:
        everybody = self.game.num_players - 1
        if isinstance(event, Unable) and len(event.players) == everybody:
            asked = self.notebook.suggestion if self.notebook.in_turn == self.player else None
            self._solved.update(card for card in asked or () if not self.notebook.seen(card))

    def suspected(self, cards: Sequence[str]) -> list[str]:
        solved = [card for card in cards if card in self._solved]
        return solved or [card for card in cards if not self.notebook.seen(card)]


class Detective(Eliminator):
    """Knows everything that logically follows from all it has heard."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player, "logic")

    def watch(self, event: Event) -> None:
        self.knowledge.update(event)

    def suspected(self, cards: Sequence[str]) -> list[str]:
        possible = self.knowledge.possible()[:, self.knowledge.envelope]
        return [card for card in cards if possible[self.game.deck.index[card]]]


class Oracle(Sleuth):
    """Computes what can be computed, and acts on it."""

    EXACT = 6
    """Suggestions whose expected information is computed exactly; an estimate picks them."""
    RIVALS = 0.5
    """How likely a rival is to solve the case in its next turn when the oracle is down to two
    envelopes. Rivals are taken to know about as much as the oracle does."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player)

    def watch(self, event: Event) -> None:
        self.knowledge.update(event)
        self.__dict__.pop("estimates", None)

    def show(self, choices: Sequence[Show]) -> Action:
        """The card that tells least: one already shown to this player, else one of many alike."""
        suggester = self.notebook.in_turn
        known = self.notebook.shown_to.get(suggester, set())

        def bits(show: Show) -> float:
            if show.card in known:
                return 0.0
            kind = next(cards for cards in self.game.deck.categories if show.card in cards)
            return 1.0 / len([card for card in kind if card not in known])

        return min(self._shuffled(choices), key=bits)

    def accusation(self, may_suggest: bool) -> Triple | None:
        """The likeliest envelope, if accusing now wins at least as often as waiting would."""
        if self.knowledge.entropy() > 2.5:
            return None
        envelope, probability = next(iter(self.knowledge.envelopes().items()))
        if probability > 1 - 1e-9:
            return envelope
        if may_suggest:
            return None
        rivals = self.game.num_players - 1 - len(self.notebook.out)
        threat = self.RIVALS * 2 ** (1 - self.knowledge.entropy())
        return envelope if probability > (1 - threat) ** rivals else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        scores = self.estimates
        ranked = sorted(self._shuffled(suggestions), key=lambda s: -scores[s.triple])
        return max(
            ranked[: self.EXACT], key=lambda s: self.knowledge.expected_information(s.triple)
        )

    def worth(self, room: str) -> float:
        return max(score for triple, score in self.estimates.items() if triple.room == room)

    @cached_property
    def estimates(self) -> dict[Triple, float]:
        """Expected information of every suggestion in bits, as if cards were held independently.

        Seeing card x rules it out of the envelope: -log2(1 - P(x in the envelope)) bits. If nobody
        can refute, that is a surprise worth -log2 of its probability.
        """
        marginals = self.knowledge.marginals()
        triples = self.game.deck.triples
        index = self.game.deck.index
        named = np.array([[index[card] for card in triple] for triple in triples])
        ruled_out = -np.log2(np.maximum(1 - marginals[:, self.knowledge.envelope], 1e-3))
        asked = np.ones(len(triples))
        score = np.zeros(len(triples))
        for refuter in self.game.refuters(self.player):
            holds: NDArray[np.float64] = marginals[named, refuter]
            shows = asked * (1 - np.prod(1 - holds, axis=1))
            share = holds / np.maximum(holds.sum(axis=1, keepdims=True), 1e-12)
            score += shows * (share * ruled_out[named]).sum(axis=1)
            asked = asked - shows
        nobody = np.maximum(asked, 1e-12)
        score += nobody * -np.log2(nobody)
        return dict(zip(triples, score.tolist(), strict=True))
