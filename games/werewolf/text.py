"""Texts of Werewolf (rules, narration, situation of a player) and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from arena import (
    Event,
    Observation,
    Player,
    Players,
    PlayGuide,
    Tabletop,
    Tile,
    Track,
    Tracks,
)
from arena.core.text import pluralize
from games.hidden_roles.notes import HiddenRolesText, RoleView
from games.hidden_roles.rules import RoleDealt
from games.werewolf.notes import WerewolfNotes
from games.werewolf.rules import (
    NO_SEAT,
    SEER,
    WOLF,
    DayBegan,
    DayVoted,
    DoctorProtected,
    NightBegan,
    NightEnded,
    PackChose,
    PackSeen,
    SeerSaw,
    Werewolf,
)

_SEER_AND_DOCTOR = (
    " The seer learns whether one other player is a werewolf. The doctor protects one player (the "
    "doctor included), but not the same one in two nights running; a victim that is protected "
    "survives."
)


class WerewolfText(HiddenRolesText):
    """Texts of Werewolf."""

    game: Werewolf
    notes_type = WerewolfNotes
    member = "a werewolf"
    prey = SEER, "the seer"

    def guide(self) -> PlayGuide:
        options = self.game.options
        night = "At night the werewolves choose a victim"
        if not options.plain:
            night += (
                ", the seer learns whether a player is a werewolf, and the doctor protects a player"
            )
        example = (
            "The votes are public, and werewolves seldom vote against each other: compare who has "
            "never voted against whom."
        )
        if options.talk and not options.plain:
            example = (
                "Two players claim to be the seer. One of them lies, and most liars are "
                "werewolves: ask both whom they have looked at, and compare it with what you know."
            )
        return PlayGuide(
            goal=(
                "The village finds all werewolves. The werewolves survive until they are half "
                "of the living players."
            ),
            turn=(
                f"{night}. By day all {'talk, and then ' if options.talk else ''}vote who is out "
                "of the game."
            ),
            end=(
                "The village wins when the last werewolf is out; the werewolves when they are "
                "at least half of the living."
            ),
            example=example,
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        game, options = self.game, self.game.options
        roles = ", ".join(pluralize(n, role.lower()) for role, n in Counter(game.role_list).items())
        night = "" if options.plain else _SEER_AND_DOCTOR
        if options.quiet_first_night:
            night += " In the first night no player is killed."
        talk = ""
        if options.talk:
            talk = (
                "each living player makes a statement to all, or passes, once; the statements of "
                "one round are made at the same time, and may be false. Then "
            )
        lines = [
            f"Werewolf, {game.num_players} players (Player 0 to Player {game.num_players - 1}). "
            f"Each has a secret role: {roles.replace('werewolfs', 'werewolves')}. The werewolves "
            "know each other and play against all others, the village. The village wins when all "
            "werewolves are dead; the werewolves win as soon as they are at least half of the "
            "living players.",
            "Night: each werewolf votes in secret for a victim, who is no werewolf; the most votes "
            f"count, and in a tie the vote of the werewolf with the lowest number.{night}",
            f"Day: {talk}all living players vote at the same time for another player, or pass, and "
            "the votes are published. The player with the most votes is out of the game; in a tie "
            "no player is.",
            "The role of a player who dies is published.",
        ]
        lines.append("The dead see what is public, but neither act nor speak.")
        # A single wolf has no other wolf to talk to.
        if game.pack_talks:
            lines.append(
                "Before the werewolves choose, each may make one statement, which only they hear."
            )
        notation = "vote Player NUMBER | pass | kill Player NUMBER"
        if not options.plain:
            notation += " | inspect Player NUMBER | protect Player NUMBER"
        notation += " | say TEXT" if options.talk else ""
        lines += self.statement_rules()
        return "\n".join([*lines, f"Your action: {notation}. For example: vote Player 3"])

    def narrate(self, event: Event) -> str:  # noqa: PLR0911 - one case for a kind.
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case RoleDealt(player, role):
                return f"{names[player]} is dealt the role {role}."
            case PackSeen(player, seats):
                return f"{names[player]} knows the other werewolves: {game.names_of(seats)}."
            case NightBegan(night):
                return f"Night {night} begins."
            case PackChose(wolves, votes, victim):
                pairs = zip(wolves, votes, strict=True)
                chosen = ", ".join(f"{names[wolf]} for {names[vote]}" for wolf, vote in pairs)
                return f"The werewolves vote: {chosen}. They attack {names[victim]}."
            case SeerSaw(player, seat, is_wolf):
                result = "a werewolf" if is_wolf else "not a werewolf"
                return f"{names[player]} inspects {names[seat]}: {result}."
            case DoctorProtected(player, seat):
                return f"{names[player]} protects {names[seat]}."
            case NightEnded(night, None):
                return f"No player died in night {night}."
            case NightEnded(night, int(victim), role):
                return f"{names[victim]} ({role}) died in night {night}."
            case DayBegan(day, living):
                return f"Day {day} begins. Living: {game.names_of(living)}."
            case DayVoted(votes, eliminated, role):
                each = zip(names, votes, strict=True)
                cast = ", ".join(f"{voter} for {names[to]}" for voter, to in each if to != NO_SEAT)
                out = "no player" if eliminated is None else f"{names[eliminated]} ({role})"
                return f"Votes: {cast or 'none'}. Result: {out} is eliminated."
            case _:
                return super().narrate(event)

    def _facts(self, notes: WerewolfNotes) -> Iterator[str]:
        game, names = self.game, self.game.seat_names
        own = f"Your role is {notes.role}."
        if notes.player in notes.dead:
            own += " You are dead."
        if notes.pack:
            own += f" The other werewolves: {game.names_of(notes.pack)}."
        if notes.inspected:
            results = ", ".join(
                f"{names[seat]} {'is a werewolf' if is_wolf else 'is no werewolf'}"
                for seat, is_wolf in notes.inspected.items()
            )
            own += f" Inspected: {results}."
        if notes.protected is not None:
            own += f" Protected last: {names[notes.protected]}."
        yield f"{own} {'Day' if notes.is_day else 'Night'} {notes.night}."
        dead = "; ".join(f"{names[seat]} {how}" for seat, how in notes.dead.items())
        yield f"Living: {game.names_of(notes.living)}. Dead: {dead or 'none'}."
        # Older votes are among the events.
        if notes.votes:
            against = sorted(Counter(notes.latest_votes.values()).items())
            counts = ", ".join(f"{names[seat]} {count}" for seat, count in against)
            yield f"Votes of the last day against: {counts or 'none'}."

    def _offer(self, observation: Observation, notes: WerewolfNotes) -> Iterator[str]:
        if observation.legal_actions.speech and not notes.is_day:
            yield "Only the living werewolves hear what you say now."
        yield from super()._offer(observation, notes)

    def synonyms(self) -> Mapping[str, str]:
        return {
            **super().synonyms(),
            **{"vote for": "vote", "lynch": "vote", "eliminate": "vote", "abstain": "pass"},
            **{"attack": "kill", "eat": "kill", "investigate": "inspect", "check": "inspect"},
            **{"guard": "protect", "save": "protect", "heal": "protect", "skip": "pass"},
        }


PROMPTS = {
    "kill": "Click the player whom the werewolves kill.",
    "inspect": "Click the player whose side you want to see.",
    "protect": "Click the player whom you protect tonight.",
    "vote": "Click the player whom you vote to eliminate.",
}


class WerewolfView(RoleView):
    """The table: the players with their roles, deaths and latest votes. They can be clicked."""

    game: Werewolf
    notes: WerewolfNotes
    notes_type = WerewolfNotes

    def tabletop(self) -> Tabletop:
        """Return the current table."""
        notes, seats = self.notes, range(self.game.num_players)
        living = Track("living", len(notes.living), len(seats))
        time = Track("day" if notes.is_day else "night", notes.night)
        tracks = Tracks((time, living) if notes.night else ())
        table = Players(tuple(map(self._seat_row, seats)), ("role", "", "vote"))
        is_night = bool(notes.night) and not notes.is_day
        hear = "Only the werewolves hear you" if is_night else "All players hear you"
        prompts = {**PROMPTS, "say": hear}
        return Tabletop((tracks, table), is_night=is_night, prompts=prompts)

    def _seat_row(self, seat: int) -> Player:
        notes, names = self.notes, self.game.seat_names
        known, vote = None, Tile("")
        if seat in notes.pack or notes.inspected.get(seat):
            known = self._role_tile(WOLF)
        elif seat in notes.inspected:
            known = Tile("no wolf", "good")
        is_dead = seat in notes.dead
        status = Tile("dead", "muted", notes.dead[seat]) if is_dead else Tile("alive")
        if seat in notes.latest_votes:
            chosen = notes.latest_votes[seat]
            vote = Tile(names[chosen], "accent", "the latest vote", seat=chosen)
        return self._player(seat, known, status, vote, is_out=is_dead)
