"""Scene of Cluedo for a web page: the board or the table, and the visible cards of each hand."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, NotRequired, TypedDict

from arena import Event
from games.cluedo.rules.events import (
    Accused,
    CardShown,
    Dealt,
    DiceThrown,
    PawnMoved,
    Place,
    Refuted,
    Suggested,
    TurnBegan,
    Unable,
    WeaponMoved,
)
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.views.view import Marks


class SuggestionJson(TypedDict):
    """The suggestion of this turn and its answers so far."""

    player: int
    cards: list[str]
    """Suspect, weapon, room."""
    unable: list[int]
    """Seats that have none of the three cards, in the order asked."""
    refuter: int | None
    """The seat that shows a card, or will show one next."""
    shown: str | None
    """The card, after it was shown, if the viewer sees it."""


class AccusationJson(TypedDict):
    """The latest accusation, until another action follows."""

    player: int
    cards: list[str]
    correct: bool
    turn: int


class CluedoSceneJson(TypedDict):
    """The table. Squares of the board are numbered row by row; rooms are given by name."""

    deck: list[list[str]]
    """Suspects, weapons, rooms."""
    marks: list[str]
    """One string per card: one character per seat and one for the envelope, see `Marks.sign`."""
    sizes: list[int]
    """Number of cards in each hand."""
    open: list[str]
    out: list[int]
    turn: int
    """Number of the turn; 0 before the first."""
    player: int | None
    """The player in turn."""
    suggestion: SuggestionJson | None
    accusation: AccusationJson | None
    dice: NotRequired[list[int] | None]
    """Present only with a board, like the following two."""
    pawns: NotRequired[list[Place]]
    """The place of each suspect's pawn."""
    weapons: NotRequired[dict[str, str]]
    """The room of each weapon that was moved; the others lie beside the board."""


class CluedoScene:
    """The table as one viewer sees it, updated event by event."""

    module: ClassVar[Path] = Path(__file__).with_suffix(".js")

    def __init__(self, game: CluedoSetting, seat: int | None) -> None:
        self.game = game
        self.marks = Marks(game)
        self.sizes: tuple[int, ...] = ()
        self.turn = 0
        self.player: int | None = None
        self.dice: tuple[int, ...] | None = None
        self.suggestion: SuggestionJson | None = None
        self.accusation: AccusationJson | None = None
        self.pawns = dict(game.start_places)
        self.weapons: dict[str, str] = {}

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self.marks.update(event)
        match event:
            case Dealt(hand_sizes=sizes):
                self.sizes = sizes
            case TurnBegan(player, turn):
                self._start_turn(player, turn)
            case DiceThrown(_, first, second):
                self.dice = (first, second)
                self.accusation = None
            case PawnMoved(suspect, place):
                self.pawns[suspect] = place
            case WeaponMoved(weapon, room):
                self.weapons[weapon] = room
            case Accused(player, correct=correct):
                self.accusation = AccusationJson(
                    player=player, cards=[*event.triple], correct=correct, turn=self.turn
                )
            case Suggested() | Unable() | Refuted() | CardShown():
                self._suggest(event)
            case _:
                pass

    def _start_turn(self, player: int, turn: int) -> None:
        """Start a turn. A false accusation ends its turn, so it stays visible in the next one."""
        if self.accusation is not None and self.accusation["turn"] < turn - 1:
            self.accusation = None
        self.player, self.turn = player, turn
        self.suggestion = self.dice = None

    def _suggest(self, event: Suggested | Unable | Refuted | CardShown) -> None:
        """Update the suggestion and its answers."""
        if isinstance(event, Suggested):
            self.accusation = None
            self.suggestion = SuggestionJson(
                player=event.player, cards=[*event.triple], unable=[], refuter=None, shown=None
            )
            return
        assert self.suggestion is not None
        match event:
            case Unable(players):
                self.suggestion["unable"] = [*players]
            case Refuted(player):
                self.suggestion["refuter"] = player
            case CardShown(card=card):
                self.suggestion["shown"] = card

    def to_json(self) -> CluedoSceneJson:
        """Return the current table."""
        game, sign = self.game, self.marks.sign
        holders = range(game.num_players + 1)
        scene = CluedoSceneJson(
            deck=[list(cards) for cards in game.deck.categories],
            marks=["".join([sign(card, h) for h in holders]) for card in game.deck.cards],
            sizes=list(self.sizes),
            open=list(self.marks.open_cards),
            out=sorted(self.marks.out),
            turn=self.turn,
            player=self.player,
            # A copy, because later answers change the suggestion. A shallow one suffices: its
            # lists are replaced, never changed.
            suggestion=None if self.suggestion is None else self.suggestion.copy(),
            accusation=self.accusation,
        )
        if game.has_board:
            scene["dice"] = list(self.dice) if self.dice else None
            scene["pawns"] = [self.pawns[suspect] for suspect in game.deck.suspects]
            scene["weapons"] = dict(self.weapons)
        return scene
