"""Texts of Werewolf (rules, narration, situation of a player) and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from arena import (
    Event,
    Observation,
    Player,
    Players,
    PlayGuide,
    Spoken,
    Tabletop,
    TextLevel,
    Tile,
    Track,
    Tracks,
)
from games.hidden_roles.game import RoleDealt
from games.hidden_roles.knowledge import HiddenRolesText, RoleView, percentages
from games.werewolf.game import Werewolf
from games.werewolf.knowledge import WerewolfNotes
from games.werewolf.moves import (
    NO_SEAT,
    PACK,
    SEER,
    WOLF,
    DayBegan,
    DayVoted,
    DoctorProtected,
    HunterShot,
    NightBegan,
    NightEnded,
    PackChose,
    PackSeen,
    RunOffBegan,
    SeerSaw,
    VoteCast,
    WitchPoisoned,
    WitchSaw,
)


def _plural(role: str, count: int) -> str:
    if count == 1:
        return role.lower()
    return "werewolves" if role == WOLF else f"{role.lower()}s"


_SEER = "The seer learns whether one other player is a werewolf."
_DOCTOR = (
    "The doctor protects one player (the doctor included), but not the same one in two nights "
    "running; a victim that is protected survives."
)
_WITCH = (
    "Then the witch learns who is attacked. She has one potion to heal this player, who survives, "
    "and one to poison another player, who dies; she uses at most one potion in a night. Who died "
    "by poison is published."
)


def _talk(rounds: int) -> str:
    if not rounds:
        return ""
    times = "once" if rounds == 1 else f"{rounds} times"
    return (
        f"each living player makes a statement to all, or passes, {times}; the statements of one "
        "round are made at the same time, and may be false. Then "
    )


def _notation(game: Werewolf) -> str:
    notation = "vote Player NUMBER | pass | kill Player NUMBER"
    if not game.options.plain:
        helper = "heal | poison" if game.options.witch else "protect"
        notation += f" | inspect Player NUMBER | {helper} Player NUMBER"
    if game.options.hunter:
        notation += " | shoot Player NUMBER"
    return f"{notation} | say TEXT" if game.talk_rounds else notation


def _role(role: str) -> str:
    return f" ({role})" if role else ""


def _narrate_votes(game: Werewolf, event: DayVoted) -> str:
    names = game.seat_names
    votes = ", ".join(
        f"{name} for {names[vote]}"
        for name, vote in zip(names, event.votes, strict=True)
        if vote != NO_SEAT
    )
    result = "no player is eliminated"
    if event.eliminated is not None:
        result = f"{names[event.eliminated]}{_role(event.role)} is eliminated"
    return f"Votes: {votes or 'none'}. Result: {result}."


def note_lines(game: Werewolf, observation: Observation, level: TextLevel) -> Iterator[str]:
    """Yield the notes of this level, and the audience of a statement at night."""
    notes: WerewolfNotes = observation.notes  # type: ignore[assignment]
    if level != "events" and notes.role and not notes.is_over:
        yield from _facts(game, notes)
        if level == "deductions":
            yield from _deductions(game, notes)
    if observation.legal_actions.speech and not notes.is_day:
        yield "Only the living werewolves hear what you say now."


def _facts(game: Werewolf, notes: WerewolfNotes) -> list[str]:
    names = game.seat_names
    own = f"Your role is {notes.role}."
    if notes.player in notes.dead:
        own += " You are dead."
    if notes.pack:
        own += f" The other werewolves: {game.names_of(notes.pack)}."
    if notes.role == SEER and notes.inspected:
        results = ", ".join(
            f"{names[seat]} {'is a werewolf' if is_wolf else 'is no werewolf'}"
            for seat, is_wolf in notes.inspected.items()
        )
        own += f" Inspected: {results}."
    if notes.victim is not None:
        own += f" The werewolves attack {names[notes.victim]}."
    if notes.protected is not None:
        own += f" Protected last: {names[notes.protected]}."
    time = f"{'Day' if notes.is_day else 'Night'} {notes.night}."
    dead = "; ".join(f"{names[seat]} {how}" for seat, how in notes.dead.items())
    lines = [f"{own} {time}", f"Living: {game.names_of(notes.living)}. Dead: {dead or 'none'}."]
    if notes.candidates:
        lines.append(f"Run-off between: {game.names_of(notes.candidates)}.")
    # Older votes are among the events.
    if notes.votes or notes.cast:
        against = Counter(notes.latest_votes.values())
        counts = ", ".join(f"{names[seat]} {count}" for seat, count in sorted(against.items()))
        when = "so far" if notes.cast else "of the last day"
        lines.append(f"Votes {when} against: {counts or 'none'}.")
    return lines


def _deductions(game: Werewolf, notes: WerewolfNotes) -> list[str]:
    posterior = notes.posterior
    lines = [
        f"Possible assignments of the roles: {posterior.world_count():,}. Probability of being a "
        f"werewolf: {percentages(game, posterior.probabilities(PACK), notes.player)}."
    ]
    # The wolves hunt the seer.
    if notes.role == WOLF and not game.options.plain:
        seer = percentages(game, posterior.probabilities((SEER,)), notes.player)
        lines.append(f"Probability of being the seer: {seer}.")
    return lines


class WerewolfText(HiddenRolesText):
    """Texts of Werewolf."""

    game: Werewolf
    notes_type = WerewolfNotes

    def guide(self) -> PlayGuide:
        options = self.game.options
        night = "At night the werewolves choose a victim"
        if not options.plain:
            helper = "the doctor protects a player"
            if options.witch:
                helper = "the witch may once save the victim and once poison a player"
            night += f", the seer learns whether a player is a werewolf, and {helper}"
        hunter = " The hunter who dies may shoot a player." if options.hunter else ""
        example = (
            "The votes are public, and werewolves seldom vote against each other: compare who has "
            "never voted against whom."
        )
        if self.game.talk_rounds and not options.plain:
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
                f"{night}. By day all {'talk, and then ' if self.game.talk_rounds else ''}vote who "
                f"is out of the game.{hunter}"
            ),
            end=(
                "The village wins when the last werewolf is out; the werewolves when they are "
                "at least half of the living."
            ),
            example=example,
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        game = self.game
        roles = Counter(game.role_list)
        listed = ", ".join(f"{count} {_plural(role, count)}" for role, count in roles.items())
        options = game.options
        lines = [
            f"Werewolf, {game.num_players} players (Player 0 to Player {game.num_players - 1}). "
            f"Each has a secret role: {listed}. The werewolves know each other and play against "
            "all others, the village. The village wins when all werewolves are dead; the "
            "werewolves win as soon as they are at least half of the living players.",
            "Night: each werewolf votes in secret for a victim, who is no werewolf; the most votes "
            "count, and in a tie the vote of the werewolf with the lowest number."
            + ("" if options.plain else f" {_SEER} {_WITCH if options.witch else _DOCTOR}")
            + (" In the first night no player is killed." if options.quiet_first_night else ""),
            f"Day: {_talk(game.talk_rounds)}all living players vote "
            + ("one after the other" if options.open_votes else "at the same time")
            + " for another player, or pass, and the votes are published. The player with the most "
            "votes is out of the game; in a tie "
            + (
                "all vote once more, for one of the tied players, and in a second tie "
                * options.run_off
            )
            + "no player is.",
            "The role of a player who dies is published."
            if options.reveal
            else "The role of a player who dies stays secret"
            + (", except the hunter's." if options.hunter else "."),
        ]
        if options.hunter:
            lines.append("The hunter who dies may shoot one living player, who dies too.")
        lines.append("The dead see what is public, but neither act nor speak.")
        # A single wolf has no other wolf to talk to.
        if game.pack_talks:
            lines.append(
                "Before the werewolves choose, each may make one statement, which only they hear."
            )
        lines += self.statement_rules()
        lines.append(f"Your action: {_notation(game)}. For example: vote Player 3")
        return "\n".join(lines)

    def narrate(self, event: Event) -> str:  # noqa: PLR0911, PLR0912 - one case for a kind.
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
            case WitchSaw(player, victim):
                return f"{names[player]} learns that the werewolves attack {names[victim]}."
            case WitchPoisoned(seat, role):
                return f"{names[seat]}{_role(role)} died by poison."
            case VoteCast(player, vote):
                target = "no player" if vote == NO_SEAT else names[vote]
                return f"{names[player]} votes for {target}."
            case RunOffBegan(seats):
                return f"A run-off between {game.names_of(seats)} follows."
            case NightEnded(night, victim, role):
                if victim is None:
                    return f"No player died in night {night}."
                return f"{names[victim]}{_role(role)} died in night {night}."
            case DayBegan(day, living):
                return f"Day {day} begins. Living: {game.names_of(living)}."
            case Spoken():
                # The audience matters: a wolf must not take it for public.
                channel = "" if event.to is None else " (to the werewolves)"
                return f"{event.sentence(names)}{channel}"
            case DayVoted():
                return _narrate_votes(game, event)
            case HunterShot(hunter, seat, role):
                target = "no player" if seat is None else f"{names[seat]}{_role(role)}"
                return f"{names[hunter]}, the hunter, shoots {target}."
            case _:
                return super().narrate(event)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the notes of this level and the legal actions."""
        notes = note_lines(self.game, observation, level)
        return [*notes, *super().situation(observation, level)]

    def synonyms(self) -> Mapping[str, str]:
        return {
            **super().synonyms(),
            **{"vote for": "vote", "lynch": "vote", "eliminate": "vote", "abstain": "pass"},
            **{"attack": "kill", "eat": "kill", "investigate": "inspect", "check": "inspect"},
            **{"guard": "protect", "skip": "pass"},
            **(
                {"save": "heal"}
                if self.game.options.witch
                else {"save": "protect", "heal": "protect"}
            ),
        }


# Table


class WerewolfView(RoleView):
    """The table, made from the events that its viewer has witnessed. Players can be clicked."""

    game: Werewolf
    _notes: WerewolfNotes

    def __init__(self, game: Werewolf, seat: int | None) -> None:
        super().__init__(game, seat, WerewolfNotes(game, 0))

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        super().update(event)
        match event:
            case PackSeen(_, seats):
                self._hints.update(dict.fromkeys(seats, self._role_tile(WOLF)))
            case SeerSaw(_, seat, is_wolf):
                self._hints[seat] = self._role_tile(WOLF) if is_wolf else Tile("no wolf", "good")

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
        role = self._roles.get(seat) or (
            self._role_tile(public) if public else self._hints.get(seat)
        )
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
