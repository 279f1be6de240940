"""The table of Werewolf as one viewer sees it: the players, their votes and what they say."""

from __future__ import annotations

from arena import Event, Player, Players, Tabletop, Tile, Track, Tracks
from games.hidden_roles.game import RoleDealt, RolesRevealed
from games.werewolf.game import Werewolf
from games.werewolf.knowledge import WerewolfNotes
from games.werewolf.moves import WOLF, PackSeen, SeerSaw


class WerewolfView:
    """The table, made from the events that its viewer has witnessed. Players can be clicked."""

    def __init__(self, game: Werewolf, seat: int | None) -> None:
        self.game = game
        self._seat = seat
        # The public tables of the notes only; the rest of them is about one player.
        self._notes = WerewolfNotes(game, 0)
        self._roles: dict[int, Tile] = {}
        self._hints: dict[int, Tile] = {}

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self._notes.update(event)
        match event:
            case RoleDealt(player, role):
                self._roles[player] = _role_tile(role)
            case PackSeen(_, seats):
                self._hints.update(dict.fromkeys(seats, _role_tile(WOLF)))
            case SeerSaw(_, seat, is_wolf):
                self._hints[seat] = _role_tile(WOLF) if is_wolf else Tile("no wolf", "good")
            case RolesRevealed(roles):
                self._roles = {seat: _role_tile(role) for seat, role in enumerate(roles)}

    def tabletop(self) -> Tabletop:
        """Return the current table."""
        notes, seats = self._notes, range(self.game.num_players)
        living = Track("living", len(seats) - len(notes.dead), len(seats))
        time = Track("day" if notes.is_day else "night", notes.night)
        tracks = Tracks((time, living) if notes.night else ())
        return Tabletop((tracks, Players(tuple(map(self._player, seats)), ("role", "", "vote"))))

    def _player(self, seat: int) -> Player:
        notes, names = self._notes, self.game.seat_names
        public = notes.roles.get(seat)
        role = self._roles.get(seat) or (_role_tile(public) if public else self._hints.get(seat))
        is_dead = seat in notes.dead
        status = Tile("dead", "muted", notes.dead[seat]) if is_dead else Tile("alive")
        vote = Tile("")
        if seat in notes.latest_votes:
            chosen = notes.latest_votes[seat]
            vote = Tile(names[chosen], "accent", "the latest vote", seat=chosen)
        spoken = [event.text for event in notes.statements if event.player == seat]
        tiles = (role or Tile("?", "hidden", "role unknown"), status, vote)
        picks = () if self._seat is None else (f"Player {seat}",)
        return Player(names[seat], seat, tiles, spoken[-1] if spoken else "", picks, is_dead)


def _role_tile(role: str) -> Tile:
    return Tile(role, "bad" if role == WOLF else "good")
