"""The table of Avalon: missions, and a row for each player."""

from __future__ import annotations

from arena import Event, Panel, Spoken, Tabletop, Tile, TileRow
from games.avalon.game import Avalon
from games.avalon.knowledge import AvalonNotes
from games.avalon.moves import (
    EVIL,
    MAX_PROPOSALS,
    EvilRevealed,
    LoyaltySeen,
    MissionEnded,
    SecretSeen,
    TeamProposed,
)
from games.hidden_roles.game import RoleDealt, RolesRevealed
from games.hidden_roles.knowledge import statement_note

BLANK = Tile("-", "muted")


class AvalonView:
    """The table as its viewer sees it, made from the events that the viewer has witnessed."""

    def __init__(self, game: Avalon, seat: int | None) -> None:
        self.game = game
        # The tables of the notes only; their role and posterior are those of one player.
        self._notes = AvalonNotes(game, 0)
        self._roles: dict[int, Tile] = {}
        self._hints: dict[int, Tile] = {}
        self._statements: dict[int, str] = {}

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self._notes.update(event)
        match event:
            case RoleDealt(player, role):
                self._roles[player] = self._role(role)
            case SecretSeen(_, seats, kind):
                hint = Tile("evil", "bad") if kind == "evil" else Tile("Merlin?", "accent")
                self._hints.update(dict.fromkeys(seats, hint))
            case LoyaltySeen(_, seat, is_evil):
                self._hints[seat] = Tile("evil", "bad") if is_evil else Tile("good", "good")
            case EvilRevealed(seats):
                self._hints.update(dict.fromkeys(seats, Tile("evil", "bad")))
            case RolesRevealed(roles):
                self._roles = {seat: self._role(role) for seat, role in enumerate(roles)}
            case TeamProposed():
                self._statements = {}
            case Spoken(player, text):
                self._statements[player] = text

    def _role(self, role: str) -> Tile:
        return Tile(role, "bad" if self.game.team_of(role) == EVIL else "good")

    def tabletop(self) -> Tabletop:
        """Return the current table."""
        missions = TileRow(tuple(map(self._mission, range(5))), "Missions")
        rows = tuple(self._player(seat) for seat in range(self.game.num_players))
        table = Panel("", rows, ("role", "team", "vote"))
        return Tabletop((Panel("", (missions,)), table), self._caption())

    def _mission(self, number: int) -> Tile:
        size = self.game.team_sizes[number]
        hard = "*" if self.game.fails_needed(number) == 2 else ""
        title = f"{size} players{', fails with two fail cards' if hard else ''}"
        missions: list[MissionEnded] = self._notes.missions
        if number >= len(missions):
            return Tile(f"{size}{hard} ?", "hidden", title)
        done = missions[number]
        title = f"{title}: {self.game.names_of(done.seats)}; fail cards: {done.fails}"
        if done.succeeded:
            return Tile(f"{size}{hard} success", "good", title)
        return Tile(f"{size}{hard} fail", "bad", title)

    def _player(self, seat: int) -> TileRow:
        role = self._roles.get(seat) or self._hints.get(seat) or Tile("?", "hidden")
        team, vote = BLANK, BLANK
        if self._notes.proposals:
            proposal = self._notes.proposals[-1]
            words = ["leader"] * (seat == proposal.leader) + ["member"] * (seat in proposal.seats)
            team = Tile("+".join(words), "accent") if words else BLANK
            if proposal.votes:
                yes = proposal.votes[seat]
                vote = Tile("approve", "good") if yes else Tile("reject", "bad")
        spoken = self._statements.get(seat)
        return TileRow(
            (role, team, vote), self.game.seat_names[seat], statement_note(spoken) if spoken else ""
        )

    def _caption(self) -> str:
        if not self._notes.proposals:
            return ""
        last = self._notes.proposals[-1]
        lady = self._notes.lady
        holder = "" if lady is None else f" Lady of the Lake: {self.game.seat_names[lady]}."
        return f"Mission {last.mission}, proposal {last.attempt} of {MAX_PROPOSALS}.{holder}"
