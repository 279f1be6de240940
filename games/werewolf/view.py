"""The table of Werewolf: a row for each player."""

from __future__ import annotations

from arena import Event, Panel, Tabletop, Tile, TileRow
from games.hidden_roles.game import RoleDealt, RolesRevealed
from games.hidden_roles.knowledge import statement_note
from games.werewolf.game import Werewolf
from games.werewolf.knowledge import WerewolfNotes
from games.werewolf.moves import WOLF, PackSeen, SeerSaw


class WerewolfView:
    """The table as its viewer sees it, made from the events that the viewer has witnessed."""

    def __init__(self, game: Werewolf, seat: int | None) -> None:
        self.game = game
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
        notes = self._notes
        rows = tuple(self._player(seat) for seat in range(self.game.num_players))
        caption = f"{'Day' if notes.is_day else 'Night'} {notes.night}." if notes.night else ""
        return Tabletop((Panel("", rows, ("role", "", "last vote")),), caption)

    def _player(self, seat: int) -> TileRow:
        notes, names = self._notes, self.game.seat_names
        public = notes.roles.get(seat)
        role = self._roles.get(seat) or (_role_tile(public) if public else self._hints.get(seat))
        status = Tile("dead", "muted", notes.dead[seat]) if seat in notes.dead else Tile("alive")
        vote = Tile("-", "muted")
        if seat in notes.latest_votes:
            vote = Tile(names[notes.latest_votes[seat]])
        spoken = [event.text for event in notes.statements if event.player == seat]
        note = statement_note(spoken[-1]) if spoken else ""
        return TileRow((role or Tile("?", "hidden"), status, vote), names[seat], note)


def _role_tile(role: str) -> Tile:
    return Tile(role, "bad" if role == WOLF else "good")
