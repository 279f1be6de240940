"""The rules of Cluedo.

A turn has up to three steps: move (`classic` only), suggest, accuse. After a suggestion the other
seats are asked in turn order from the suggester's left. The first seat that holds one of the three
cards shows one, privately, and chooses which if it holds several; with the option `refuters="all"`
every such seat shows one, in turn order. The rules alone decide who can
refute, so that no mistake of a player can look like "cannot refute". Showing is an action even if
there is only one card to show. Otherwise the course of the game would tell whether the refuter had
a choice.

An accusation ends the turn. A right accusation wins the game. After a false one the player looks
into the envelope, takes no more turns and only refutes. If its pawn is on the square outside a
door, it steps into the room, so that it does not block the door. The last player in the game plays
on alone: a win is always a right accusation. A win returns 1, everything else 0.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from arena import CHANCE, Action, ActionSet, InvalidAction
from games.cluedo.rules import board
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    Accuse,
    Accused,
    Begin,
    CardShown,
    DealCards,
    Dealt,
    DiceThrown,
    EndTurn,
    EnvelopeSeen,
    HandDealt,
    Move,
    MoveToSquare,
    Passage,
    PawnMovement,
    PlaySuspect,
    Refuted,
    Roll,
    Show,
    Suggest,
    Suggested,
    SuspectChosen,
    Throw,
    TurnBegan,
    Unable,
    is_complete,
    parse_deal,
    sample_deal,
)
from games.cluedo.rules.movement import BoardState

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


class TurnPhase(Enum):
    """Step of the game: what happens next."""

    DEAL = auto()
    CHOOSE = auto()
    FIRST = auto()
    START = auto()
    DICE = auto()
    MOVE = auto()
    SUGGEST = auto()
    REFUTE = auto()
    ACCUSE = auto()
    OVER = auto()


class CluedoState(BoardState):
    """A position of Cluedo.

    `hands`, `envelope`, `out` and `refuting` are immutable values, so that copies may share them.
    """

    def __init__(self, game: CluedoSetting) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.phase = TurnPhase.DEAL
        self.envelope: Triple | None = None
        self.hands: tuple[frozenset[str], ...] = ()
        # Players after a false accusation: they take no turns but still refute.
        self.out: frozenset[int] = frozenset()
        # None until a right accusation, and for ever if all players accuse falsely.
        self.winner: int | None = None
        self.choices: tuple[str, ...] = ()
        self.legal = game.no_actions
        """The legal actions of the player who must act; those of a refuter are private."""
        self.refuting: tuple[tuple[int, tuple[str, ...]], ...] = ()
        """The seats that still have to show a card, each with the cards that it may show."""

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
        self.phase = TurnPhase.CHOOSE
        self._open()

    def _open(self) -> None:
        """Go on with the choice of suspects and of the first player, or start the first turn."""
        if self.game.options.choose_suspects and len(self.suspects) < self.game.num_players:
            self.to_act = (len(self.suspects),)
            self.legal = self.game.suspect_actions(self.suspects)
        elif self.game.options.first_player == "random":
            self.phase = TurnPhase.FIRST
            self.to_act = (CHANCE,)
        elif self.game.has_board:
            # Miss Scarlett always starts. If no seat plays her, the next suspect in card order.
            first = min(self.suspects, key=self.game.deck.suspects.index)
            self._start_turn(self.suspects.index(first))
        else:
            self._start_turn(0)

    def _play_suspect(self, choice: PlaySuspect) -> None:
        self.log.append(SuspectChosen(self.to_act[0], choice.suspect))
        self.suspects += (choice.suspect,)
        self._open()

    def _begin(self, begin: Begin) -> None:
        self._start_turn(begin.player)

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
        any_room = self.game.options.movement == "toward"
        self.legal = self.game.move_actions(self.room) if any_room else self._destinations()

    def _move(self, move: Move) -> None:
        walk = board.walk(self.places[self.pawn], move.room, self.throw, self._occupied_squares())
        if walk.enters:
            self._enter(move.room, "walks")
        else:
            # None: every way is blocked, and the pawn stays where it is.
            if walk.square is not None:
                self._place_pawn(self.pawn, walk.square, "walks")
            self._let_accuse()

    def _move_to_square(self, move: MoveToSquare) -> None:
        self._place_pawn(self.pawn, move.square, "walks")
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
        self.refuting = self.refutations_of(suggestion.triple)
        able, asked = [seat for seat, _ in self.refuting], self.game.refuters(self.player)
        if able and self.game.options.refuters == "in_turn":
            # The seats after the first refuter are not asked.
            asked = asked[: asked.index(able[0])]
        if unable := tuple([seat for seat in asked if seat not in able]):
            self.log.append(Unable(unable))
        for refuter, _ in self.refuting:
            self.log.append(Refuted(refuter, self.player))
        self._next_refutation()

    def refutations_of(self, triple: Triple) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Return the seats that have to refute the player in turn, with the cards they may show."""
        found = []
        # Seats in turn order from the suggester's left.
        for refuter in self.game.refuters(self.player):
            hand = self.hands[refuter]
            if cards := tuple([card for card in triple if card in hand]):
                found.append((refuter, cards))
                # The first with a named card ends the search, so later seats reveal nothing.
                if self.game.options.refuters == "in_turn":
                    break
        return tuple(found)

    def _next_refutation(self) -> None:
        """Let the next seat show a card; after the last one, the suggester may accuse."""
        if not self.refuting:
            self._let_accuse()
            return
        (refuter, self.choices), *rest = self.refuting
        self.refuting = tuple(rest)
        self.phase = TurnPhase.REFUTE
        # Private to the refuter, so never kept on the game, which all players can read.
        shows = [self.game.shows[card] for card in self.choices]
        self.legal = self.game.actions.subset(shows)
        self.to_act = (refuter,)

    def _show(self, show: Show) -> None:
        self.log.append(CardShown(self.to_act[0], self.player, show.card))
        self._next_refutation()

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

    # Chance and returns

    def _is_possible(self, action: Action) -> bool:
        if self.phase is TurnPhase.DICE:
            # Both dice are kept, not only their sum, because the replay shows them.
            return isinstance(action, Throw) and {action.first, action.second} <= set(range(1, 7))
        if self.phase is TurnPhase.FIRST:
            return isinstance(action, Begin) and action.player in range(self.game.num_players)
        deck, hand_sizes = self.game.deck, self.game.hand_sizes
        return isinstance(action, DealCards) and is_complete(action, deck, hand_sizes)

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw the result of two dice, the first player, or the deal."""
        if self.phase is TurnPhase.FIRST:
            return Begin(rng.randrange(self.game.num_players))
        if self.phase is TurnPhase.DICE:
            return Throw(rng.randint(1, 6), rng.randint(1, 6))
        return sample_deal(rng, self.game.deck, self.game.hand_sizes)

    def parse(self, text: str) -> Action:
        """Parse `str(action)` for the actions that are possible here, those of chance included."""
        if self.phase is TurnPhase.DEAL:
            return parse_deal(text, self.game.deck, self.game.hand_sizes)
        if self.phase is TurnPhase.FIRST:
            for seat in range(self.game.num_players):
                if text == str(Begin(seat)):
                    return Begin(seat)
            raise InvalidAction(f"'{text}' names no first player; expected 'begin 0' and the like")
        if self.phase is TurnPhase.DICE:
            dice = re.fullmatch(r"throw ([1-6]) ([1-6])", text)
            if not dice:
                raise InvalidAction(
                    f"'{text}' is not a throw of two dice; expected 'throw N N', N from 1 to 6"
                )
            return Throw(int(dice[1]), int(dice[2]))
        return super().parse(text)

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
    PlaySuspect: CluedoState._play_suspect,
    Begin: CluedoState._begin,
    Move: CluedoState._move,
    MoveToSquare: CluedoState._move_to_square,
    Passage: CluedoState._passage,
    Suggest: CluedoState._suggest,
    Show: CluedoState._show,
    Accuse: CluedoState._accuse,
}
