"""What the rules, the inference, the texts and the views share of a game of Cluedo."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from arena.core.action import Action, ActionSet
from arena.core.game import Game
from games.cluedo.rules.cards import Deck
from games.cluedo.rules.events import END_TURN, PASSAGE, ROLL, Accuse, Move, Show, Suggest
from games.cluedo.rules.options import CluedoOptions


class CluedoBase(Game, ABC):
    """Options, deck, seats and sets of actions; `Cluedo` adds the rest of the game."""

    name = "cluedo"
    Options = CluedoOptions
    options: CluedoOptions

    @cached_property
    def num_players(self) -> int:
        return self.options.players

    @cached_property
    def has_board(self) -> bool:
        return self.options.variant == "classic"

    @cached_property
    def deck(self) -> Deck:
        options = self.options
        return Deck.of(options.theme, options.suspects, options.weapons, options.rooms)

    @cached_property
    def hand_sizes(self) -> tuple[int, ...]:
        return self.deck.hand_sizes(self.num_players, self.options.leftover_cards == "open")

    def refuters(self, suggester: int) -> Iterator[int]:
        """Seats asked to disprove a suggestion, in turn order from the suggester's left."""
        return ((suggester + step) % self.num_players for step in range(1, self.num_players))

    def _all_actions(self) -> Iterable[Action]:
        yield from (Suggest(*triple) for triple in self.deck.triples)
        yield from (Accuse(*triple) for triple in self.deck.triples)
        yield from (Show(card) for card in self.deck.cards)
        yield END_TURN
        if self.has_board:
            yield from (ROLL, PASSAGE)
            yield from (Move(room) for room in self.deck.rooms)

    @cached_property
    def _action_sets(self) -> dict[object, ActionSet]:
        return {}

    def action_set(self, key: object, make: Callable[[], Iterable[Action]]) -> ActionSet:
        """Sets of legal actions recur: each is made once per game and kept under its key."""
        found = self._action_sets.get(key)
        if found is None:
            found = self._action_sets[key] = self.actions.subset(make())
        return found

    def suggestions(self, room: str | None = None) -> tuple[Suggest, ...]:
        """All suggestions, or those that name this room."""
        return tuple(Suggest(*t) for t in self.deck.triples if room in (None, t.room))

    @cached_property
    def accusations(self) -> tuple[Accuse, ...]:
        return tuple(Accuse(*triple) for triple in self.deck.triples)
