"""Actions, events and options of Cluedo, and what follows from the options.

The options cover the differences between editions; the deck, the seats and the sets of legal
actions follow from them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from arena import Action, Event, GameOptions
from arena.core.action_set import ActionSet
from arena.core.event import PrivateEvent
from arena.core.game import Game
from games.cluedo.rules.board import PASSAGES, STARTS, Deck, Place, ThemeName, Triple

# Actions


PawnMovement = Literal["walks", "passage", "summoned", "steps aside"]
"""The way in which a pawn gets to a place."""


class NamesTriple:
    """Mixin of actions and events that name a suspect, a weapon and a room."""

    __slots__ = ()
    suspect: str
    weapon: str
    room: str

    @property
    def triple(self) -> Triple:
        return Triple(self.suspect, self.weapon, self.room)


@dataclass(frozen=True, slots=True)
class Suggest(NamesTriple, Action, template="suggest {self.suspect}, {self.weapon}, {self.room}"):
    """Suggest three cards; the other seats are asked to refute."""

    suspect: str
    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Accuse(NamesTriple, Action, template="accuse {self.suspect}, {self.weapon}, {self.room}"):
    """Accuse: win if these are the cards in the envelope, else make no more moves."""

    suspect: str
    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Show(Action, template="show {self.card}"):
    """Show one of several cards that refute the suggestion."""

    card: str


@dataclass(frozen=True, slots=True)
class Roll(Action, template="roll"):
    """Throw the dice."""


@dataclass(frozen=True, slots=True)
class Passage(Action, template="passage"):
    """Take the secret passage of the room instead of throwing the dice."""


@dataclass(frozen=True, slots=True)
class Move(Action, template="move {self.room}"):
    """Enter a room if the throw reaches it, else go towards it as far as the throw allows."""

    room: str


@dataclass(frozen=True, slots=True)
class EndTurn(Action, template="end turn"):
    """End the turn."""


ROLL, PASSAGE, END_TURN = Roll(), Passage(), EndTurn()


@dataclass(frozen=True, slots=True)
class DealCards(Action):
    """Chance: deal the envelope, each seat's hand, and the cards that lie open."""

    envelope: Triple
    hands: tuple[tuple[str, ...], ...]
    open_cards: tuple[str, ...] = ()

    def __str__(self) -> str:
        piles = (self.envelope, *self.hands, self.open_cards)
        return "deal " + " | ".join(", ".join(pile) for pile in piles)


@dataclass(frozen=True, slots=True)
class Throw(Action, template="throw {self.first} {self.second}"):
    """Chance: the result of two dice."""

    first: int
    second: int


# Events


@dataclass(frozen=True, slots=True)
class Dealt(Event):
    """Public: the number of cards of each seat, and the cards that lie open."""

    hand_sizes: tuple[int, ...]
    open_cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandDealt(PrivateEvent):
    """Private: the cards of one player."""

    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnBegan(Event):
    """The turn of a player starts."""

    player: int
    turn: int


@dataclass(frozen=True, slots=True)
class DiceThrown(Event):
    """Public: the result of two dice."""

    player: int
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class PawnMoved(Event):
    """A suspect's pawn moves to a room or a square."""

    suspect: str
    place: Place
    how: PawnMovement


@dataclass(frozen=True, slots=True)
class WeaponMoved(Event):
    """The token of the suggested weapon moves to the suggested room."""

    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Suggested(NamesTriple, Event):
    """A player makes a suggestion."""

    player: int
    suspect: str
    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Unable(Event):
    """These seats, asked in this order, hold none of the three cards."""

    players: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refuted(Event):
    """Public: a seat shows a card to the suggester; the card stays hidden."""

    player: int
    suggester: int


@dataclass(frozen=True, slots=True)
class CardShown(Event):
    """Private to refuter and suggester: the card that is shown."""

    player: int
    suggester: int
    card: str

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player, self.suggester)


@dataclass(frozen=True, slots=True)
class Accused(NamesTriple, Event):
    """A player makes an accusation, with its result."""

    player: int
    suspect: str
    weapon: str
    room: str
    correct: bool


@dataclass(frozen=True, slots=True)
class EnvelopeSeen(PrivateEvent):
    """Private to a false accuser: the contents of the envelope."""

    envelope: Triple


# Options


class CluedoOptions(GameOptions):
    """Options of `cluedo`.

    The rules follow the Waddingtons/Parker Brothers rule sheets of the classic board (in print from
    1949 to the early 2000s). An option decides each point on which these sheets differ or are
    silent.
    """

    variant: Literal["cards", "classic"] = Field(
        "cards",
        description="'classic' has the board, dice and secret passages; in 'cards' there is no "
        "board and a suggestion may name any room (the usual research setting).",
    )
    players: int = Field(
        4,
        ge=2,
        le=6,
        description="Number of seats. The printed rules allow 3 to 6; 2 is meant for training.",
    )
    theme: ThemeName = Field(
        "uk",
        description="Card names of the UK (Cluedo) or the US (Clue) edition, or 'generated': "
        "invented names from `names_seed`, so that nothing can be learned by heart; deck sizes "
        "are then free, 3 to 12 cards per category.",
    )
    leftover_cards: Literal["dealt", "open"] = Field(
        "dealt",
        description="Cards that do not divide evenly among the seats: 'dealt' to the first seats "
        "(classic sheets), or 'open' on the table (some later editions).",
    )
    summoned_may_suggest: bool = Field(
        True,
        description="A player whose pawn was summoned since its last turn may suggest in that room "
        "without moving (in most sheets; the shortest ones omit this rule).",
    )
    suspects: int = Field(
        6, ge=2, le=12, description="Suspects in the deck; over 6 need theme 'generated'."
    )
    weapons: int = Field(
        6, ge=2, le=12, description="Weapons in the deck; over 6 need theme 'generated'."
    )
    rooms: int = Field(
        9, ge=2, le=12, description="Rooms in the deck; over 9 need theme 'generated'."
    )
    names_seed: int = Field(
        0,
        ge=0,
        le=2**31 - 1,
        description="Seed of the invented names of theme 'generated'. With another theme, a seed "
        "above 0 shuffles each category before the deck is made of its first cards.",
    )

    @model_validator(mode="after")
    def _check_deck(self) -> Self:
        sizes = {"suspects": self.suspects, "weapons": self.weapons, "rooms": self.rooms}
        printed = {"suspects": 6, "weapons": 6, "rooms": 9}
        # The board has a start square for each suspect, and doors for each printed room.
        if self.variant == "classic" and (sizes != printed or self.theme == "generated"):
            raise ValueError(
                "the classic board needs all 6 suspects, 6 weapons and 9 rooms of theme 'uk' or "
                "'us'; for another deck use variant 'cards'"
            )
        for kind, size in sizes.items():
            if self.theme == "generated" and size < 3:
                raise ValueError(f"theme 'generated' needs 3 to 12 {kind}, not {size}")
            if self.theme != "generated" and size > printed[kind]:
                raise ValueError(
                    f"theme '{self.theme}' has {printed[kind]} {kind}, not {size}; "
                    "for more use theme 'generated'"
                )
        if self.variant == "classic" and self.names_seed:
            raise ValueError("names_seed needs variant 'cards'; the names on the board are printed")
        if sum(sizes.values()) - 3 < self.players:
            raise ValueError(f"the deck is too small for {self.players} players: one card for each")
        return self


class CluedoSetting(Game, ABC):
    """Options, deck, seats and sets of legal actions; `Cluedo` adds the positions.

    It is separate from `Cluedo`, because positions refer to it.
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
        """True if the game is played on the board."""
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
        return dict(zip(self.deck.suspects, STARTS, strict=True)) if self.has_board else {}

    def refuters(self, suggester: int) -> tuple[int, ...]:
        """Return the seats asked to refute a suggestion, in order from the suggester's left."""
        return self._other_seats[suggester]

    @cached_property
    def _other_seats(self) -> tuple[tuple[int, ...], ...]:
        seats = range(self.num_players)
        return tuple((*seats[seat + 1 :], *seats[:seat]) for seat in seats)

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The number of each seat, per viewer, counted from the viewer's own in turn order."""
        seats = range(self.num_players)
        return tuple(tuple((seat - viewer) % len(seats) for seat in seats) for viewer in seats)

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

    def turn_start_actions(self, room: str | None, blocked: bool, may_stay: bool) -> ActionSet:
        """Return the first actions of a turn on the board.

        Args:
            room: The room of the pawn; None in a corridor.
            blocked: The pawn cannot take a step. Its player ends the turn instead of rolling.
            may_stay: The pawn was summoned to this room, so its player may suggest at once.
        """

        def make() -> Iterator[Action]:
            yield END_TURN if blocked else ROLL
            if room in PASSAGES:
                yield PASSAGE
            if may_stay:
                yield from self.suggestions(room)
            yield from self.accusations

        return self.action_set(("start", room, blocked, may_stay), make)
