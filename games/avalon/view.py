"""The table of Avalon as one viewer sees it: the missions, and the players with their votes."""

from __future__ import annotations

from arena import (
    Card,
    Event,
    Panel,
    Player,
    Players,
    Spoken,
    Tabletop,
    Tile,
    TileRow,
    Tone,
    Track,
    Tracks,
)
from games.avalon.game import Avalon
from games.avalon.knowledge import AvalonNotes, Proposal
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

BLANK = Tile("")
MOST_VOTES = 6
"""Earlier votes of a player that are shown."""


class AvalonView:
    """The table, made from the events that its viewer has witnessed.

    Clicks on players choose the members of a team, whom the Lady of the Lake examines, and Merlin.
    """

    def __init__(self, game: Avalon, seat: int | None) -> None:
        self.game = game
        self._seat = seat
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
        missions = TileRow(tuple(map(self._mission, range(5))))
        players = tuple(map(self._player, range(self.game.num_players)))
        columns = ("role", "team", "vote", "before", "")
        table = Players(players, columns)
        return Tabletop((Panel("Missions", (missions,)), self._progress(), table))

    def _progress(self) -> Tracks:
        if not self._notes.proposals:
            return Tracks(())
        last = self._notes.proposals[-1]
        return Tracks(
            (Track("mission", last.mission, 5), Track("proposal", last.attempt, MAX_PROPOSALS))
        )

    def _mission(self, number: int) -> Card:
        size = self.game.team_sizes[number]
        hard = "*" if self.game.fails_needed(number) == 2 else ""
        title = f"{size} players{', fails with two fail cards' if hard else ''}"
        missions: list[MissionEnded] = self._notes.missions
        face = f"{size}{hard}"
        if number >= len(missions):
            return Card(f"{face} ?", "muted", title, face=face, note="players")
        done = missions[number]
        title = f"{title}: {self.game.names_of(done.seats)}; fail cards: {done.fails}"
        result = "success" if done.succeeded else "fail"
        symbol = "✓" if done.succeeded else "✗"
        tone: Tone = "good" if done.succeeded else "bad"
        return Card(f"{face} {result}", tone, title, face=symbol, note=result)

    def _player(self, seat: int) -> Player:
        role = self._roles.get(seat) or self._hints.get(seat) or Tile("?", "hidden", "role unknown")
        team, vote = BLANK, BLANK
        past = self._notes.proposals
        if past and past[-1].mission > len(self._notes.missions):
            proposal, past = past[-1], past[:-1]
            words = ["leader"] * (seat == proposal.leader) + ["member"] * (seat in proposal.seats)
            team = Tile("+".join(words), "accent") if words else BLANK
            if proposal.votes:
                yes = proposal.votes[seat]
                vote = Tile("approve", "good") if yes else Tile("reject", "bad")
        lady = Tile("Lady", "accent", "Lady of the Lake") if self._notes.lady == seat else BLANK
        picks = () if self._seat is None else (f"Player {seat}",)
        tiles = (role, team, vote, _votes(past, seat), lady)
        name = self.game.seat_names[seat]
        return Player(name, seat, tiles, self._statements.get(seat, ""), picks)


def _votes(proposals: list[Proposal], seat: int) -> Tile:
    """Return the earlier votes of a player, the latest last."""
    voted = [each.votes[seat] for each in proposals if each.votes][-MOST_VOTES:]
    signs = "".join("✓" if yes else "✗" for yes in voted)
    return Tile(signs, "muted", "earlier votes, the latest last") if signs else BLANK
