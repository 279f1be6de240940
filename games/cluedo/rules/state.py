"""The rules of Cluedo.

A turn: move (`classic` only), suggest, accuse. A suggestion is put to the others in turn order from
the suggester's left; the first who holds one of the three cards shows one, privately, and chooses
which if there are several. The rules alone decide who can refute: no fault of a player can turn
into "cannot refute". Showing is a move of its own even if there is just one card to show, so that
nobody learns from the course of the game whether the refuter had a choice.

An accusation ends the turn. If it is right the game is won; if it is false, the accuser looks into
the envelope, makes no more moves, and goes on refuting; its pawn, if it stands before a door, steps
into the room, so that it blocks nobody for ever. The last player left plays on alone: a win is
always a right accusation. A win returns 1, everything else 0.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from arena import (
    CHANCE,
    Action,
    ActionSet,
    InvalidAction,
    State,
)
from games.cluedo.rules import board
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    END_TURN,
    PASSAGE,
    ROLL,
    Accuse,
    Accused,
    CardShown,
    Deal,
    Dealt,
    DiceThrown,
    EndTurn,
    EnvelopeSeen,
    HandDealt,
    Move,
    Passage,
    PawnMoved,
    Place,
    Refuted,
    Roll,
    Show,
    Suggest,
    Suggested,
    Throw,
    TurnBegan,
    Unable,
    Walking,
    WeaponMoved,
)

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase


class Phase(Enum):
    """Where in a turn the game stands."""

    DEAL = auto()
    START = auto()
    DICE = auto()
    MOVE = auto()
    SUGGEST = auto()
    REFUTE = auto()
    ACCUSE = auto()
    OVER = auto()


class CluedoState(State):
    """A position of Cluedo. Hands, envelope and pawns are replaced, never changed in place."""

    game: CluedoBase

    def __init__(self, game: CluedoBase) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.phase = Phase.DEAL
        self.envelope: Triple | None = None
        self.hands: tuple[frozenset[str], ...] = ()
        self.player = 0
        self.out = frozenset[int]()
        self.winner: int | None = None
        self.suggestion: Triple | None = None
        self.choices: tuple[str, ...] = ()
        self.places: dict[str, Place] = {}
        self.weapons: dict[str, str] = {}
        """The rooms that weapons have been brought to; the others lie beside the board."""
        self.squares = 0
        """The corridor squares with a pawn on them, one bit per square."""
        self.summoned = frozenset[str]()
        self.throw = 0
        if game.has_board:
            self.places = dict(zip(game.deck.suspects, board.STARTS, strict=True))
            self.squares = board.bits(board.STARTS)

    def clone(self) -> CluedoState:
        twin = super().clone()
        twin.places = self.places.copy()
        twin.weapons = self.weapons.copy()
        return twin

    # What may be done

    def _legal_actions(self, player: int) -> ActionSet:
        game = self.game
        match self.phase:
            case Phase.REFUTE:
                return game.action_set(self.choices, lambda: map(Show, self.choices))
            case Phase.ACCUSE:
                return game.action_set(Phase.ACCUSE, lambda: (*game.accusations, END_TURN))
            case Phase.MOVE:
                return self._ways_to_go()
            case Phase.START if game.has_board:
                return self._ways_to_begin()
            case _:
                return self._ways_to_ask()

    def _ways_to_ask(self) -> ActionSet:
        """Suggest, with a board in the room that the pawn is in; or accuse, or do neither."""
        game, room = self.game, self.room
        return game.action_set(
            (Phase.SUGGEST, room),
            lambda: (*game.suggestions(room), *game.accusations, END_TURN),
        )

    def _ways_to_go(self) -> ActionSet:
        """Any room but the one the pawn is in."""
        game, room = self.game, self.room
        return game.action_set(
            (Phase.MOVE, room), lambda: (Move(other) for other in game.deck.rooms if other != room)
        )

    def _ways_to_begin(self) -> ActionSet:
        """With a board: throw the dice, take a passage, suggest if summoned here, accuse."""
        room = self.room
        stuck = not self._can_step_away()
        stays = room is not None and self.pawn in self.summoned

        def make() -> Iterator[Action]:
            yield END_TURN if stuck else ROLL
            if room in board.PASSAGES:
                yield PASSAGE
            if stays:
                yield from self.game.suggestions(room)
            yield from self.game.accusations

        return self.game.action_set((Phase.START, room, stuck, stays), make)

    # What happens

    def _apply(self, player: int, action: Action) -> None:
        _CARRY_OUT[type(action)](self, action)

    def _deal(self, deal: Deal) -> None:
        self.envelope = deal.envelope
        self.hands = tuple(map(frozenset, deal.hands))
        log = self.log
        log.append(Dealt(tuple(map(len, deal.hands)), deal.open_cards))
        for player, cards in enumerate(deal.hands):
            log.append(HandDealt(player, cards))
        self._begin_turn(0)

    def _begin_turn(self, player: int) -> None:
        self.player = player
        self.turn += 1
        self.to_act = (player,)
        self.phase = Phase.START
        self.log.append(TurnBegan(player, self.turn))

    def _end_turn(self, _: Action | None = None) -> None:
        """The next player in turn order who has not made a false accusation."""
        if self.summoned:
            self.summoned -= {self.pawn}
        player = self.player
        for _step in range(self.game.num_players):
            player = (player + 1) % self.game.num_players
            if player not in self.out:
                self._begin_turn(player)
                return
        self._finish()

    def _finish(self) -> None:
        self.phase = Phase.OVER
        self.to_act = ()

    def _roll(self, _: Roll) -> None:
        self.phase = Phase.DICE
        self.to_act = (CHANCE,)

    def _throw(self, dice: Throw) -> None:
        self.throw = dice.first + dice.second
        self.phase = Phase.MOVE
        self.to_act = (self.player,)
        self.log.append(DiceThrown(self.player, dice.first, dice.second))

    def _move(self, move: Move) -> None:
        walk = board.walk(self.places[self.pawn], move.room, self.throw, self._other_squares())
        if walk.enters:
            self._enter(move.room, "walks")
        else:
            if walk.square is not None:
                self._put(self.pawn, walk.square, "walks")
            self.phase = Phase.ACCUSE

    def _passage(self, _: Passage) -> None:
        assert self.room is not None
        self._enter(board.PASSAGES[self.room], "passage")

    def _enter(self, room: str, how: Walking) -> None:
        """Entering a room ends the move."""
        self._put(self.pawn, room, how)
        self.phase = Phase.SUGGEST

    def _suggest(self, suggestion: Suggest) -> None:
        self.log.append(
            Suggested(self.player, suggestion.suspect, suggestion.weapon, suggestion.room)
        )
        if self.game.has_board:
            self._summon(suggestion)
        named = (suggestion.suspect, suggestion.weapon, suggestion.room)
        unable: list[int] = []
        for refuter in self.game.refuters(self.player):
            hand = self.hands[refuter]
            cards = tuple([card for card in named if card in hand])
            if cards:
                break
            unable.append(refuter)
        if unable:
            self.log.append(Unable(tuple(unable)))
        if cards:
            self.log.append(Refuted(refuter, self.player))
            self.phase = Phase.REFUTE
            self.choices = cards
            self.to_act = (refuter,)
        else:
            self.phase = Phase.ACCUSE

    def _summon(self, suggestion: Suggest) -> None:
        """Pawn and weapon come to the room; whoever plays the pawn may suggest there next turn."""
        suspect, weapon, room = suggestion.triple
        if self.weapons.get(weapon) != room:
            self.weapons[weapon] = room
            self.log.append(WeaponMoved(weapon, room))
        if self.places[suspect] == room:
            return
        self._put(suspect, room, "summoned")
        if self.game.options.summoned_may_suggest:
            self.summoned |= {suspect}

    def _show(self, show: Show) -> None:
        self.log.append(CardShown(self.to_act[0], self.player, show.card))
        self.phase = Phase.ACCUSE
        self.to_act = (self.player,)

    def _accuse(self, accusation: Accuse) -> None:
        triple = accusation.triple
        correct = triple == self.envelope
        self.log.append(Accused(self.player, *triple, correct=correct))
        if correct:
            self.winner = self.player
            self._finish()
            return
        assert self.envelope is not None
        self.log.append(EnvelopeSeen(self.player, self.envelope))
        self.out |= {self.player}
        if self.game.has_board:
            self._step_aside()
        self._end_turn()

    def _step_aside(self) -> None:
        """A false accuser's pawn must not block a door for ever: it goes into the room."""
        place = self.places[self.pawn]
        if isinstance(place, int):
            for room, doorsteps in board.OUTSIDE.items():
                if doorsteps >> place & 1:
                    self._put(self.pawn, room, "steps aside")

    # The board

    @property
    def pawn(self) -> str:
        """The suspect whom the player in turn plays."""
        return self.game.deck.suspects[self.player]

    @property
    def room(self) -> str | None:
        """The room that this pawn is in; None in a corridor, or without a board."""
        place = self.places.get(self.pawn) if self.places else None
        return place if isinstance(place, str) else None

    def _put(self, suspect: str, place: Place, how: Walking) -> None:
        before = self.places[suspect]
        if isinstance(before, int):
            self.squares ^= 1 << before
        if isinstance(place, int):
            self.squares |= 1 << place
        self.places[suspect] = place
        self.log.append(PawnMoved(suspect, place, how))

    def _other_squares(self) -> int:
        """The corridor squares that other pawns stand on."""
        place = self.places[self.pawn]
        return self.squares & ~(1 << place) if isinstance(place, int) else self.squares

    def _can_step_away(self) -> bool:
        place, occupied = self.places[self.pawn], self._other_squares()
        if isinstance(place, str):
            return board.can_leave(place, occupied)
        return bool(board.neighbours(1 << place) & board.WALKABLE & ~occupied) or any(
            (1 << place) & doorstep for doorstep in board.OUTSIDE.values()
        )

    # Chance and the end

    def _is_possible(self, action: Action) -> bool:
        if self.phase is Phase.DICE:
            return isinstance(action, Throw) and {action.first, action.second} <= set(range(1, 7))
        return isinstance(action, Deal) and self._is_whole(action)

    def _is_whole(self, deal: Deal) -> bool:
        """Whether every card of the deck is dealt once, and each pile is as it should be."""
        deck = self.game.deck
        dealt = [*deal.envelope, *deal.open_cards, *(card for hand in deal.hands for card in hand)]
        return (
            len(dealt) == len(deck.cards)
            and set(dealt) == set(deck.cards)
            and tuple(map(len, deal.hands)) == self.game.hand_sizes
            and len(deal.envelope) == 3
            and all(map(operator.contains, deck.categories, deal.envelope))
        )

    def sample_chance(self, rng: random.Random) -> Action:
        if self.phase is Phase.DICE:
            return Throw(rng.randint(1, 6), rng.randint(1, 6))
        deck = self.game.deck
        envelope = Triple(*(rng.choice(cards) for cards in deck.categories))
        rest = [card for card in deck.cards if card not in envelope]
        rng.shuffle(rest)
        hands, given = [], 0
        for size in self.game.hand_sizes:
            hands.append(deck.sort(rest[given : given + size]))
            given += size
        return Deal(envelope, tuple(hands), deck.sort(rest[given:]))

    def parse(self, text: str) -> Action:
        if self.phase is Phase.DEAL:
            return self._parse_deal(text)
        if self.phase is Phase.DICE:
            dice = re.fullmatch(r"throw ([1-6]) ([1-6])", text)
            if not dice:
                raise InvalidAction(f"'{text}' is no throw of two dice")
            return Throw(int(dice[1]), int(dice[2]))
        return super().parse(text)

    def _parse_deal(self, text: str) -> Deal:
        """Undo `str(Deal)`; raises InvalidAction unless it deals the whole deck, in deck order."""
        piles = [
            tuple(card for card in pile.split(", ") if card)
            for pile in text.removeprefix("deal ").split(" | ")
        ]
        if len(piles) == self.game.num_players + 2 and len(piles[0]) == 3:
            deal = Deal(Triple(*piles[0]), tuple(piles[1:-1]), piles[-1])
            if self._is_whole(deal):
                return deal
        raise InvalidAction(f"'{text}' does not deal every card of the deck once, in its place")

    def returns(self) -> tuple[float, ...]:
        return tuple(float(player == self.winner) for player in range(self.game.num_players))

    def reason(self) -> str:
        if self.winner is None:
            return "every player has made a false accusation"
        return f"{self.game.seat_names[self.winner]} made the right accusation"


_CARRY_OUT: dict[type[Action], Callable[[CluedoState, Any], None]] = {
    Deal: CluedoState._deal,
    EndTurn: CluedoState._end_turn,
    Roll: CluedoState._roll,
    Throw: CluedoState._throw,
    Move: CluedoState._move,
    Passage: CluedoState._passage,
    Suggest: CluedoState._suggest,
    Show: CluedoState._show,
    Accuse: CluedoState._accuse,
}
