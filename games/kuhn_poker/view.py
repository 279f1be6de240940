"""The table of Kuhn poker: the cards that the viewer has seen, the chips and the moves."""

from __future__ import annotations

from arena import Card, Event, Player, Players, Tabletop, Tile, Track, Tracks
from games.kuhn_poker.game import CardDealt, KuhnPoker, Moved, Showdown


class KuhnView:
    """The table as one viewer sees it."""

    def __init__(self, game: KuhnPoker, seat: int | None) -> None:
        self.game = game
        self._cards: dict[int, str] = {}
        self._moves: dict[int, str] = {}
        """The latest move of each player, in words."""
        self._chips = [1, 1]
        self._is_bet = False

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case CardDealt(player, card):
                self._cards[player] = card
            case Moved(player, "bet"):
                self._moves[player] = "call" if self._is_bet else "bet"
                self._chips[player] += 1
                self._is_bet = True
            case Moved(player):
                self._moves[player] = "fold" if self._is_bet else "check"
            case Showdown(cards):
                self._cards = dict(enumerate(cards))

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        pot = Tracks((Track("pot", sum(self._chips), unit="chips"),))
        players = tuple(map(self._player, range(self.game.num_players)))
        return Tabletop((pot, Players(players, ("card", "chips", "move"))))

    def _player(self, seat: int) -> Player:
        card = self._cards.get(seat)
        shown = Card("?", "hidden") if card is None else Card(card, face=card[0], note=card)
        chips = "●" * self._chips[seat]
        move = self._moves.get(seat, "")
        tiles = (shown, Tile(chips, "muted", f"{len(chips)} in the pot"), Tile(move, "accent"))
        return Player(self.game.seat_names[seat], seat, tiles, is_out=move == "fold")
