"""Texts of Avalon (rules, narration, situation of a player) and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from arena import (
    Card,
    Event,
    FirstGame,
    Observation,
    Panel,
    Player,
    Players,
    PlayGuide,
    Tabletop,
    Tile,
    TileRow,
    Tone,
    Track,
    Tracks,
)
from arena.core.text import pluralize
from games.avalon.notes import AvalonNotes
from games.avalon.rules import (
    MAX_PROPOSALS,
    MERLIN,
    MORDRED,
    OBERON,
    PERCIVAL,
    Avalon,
    EvilRevealed,
    MerlinGuessed,
    MissionCardPlayed,
    MissionEnded,
    Propose,
    SecretSeen,
    TeamProposed,
    TeamVoted,
)
from games.hidden_roles.notes import HiddenRolesText, RoleView
from games.hidden_roles.rules import RoleDealt

# The person is Merlin, and leads first.
FIRST_GAME = FirstGame(
    {"players": 5, "talk": 0},
    (
        (
            "propose",
            "You are Merlin, on the side of good. Two players are marked as evil, and of the good "
            "only you know it. You lead first: click two players who are not evil (you may be "
            "one), then confirm the team.",
        ),
        (
            "approve",
            "All vote on the team at the same time, and the majority decides. Approve a team "
            "without evil players, and reject one with them. First teams are often rejected, but "
            "after five in a row evil wins.",
        ),
        (
            "approve",
            "On an approved team, good players play a success. An evil one may play a fail: one is "
            "enough, and who played it stays secret. So watch which missions fail.",
        ),
        (
            "approve",
            "The signs of each player are its earlier votes. The others learn from them, and so "
            "does the Assassin: who is always right is probably Merlin. So be wrong sometimes, "
            "where a rejected team costs nothing.",
        ),
        (
            "propose",
            "Prefer players whose missions succeeded: then your team looks like a guess. After "
            "three successes the Assassin names one player, and if that is you, evil wins.",
        ),
    ),
    seed=7,
    level="fair",
)


def _knowledge(game: Avalon) -> list[str]:
    """Return a sentence for each role that sees others."""
    roles = game.role_list
    lines = []
    evil = "The evil players know each other"
    if OBERON in roles:
        evil += ", but Oberon knows none of them and they do not know Oberon"
    lines.append(f"{evil}.")
    # Mordred's only power.
    hidden = f" except {MORDRED}" if MORDRED in roles else ""
    lines.append(f"Merlin knows all evil players{hidden}.")
    if PERCIVAL in roles:
        lines.append("Percival sees two players, Merlin and Morgana, but not which is which.")
    return lines


_ENDING = (
    "After three missions that succeed the evil players reveal themselves, and the Assassin names "
    "one player: evil wins if this is Merlin, else good wins. So Merlin must guide the good "
    "players without being noticed."
)


def _secret(game: Avalon, event: SecretSeen) -> str:
    seen = game.names_of(event.seats)
    if event.kind == "evil":
        return f"who is evil: {seen}." if event.seats else "no other evil player."
    return f"{seen}: one is Merlin, the other is Morgana."


def _cards(fails: int) -> str:
    return pluralize(fails, "fail") if fails else "no fail"


def _progress(game: Avalon, notes: AvalonNotes) -> str:
    won = sum(mission.succeeded for mission in notes.missions)
    text = f"Missions: {won} succeeded, {len(notes.missions) - won} failed."
    # No mission follows.
    if notes.revealed:
        return text
    number, needed = notes.mission, game.fails_needed(notes.mission)
    text += (
        f" Mission {number + 1}: {game.team_sizes[number]} players, fails with "
        f"{pluralize(needed, 'fail card')}. Rejected proposals: {notes.rejected} of "
        f"{MAX_PROPOSALS}."
    )
    last = notes.proposals[-1] if notes.proposals else None
    # An approved team plays its cards; a rejected one is over.
    is_open = len(notes.votes) < len(notes.proposals) or (notes.votes and notes.votes[-1].approved)
    if last and last.mission == number + 1 and is_open:
        text += f" Team of {game.seat_names[last.leader]}: {game.names_of(last.seats)}."
    return text


class AvalonText(HiddenRolesText):
    """Texts of Avalon."""

    game: Avalon
    notes_type = AvalonNotes
    member = "evil"
    prey = MERLIN, "Merlin"

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal=(
                "Good wins three missions; evil makes three fail. Good also has to keep Merlin "
                "unknown to the Assassin."
            ),
            turn=(
                f"The leader picks a team,{' all talk,' if self.game.options.talk else ''} and all "
                "vote for or against it. Members of an approved team play a secret card: good "
                "players a success, evil ones a success or a fail."
            ),
            end=(
                "After three failed missions, or five rejected teams in a row, evil has won. "
                "After three successes the Assassin names one player: if that is Merlin, evil wins "
                "after all."
            ),
            example=(
                "A mission of two has one fail. One of these two players is evil: vote against "
                "every team with both of them, and watch who votes for it."
            ),
            first_game=FIRST_GAME,
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        game = self.game
        sizes = ", ".join(map(str, game.team_sizes))
        talk = " | say TEXT | pass" if game.options.talk else ""
        hard = ", but mission 4 needs two fails" if game.fails_needed(3) == 2 else ""
        roles = Counter(game.role_list)
        lists = [
            ", ".join(
                pluralize(count, role)
                for role, count in roles.items()
                if game.team_of(role) == team
            )
            for team in (0, 1)
        ]
        lines = [
            f"Avalon (The Resistance), {game.num_players} players (Player 0 to Player "
            f"{game.num_players - 1}). Each has a secret role. Good: {lists[0]}. Evil: {lists[1]}.",
            *_knowledge(game),
            f"There are up to five missions, for teams of {sizes} players. Player 0 is the first "
            "leader; the next player leads after each proposal. The leader proposes a team, which "
            "may include the leader.",
        ]
        if game.options.talk:
            lines.append(
                "Then each player makes a statement to all, or passes, once; the statements of one "
                "round are made at the same time. A statement may be false."
            )
        lines += self.statement_rules()
        lines += [
            "Then all vote at the same time, and the votes are published. A majority approves; a "
            f"tie rejects. After {MAX_PROPOSALS} rejected proposals in a row evil wins.",
            "Each member of an approved team secretly plays a card: good players play success, "
            "evil ones success or fail. Only the number of fails is published. One fail makes the "
            f"mission fail{hard}. Evil wins with three failed missions.",
            _ENDING,
            "Your action: propose Player NUMBER, Player NUMBER, … | approve | reject | success | "
            f"fail | assassinate Player NUMBER{talk}. For example: propose Player 1, Player 3",
        ]
        return "\n".join(lines)

    def narrate(self, event: Event) -> str:  # noqa: PLR0911 - one case for each kind.
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case RoleDealt(player, role):
                return f"{names[player]} is dealt the role {role} ({game.team_name(role)})."
            case SecretSeen():
                return f"{names[event.player]} sees {_secret(game, event)}"
            case TeamProposed(leader, mission, attempt, seats):
                return (
                    f"Mission {mission}, proposal {attempt}: {names[leader]} proposes "
                    f"{game.names_of(seats)}."
                )
            case TeamVoted(votes, approved):
                sides = [
                    [seat for seat, vote in enumerate(votes) if vote == side] for side in (1, 0)
                ]
                verdict = "approved" if approved else "rejected"
                return (
                    f"The team is {verdict}. Approve: {game.names_of(sides[0])}. "
                    f"Reject: {game.names_of(sides[1])}."
                )
            case MissionCardPlayed(player, fails):
                return f"{names[player]} played {'fail' if fails else 'success'}."
            case MissionEnded(mission, seats, fails, succeeded):
                result = "succeeds" if succeeded else "fails"
                return f"Mission {mission} of {game.names_of(seats)} {result}: {_cards(fails)}."
            case EvilRevealed(seats, assassin):
                return (
                    "Three missions have succeeded. The evil players reveal themselves: "
                    f"{game.names_of(seats)}. {names[assassin]} is the Assassin and names Merlin."
                )
            case MerlinGuessed(assassin, target, correct):
                return (
                    f"{names[assassin]} names {names[target]}, who is "
                    f"{'Merlin' if correct else 'not Merlin'}."
                )
            case _:
                return super().narrate(event)

    def _facts(self, notes: AvalonNotes) -> Iterator[str]:
        game, names = self.game, self.game.seat_names
        own = f"Your role is {notes.role} ({game.team_name(notes.role)})."
        if notes.secret:
            own += f" You see {_secret(game, notes.secret)}"
        yield own
        yield _progress(game, notes)
        for seat, name in enumerate(names) if notes.votes else ():
            missions = ", ".join(
                f"{mission.mission} ({'success' if mission.succeeded else _cards(mission.fails)})"
                for mission in notes.missions
                if seat in mission.seats
            )
            approved = sum(vote.votes[seat] for vote in notes.votes)
            votes = f"approved {approved} of {len(notes.votes)}"
            yield f"{name}: missions {missions or 'none'}; {votes}"

    def _offer(self, observation: Observation, notes: AvalonNotes) -> Iterable[str]:
        teams = observation.legal_actions.of(Propose)
        if not teams:
            return super()._offer(observation, notes)
        # There may be hundreds of teams.
        size = len(teams[0].seats)
        return [f"Your actions: propose and the names of {size} players, for example: {teams[0]}"]

    def synonyms(self) -> Mapping[str, str]:
        return {
            **super().synonyms(),
            **{"yes": "approve", "accept": "approve", "no": "reject", "disapprove": "reject"},
            **{"sabotage": "fail", "succeed": "success", "nominate": "propose"},
        }


BLANK = Tile("")
MOST_VOTES = 6
"""Earlier votes of a player that are shown."""


PROMPTS = {
    "say": "All players hear you",
    "assassinate": "Click the player whom you take for Merlin.",
}


class AvalonView(RoleView):
    """The table: missions, and the players with their roles, teams and votes.

    Clicks on players choose the members of a team, and Merlin.
    """

    game: Avalon
    notes: AvalonNotes
    notes_type = AvalonNotes

    def tabletop(self) -> Tabletop:
        """Return the current table."""
        missions = TileRow(tuple(map(self._mission, range(5))))
        players = tuple(map(self._seat_row, range(self.game.num_players)))
        table = Players(players, ("role", "team", "vote", "before"))
        size = self.game.team_sizes[self.notes.mission]
        prompts = {**PROMPTS, "propose": f"Click the {size} players of your team."}
        parts = (Panel("Missions", (missions,)), self._progress(), table)
        return Tabletop(parts, prompts=prompts)

    def _progress(self) -> Tracks:
        if not self.notes.proposals:
            return Tracks(())
        last = self.notes.proposals[-1]
        return Tracks(
            (Track("mission", last.mission, 5), Track("proposal", last.attempt, MAX_PROPOSALS))
        )

    def _mission(self, number: int) -> Card:
        size = self.game.team_sizes[number]
        hard = "*" if self.game.fails_needed(number) == 2 else ""
        title = f"{size} players{', fails with two fail cards' if hard else ''}"
        face = f"{size}{hard}"
        if number >= len(self.notes.missions):
            return Card(f"{face} ?", "muted", title, face=face, note="players")
        done = self.notes.missions[number]
        title = f"{title}: {self.game.names_of(done.seats)}; fail cards: {done.fails}"
        result = "success" if done.succeeded else "fail"
        symbol = "✓" if done.succeeded else "✗"
        tone: Tone = "good" if done.succeeded else "bad"
        return Card(f"{face} {result}", tone, title, face=symbol, note=result)

    def _known(self, seat: int) -> Tile | None:
        """Return what the viewer knows of a role that it was not shown."""
        notes = self.notes
        if notes.revealed and seat in notes.revealed.seats:
            return Tile("evil", "bad")
        if notes.secret is None or seat not in notes.secret.seats:
            return None
        return Tile("evil", "bad") if notes.secret.kind == "evil" else Tile("Merlin?", "accent")

    def _seat_row(self, seat: int) -> Player:
        notes, team, vote, before = self.notes, BLANK, BLANK, BLANK
        past = [each.votes[seat] for each in notes.votes]
        if notes.proposals and notes.proposals[-1].mission > len(notes.missions):
            proposal = notes.proposals[-1]
            words = ["leader"] * (seat == proposal.leader) + ["in team"] * (seat in proposal.seats)
            team = Tile(", ".join(words), "accent") if words else BLANK
            if len(past) == len(notes.proposals):
                vote = Tile("approve", "good") if past.pop() else Tile("reject", "bad")
        if past:
            signs = "".join("✓" if yes else "✗" for yes in past[-MOST_VOTES:])
            by_mission: dict[int, str] = {}
            for proposal, yes in zip(notes.proposals, past, strict=False):
                by_mission[proposal.mission] = by_mission.get(proposal.mission, "") + "✗✓"[yes]
            face = "  ".join(f"{mission}: {votes}" for mission, votes in by_mission.items())
            title = "earlier votes by mission, the latest last"
            before = Tile(signs, "muted", title, face=face)
        return self._player(seat, self._known(seat), team, vote, before)
