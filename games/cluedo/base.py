"""Base of the game class: the parts that rules, inference, texts and views share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from arena.core.action import Action
from arena.core.action_set import ActionSet
from arena.core.game import Game
from games.cluedo.rules import board
from games.cluedo.rules.cards import Deck
from games.cluedo.rules.events import (
    END_TURN,
    PASSAGE,
    ROLL,
    Accuse,
    Move,
    MoveToSquare,
    Place,
    PlaySuspect,
    Show,
    Suggest,
)
from games.cluedo.rules.options import CluedoOptions

if TYPE_CHECKING:
    from games.cluedo.text.array_layout import ArrayLayout


class CluedoBase(Game, ABC):
    """Options, deck, seats and sets of actions; `Cluedo` adds the rest of the game.

    It is separate from `Cluedo`, so that the rules and the inference can import it without
    importing the modules that `Cluedo` uses.
    """

    name = "cluedo"
    Options = CluedoOptions
    options: CluedoOptions

    @cached_property
    def num_players(self) -> int:
        """Number of seats."""
        return self.options.players

    @cached_property
    def has_board(self) -> bool:
        """Whether the game is played on the board."""
        return self.options.variant == "classic"

    @cached_property
    def deck(self) -> Deck:
        """The cards of this game."""
        options = self.options
        sizes = (options.suspects, options.weapons, options.rooms)
        return Deck.of(options.theme, *sizes, options.names_seed)

    @cached_property
    def hand_sizes(self) -> tuple[int, ...]:
        """Number of cards of each seat.

        Cards are dealt one by one, so the first seats get the cards that are left over, unless
        those lie open on the table.
        """
        # Three cards lie in the envelope.
        share, extra = divmod(len(self.deck.cards) - 3, self.num_players)
        if self.options.leftover_cards == "open":
            extra = 0
        return tuple(share + (seat < extra) for seat in range(self.num_players))

    @cached_property
    def start_places(self) -> dict[str, Place]:
        """The place of each pawn before the first move; none without a board."""
        return dict(zip(self.deck.suspects, board.STARTS, strict=True)) if self.has_board else {}

    @property
    @abstractmethod
    def array_layout(self) -> ArrayLayout:
        """Places of the arrays of an observation in a block of bytes."""

    def refuters(self, suggester: int) -> tuple[int, ...]:
        """Return the seats asked to refute a suggestion, in order from the suggester's left."""
        return self._other_seats[suggester]

    @cached_property
    def _other_seats(self) -> tuple[tuple[int, ...], ...]:
        seats = range(self.num_players)
        return tuple((*seats[seat + 1 :], *seats[:seat]) for seat in seats)

    def _all_actions(self) -> Iterable[Action]:
        yield from (Suggest(*triple) for triple in self.deck.triples)
        yield from (Accuse(*triple) for triple in self.deck.triples)
        yield from (Show(card) for card in self.deck.cards)
        yield END_TURN
        if self.has_board:
            yield from (ROLL, PASSAGE)
            yield from (Move(room) for room in self.deck.rooms)
        if self.options.movement == "squares":
            yield from (MoveToSquare(square) for square in board.CORRIDOR)
        if self.options.choose_suspects:
            yield from (PlaySuspect(suspect) for suspect in self.deck.suspects)

    @cached_property
    def _action_sets(self) -> dict[object, ActionSet]:
        return {}

    def action_set(self, key: object, make: Callable[[], Iterable[Action]]) -> ActionSet:
        """Return the set of legal actions with this key; it is made once per game.

        Every observation refers to the game, so players can read these sets and their keys. Both
        must depend on public information only. For the same reason a set is complete: caches that
        fill up on use would show how other players have used it.
        """
        action_set = self._action_sets.get(key)
        if action_set is None:
            action_set = self._action_sets[key] = self.actions.subset(make()).complete()
        return action_set

    def suggestions(self, room: str | None = None) -> tuple[Suggest, ...]:
        """Return all suggestions, or those that name this room."""
        return tuple(Suggest(*t) for t in self.deck.triples if room in (None, t.room))

    @cached_property
    def shows(self) -> dict[str, Show]:
        """The action that shows each card of the deck."""
        return {action.card: action for action in self.actions if isinstance(action, Show)}

    @cached_property
    def moves(self) -> dict[Place, Move | MoveToSquare]:
        """The action that moves the pawn to each room and each corridor square, if there is one."""
        # Those of the table: a look-up of another, equal action takes twice as long.
        rooms = {action.room: action for action in self.actions if isinstance(action, Move)}
        squares = {a.square: a for a in self.actions if isinstance(a, MoveToSquare)}
        return rooms | squares

    @cached_property
    def accusations(self) -> tuple[Accuse, ...]:
        """All accusations."""
        return tuple(Accuse(*triple) for triple in self.deck.triples)

    # Sets of legal actions. All depend on public information only, see `action_set`.

    @property
    def accuse_or_end(self) -> ActionSet:
        """The actions after a suggestion: accuse or end the turn."""
        return self.action_set("accuse", lambda: (*self.accusations, END_TURN))

    def question_actions(self, room: str | None) -> ActionSet:
        """Return the actions after moving: suggest, accuse or end the turn.

        With a board, a suggestion must name the room that the pawn is in.
        """
        return self.action_set(
            ("suggest", room), lambda: (*self.suggestions(room), *self.accusations, END_TURN)
        )

    def move_actions(self, room: str | None) -> ActionSet:
        """Return the rooms to move to: all but the one that the pawn is in."""
        return self.action_set(
            ("move", room), lambda: (Move(other) for other in self.deck.rooms if other != room)
        )

    def suspect_actions(self, taken: tuple[str, ...]) -> ActionSet:
        """Return the choices among the suspects that no earlier seat has taken."""
        return self.action_set(
            ("play", *sorted(taken)),
            lambda: (PlaySuspect(each) for each in self.deck.suspects if each not in taken),
        )

    def turn_start_actions(self, room: str | None, blocked: bool, may_stay: bool) -> ActionSet:
        """Return the first actions of a turn on the board.

        Args:
            room: The room of the pawn; None in a corridor.
            blocked: The pawn cannot take a step. Its player ends the turn instead of rolling.
            may_stay: The pawn was summoned to this room, so its player may suggest at once.
        """

        def make() -> Iterator[Action]:
            yield END_TURN if blocked else ROLL
            if room in board.PASSAGES:
                yield PASSAGE
            if may_stay:
                yield from self.suggestions(room)
            yield from self.accusations

        return self.action_set(("start", room, blocked, may_stay), make)
