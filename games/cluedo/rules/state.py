"""The rules of Cluedo.

A turn has up to three steps: move (`classic` only), suggest, accuse. After a suggestion the other
seats are asked in turn order from the suggester's left. The first seat that holds one of the three
cards shows one, privately, and chooses which if it holds several. The rules alone decide who can
refute, so that no mistake of a player can look like "cannot refute". Showing is an action even if
there is only one card to show. Otherwise the course of the game would tell whether the refuter had
a choice.

An accusation ends the turn. A right accusation wins the game. After a false one the player looks
into the envelope, takes no more turns and only refutes. If its pawn is on the square outside a
door, it steps into the room, so that it does not block the door. The last player in the game plays
on alone: a win is always a right accusation. A win returns 1, everything else 0.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Self

from arena import CHANCE, Action, ActionSet, State
from games.cluedo.rules import board
from games.cluedo.rules.board import Deck, Place, Triple
from games.cluedo.rules.setting import (
    Accuse,
    Accused,
    CardShown,
    DealCards,
    Dealt,
    DiceThrown,
    EndTurn,
    EnvelopeSeen,
    HandDealt,
    Move,
    Passage,
    PawnMoved,
    PawnMovement,
    Refuted,
    Roll,
    Show,
    Suggest,
    Suggested,
    Throw,
    TurnBegan,
    Unable,
    WeaponMoved,
)

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


class TurnPhase(Enum):
    """Step of the game: what happens next."""

    DEAL = auto()
    START = auto()
    DICE = auto()
    MOVE = auto()
    SUGGEST = auto()
    REFUTE = auto()
    ACCUSE = auto()
    OVER = auto()


class CluedoState(State):
    """A position of Cluedo.

    All values are immutable, so that copies may share them, but `places` and `weapons`.
    """

    game: CluedoSetting

    def __init__(self, game: CluedoSetting) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.phase = TurnPhase.DEAL
        self.player = 0
        self.envelope: Triple | None = None
        self.hands: tuple[frozenset[str], ...] = ()
        # Players after a false accusation: they take no turns but still refute.
        self.out: frozenset[int] = frozenset()
        # None until a right accusation, and for ever if all players accuse falsely.
        self.winner: int | None = None
        self.choices: tuple[str, ...] = ()
        """The cards that the refuter may show."""
        self.legal = game.no_actions
        """The legal actions of the player who must act; those of a refuter are private."""
        self.places = game.start_places.copy()
        self.weapons: dict[str, str] = {}
        """The room of each weapon that was moved; the others lie beside the board."""
        self.squares = board.START_SQUARES if game.has_board else 0
        """Set of the corridor squares with a pawn on them, one bit per square."""
        # Suspects whose pawn was brought to a room since the last turn of their player.
        self.summoned: frozenset[str] = frozenset()
        self.throw = 0

    def clone(self) -> Self:
        """Return an independent copy."""
        twin = super().clone()
        twin.places = self.places.copy()
        twin.weapons = self.weapons.copy()
        return twin

    def _legal_actions(self, player: int) -> ActionSet:
        return self.legal

    # Effects of actions

    def _apply(self, player: int, action: Action) -> None:
        _APPLY[type(action)](self, action)

    def _deal(self, deal: DealCards) -> None:
        self.envelope = deal.envelope
        self.hands = tuple(map(frozenset, deal.hands))
        log = self.log
        # Public: only sizes and open cards. Each hand is a private event of its player.
        log.append(Dealt(tuple(map(len, deal.hands)), deal.open_cards))
        for player, cards in enumerate(deal.hands):
            log.append(HandDealt(player, cards))
        # Seat 0 plays Miss Scarlett, who always starts.
        self._start_turn(0)

    def _start_turn(self, player: int) -> None:
        self.player = player
        self._begin_turn(player)
        self.phase = TurnPhase.START
        self.log.append(TurnBegan(player, self.turn))
        self.legal = self._turn_start_actions() if self.places else self.game.question_actions(None)

    def _end_turn(self, _action: Action | None = None) -> None:
        """Pass the turn to the next player who has not made a false accusation."""
        if self.summoned:
            # The right to suggest without moving lasts for one turn.
            self.summoned -= {self.pawn}
        # The player itself comes last: the last player in the game goes on alone.
        for player in (*self.game.refuters(self.player), self.player):
            if player not in self.out:
                self._start_turn(player)
                return
        self._finish()

    def _finish(self) -> None:
        self.phase = TurnPhase.OVER
        self.to_act = ()

    def _roll(self, _: Roll) -> None:
        self.phase = TurnPhase.DICE
        self.to_act = (CHANCE,)

    def _throw(self, dice: Throw) -> None:
        self.throw = dice.first + dice.second
        self.phase = TurnPhase.MOVE
        self.to_act = (self.player,)
        self.log.append(DiceThrown(self.player, dice.first, dice.second))
        self.legal = self.game.move_actions(self.room)

    def _move(self, move: Move) -> None:
        walk = board.walk(self.places[self.pawn], move.room, self.throw, self._occupied_squares())
        if walk.enters:
            self._enter(move.room, "walks")
        else:
            # None: every way is blocked, and the pawn stays where it is.
            if walk.square is not None:
                self._place_pawn(self.pawn, walk.square, "walks")
            self._let_accuse()

    def _let_accuse(self) -> None:
        """Let the player in turn accuse or end the turn."""
        self.phase = TurnPhase.ACCUSE
        self.to_act = (self.player,)
        self.legal = self.game.accuse_or_end

    def _passage(self, _: Passage) -> None:
        assert self.room is not None
        self._enter(board.PASSAGES[self.room], "passage")

    def _enter(self, room: str, how: PawnMovement) -> None:
        """Move the pawn into a room, which ends the move."""
        self._place_pawn(self.pawn, room, how)
        self.phase = TurnPhase.SUGGEST
        self.legal = self.game.question_actions(room)

    def _suggest(self, suggestion: Suggest) -> None:
        self.log.append(
            Suggested(self.player, suggestion.suspect, suggestion.weapon, suggestion.room)
        )
        if self.game.has_board:
            self._summon(suggestion)
        refutation = self.refutation_of(suggestion.triple)
        asked = self.game.refuters(self.player)
        if refutation is not None:
            # The seats after the first refuter are not asked.
            asked = asked[: asked.index(refutation[0])]
        if asked:
            self.log.append(Unable(asked))
        if refutation is None:
            self._let_accuse()
            return
        refuter, self.choices = refutation
        self.log.append(Refuted(refuter, self.player))
        self.phase = TurnPhase.REFUTE
        # Private to the refuter, so never kept on the game, which all players can read.
        self.legal = self.game.actions.subset([self.game.shows[card] for card in self.choices])
        self.to_act = (refuter,)

    def refutation_of(self, triple: Triple) -> tuple[int, tuple[str, ...]] | None:
        """Return the seat that has to refute the player in turn, with the cards it may show.

        None if no seat holds a card of the triple.
        """
        # Seats in turn order from the suggester's left; the first with a named card shows one.
        for refuter in self.game.refuters(self.player):
            hand = self.hands[refuter]
            if cards := tuple([card for card in triple if card in hand]):
                return refuter, cards
        return None

    def _show(self, show: Show) -> None:
        self.log.append(CardShown(self.to_act[0], self.player, show.card))
        self._let_accuse()

    def _accuse(self, accusation: Accuse) -> None:
        triple = accusation.triple
        correct = triple == self.envelope
        self.log.append(Accused(self.player, *triple, correct=correct))
        if correct:
            self.winner = self.player
            self._finish()
            return
        assert self.envelope is not None
        # Private: the others only learn that the accusation was false.
        self.log.append(EnvelopeSeen(self.player, self.envelope))
        self.out |= {self.player}
        if self.game.has_board:
            self._step_aside()
        self._end_turn()

    # Pawns and weapons on the board

    @property
    def pawn(self) -> str:
        """The suspect of the player in turn."""
        return self.game.deck.suspects[self.player]

    @property
    def room(self) -> str | None:
        """The room of this pawn; None in a corridor or without a board."""
        place = self.places.get(self.pawn) if self.places else None
        return place if isinstance(place, str) else None

    def _place_pawn(self, suspect: str, place: Place, how: PawnMovement) -> None:
        before = self.places[suspect]
        if isinstance(before, int):
            # Each square holds at most one pawn, so the bit is set and XOR clears it.
            self.squares ^= 1 << before
        if isinstance(place, int):
            self.squares |= 1 << place
        self.places[suspect] = place
        self.log.append(PawnMoved(suspect, place, how))

    def _occupied_squares(self) -> int:
        """Return the set of the corridor squares that other pawns occupy."""
        place = self.places[self.pawn]
        # The pawn's own square does not block it.
        return self.squares & ~(1 << place) if isinstance(place, int) else self.squares

    def _summon(self, suggestion: Suggest) -> None:
        """Move the suggested pawn and weapon to the room.

        The player of that pawn may suggest there in its next turn without moving.
        """
        suspect, weapon, room = suggestion.triple
        # Events are written only for real changes.
        if self.weapons.get(weapon) != room:
            self.weapons[weapon] = room
            self.log.append(WeaponMoved(weapon, room))
        if self.places[suspect] == room:
            return
        self._place_pawn(suspect, room, "summoned")
        if self.game.options.summoned_may_suggest:
            # Only a pawn that was moved, so not one that was in the room already.
            self.summoned |= {suspect}

    def _step_aside(self) -> None:
        """Move the pawn of a false accuser off the square outside a door, into the room."""
        room = board.DOORSTEPS.get(self.places[self.pawn])
        if room is not None:
            self._place_pawn(self.pawn, room, "steps aside")

    def _turn_start_actions(self) -> ActionSet:
        """Return the first actions of the turn on the board."""
        pawn = self.pawn
        place = self.places[pawn]
        room = place if isinstance(place, str) else None
        # A pawn that is shut in cannot throw; otherwise the turn could not go on. Its own square is
        # not beside itself, so it need not be left out.
        blocked = not board.can_step_away(place, self.squares)
        may_stay = room is not None and pawn in self.summoned
        return self.game.turn_start_actions(room, blocked, may_stay)

    # Chance and returns

    def _is_possible(self, action: Action) -> bool:
        if self.phase is TurnPhase.DICE:
            # Both dice are kept, not only their sum, because the replay shows them.
            return isinstance(action, Throw) and {action.first, action.second} <= set(range(1, 7))
        deck, hand_sizes = self.game.deck, self.game.hand_sizes
        return isinstance(action, DealCards) and _is_complete(action, deck, hand_sizes)

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw the result of two dice, or the deal."""
        if self.phase is TurnPhase.DICE:
            return Throw(rng.randint(1, 6), rng.randint(1, 6))
        return _sample_deal(rng, self.game.deck, self.game.hand_sizes)

    def _read_chance(self, text: str) -> Action | None:
        if self.phase is TurnPhase.DEAL:
            return _read_deal(text)
        dice = re.fullmatch(r"throw (\d) (\d)", text)
        return Throw(int(dice[1]), int(dice[2])) if dice else None

    def returns(self) -> tuple[float, ...]:
        """Return 1 for the winner and 0 for every other player."""
        # Nearly always there is none yet.
        if self.winner is None:
            return (0.0,) * self.game.num_players
        return tuple(float(player == self.winner) for player in range(self.game.num_players))

    def reason(self) -> str:
        """Return the reason for the end of the game."""
        if self.winner is None:
            return "every player has made a false accusation"
        return f"{self.game.seat_names[self.winner]} made the right accusation"


_APPLY: dict[type[Action], Callable[[CluedoState, Any], None]] = {
    DealCards: CluedoState._deal,
    EndTurn: CluedoState._end_turn,
    Roll: CluedoState._roll,
    Throw: CluedoState._throw,
    Move: CluedoState._move,
    Passage: CluedoState._passage,
    Suggest: CluedoState._suggest,
    Show: CluedoState._show,
    Accuse: CluedoState._accuse,
}


# The deal


def _is_complete(deal: DealCards, deck: Deck, hand_sizes: tuple[int, ...]) -> bool:
    """Return whether each card of the deck is dealt once and all piles have the right size."""
    hand_cards = (card for hand in deal.hands for card in hand)
    dealt = [*deal.envelope, *deal.open_cards, *hand_cards]
    return (
        len(dealt) == len(deck.cards)
        and set(dealt) == set(deck.cards)
        and tuple(map(len, deal.hands)) == hand_sizes
        and len(deal.envelope) == 3
        # One card of each category, in the order suspect, weapon, room.
        and all(map(operator.contains, deck.categories, deal.envelope))
    )


def _sample_deal(rng: random.Random, deck: Deck, hand_sizes: tuple[int, ...]) -> DealCards:
    """Draw a deal; all deals are equally likely."""
    # The rule of the game: first the envelope, one card of each category, then the other cards.
    envelope = Triple(*map(rng.choice, deck.categories))
    # The draws, and their order, are part of the replay format: another order would change the deal
    # of a seed.
    remaining = list(deck.cards)
    for card in envelope:
        remaining.remove(card)
    rng.shuffle(remaining)
    hands, start = [], 0
    for size in hand_sizes:
        hands.append(deck.sort(remaining[start : start + size]))
        start += size
    # The cards that are left after all hands lie open; none unless `leftover_cards` is "open".
    return DealCards(envelope, tuple(hands), deck.sort(remaining[start:]))


def _read_deal(text: str) -> DealCards | None:
    """Return the deal that a text names; None without envelope, hands and open cards."""
    # The last pile, of open cards, may be empty but is always written.
    piles = [
        tuple(card for card in pile.split(", ") if card)
        for pile in text.removeprefix("deal ").split(" | ")
    ]
    if len(piles) < 3 or len(piles[0]) != 3:
        return None
    return DealCards(Triple(*piles[0]), tuple(piles[1:-1]), piles[-1])
