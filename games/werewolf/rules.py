"""Werewolf (Mafia) as a `Game`: D. Davidoff's Mafia (1986), with A. Plotkin's werewolves (1997).

M. Braverman, O. Etesami, E. Mossel, "Mafia: a theoretical study of players and coalitions in a
partial information environment", Annals of Applied Probability 18 (2008), study its balance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from arena import Action, ActionSet, Event
from arena.core.event import PrivateEvent
from games.hidden_roles.rules import (
    PASS,
    SPEAK,
    HiddenRolesGame,
    HiddenRolesState,
    RoleOptions,
    SeatAction,
)

VILLAGE, WOLVES = 0, 1
"""Numbers of the teams."""

WOLF, SEER, DOCTOR, VILLAGER = "Werewolf", "Seer", "Doctor", "Villager"
ROLES = (WOLF, SEER, DOCTOR, VILLAGER)
PACK = frozenset({WOLF})
"""The roles of the wolves' team."""


class WerewolfOptions(RoleOptions):
    """Options of `werewolf`."""

    players: int = Field(7, ge=5, le=12, description="Number of seats.")
    wolves: int = Field(
        0,
        ge=0,
        le=5,
        description="Werewolves, fewer than half of the players. 0: 1 of up to 6 players, 2 of 7 "
        "to 9 and 3 of more.",
    )
    plain: bool = Field(False, description="There is no seer and no doctor.")
    quiet_first_night: bool = Field(
        False, description="The werewolves do not kill in the first night."
    )

    @property
    def num_wolves(self) -> int:
        """Number of werewolves."""
        return self.wolves or 1 + (self.players >= 7) + (self.players >= 10)

    @model_validator(mode="after")
    def _check_wolves(self) -> Self:
        # Otherwise the wolves have won before the first night.
        if 2 * self.num_wolves >= self.players:
            raise ValueError(
                f"wolves: {self.num_wolves} of {self.players} players; give fewer than half"
            )
        return self


NO_SEAT = -1
"""Entry of a list of votes for a player who abstains or is dead."""


@dataclass(frozen=True, slots=True)
class NightKill(SeatAction, template="kill Player {self.seat}"):
    """A wolf's vote at night for the victim."""


@dataclass(frozen=True, slots=True)
class Inspect(SeatAction, template="inspect Player {self.seat}"):
    """The seer's question at night: is this player a werewolf?"""


@dataclass(frozen=True, slots=True)
class Protect(SeatAction, template="protect Player {self.seat}"):
    """The doctor's choice at night: this player survives an attack."""


@dataclass(frozen=True, slots=True)
class DayVote(SeatAction, template="vote Player {self.seat}"):
    """A vote by day for the elimination of a player, sealed until all have voted."""


@dataclass(frozen=True, slots=True)
class PackSeen(PrivateEvent):
    """Private: the other werewolves, after the deal."""

    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SeerSaw(PrivateEvent):
    """Private: whether the player whom the seer has inspected is a werewolf."""

    seat: int
    is_wolf: bool


@dataclass(frozen=True, slots=True)
class NightBegan(Event):
    """Public: a night begins, so the game is not over."""

    night: int


@dataclass(frozen=True, slots=True)
class PackChose(Event):
    """Private, for the living wolves: their votes at night, and the victim that follows."""

    wolves: tuple[int, ...]
    votes: tuple[int, ...]
    """Seat that each of `wolves` voted for."""
    victim: int

    @property
    def audience(self) -> tuple[int, ...]:
        return self.wolves


@dataclass(frozen=True, slots=True)
class DoctorProtected(PrivateEvent):
    """Private: the choice of the doctor, after the night."""

    seat: int


@dataclass(frozen=True, slots=True)
class NightEnded(Event):
    """Public: the player who died at night, if one did."""

    night: int
    victim: int | None
    role: str
    """Role of the dead player; empty if no player died."""


@dataclass(frozen=True, slots=True)
class DayBegan(Event):
    """Public: a day begins, so the game is not over."""

    day: int
    living: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DayVoted(Event):
    """Public: all votes of a day, and the player who is eliminated, if one is."""

    votes: tuple[int, ...]
    """Seat that each seat voted for, or `NO_SEAT`."""
    eliminated: int | None
    role: str


class Werewolf(HiddenRolesGame):
    """Five to twelve players: a village, and werewolves among them.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Werewolf(players=5, talk=0).initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> state.roles()
        ('Doctor', 'Seer', 'Werewolf', 'Villager', 'Villager')
        >>> [str(action) for action in state.legal_actions(2)][:2]
        ['kill Player 0', 'kill Player 1']
    """

    name = "werewolf"
    team_names = ("the village", "the werewolves")
    sides = ("village", "werewolf")
    summary = "a village votes out whom it takes for werewolves, who kill at night"
    Options = WerewolfOptions
    options: WerewolfOptions
    # Ties and saved victims can go on for long.
    default_max_turns = 50
    minority = PACK
    vote = DayVote
    Text = "games.werewolf.text:WerewolfText"
    Analysis = "games.werewolf.knowledge:WerewolfAnalysis"
    View = "games.werewolf.text:WerewolfView"
    Talk = "games.hidden_roles.talk:RoleTalk"

    @cached_property
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat: werewolves first."""
        options, wolves = self.options, self.options.num_wolves
        special = () if options.plain else (SEER, DOCTOR)
        villagers = options.players - wolves - len(special)
        return (*[WOLF] * wolves, *special, *[VILLAGER] * villagers)

    @property
    def seers(self) -> frozenset[str]:
        return frozenset({SEER}) & {*self.role_list}

    @property
    def promised(self) -> tuple[tuple[Action, ...], ...]:
        return ((*map(DayVote, range(self.num_players)), PASS),)

    @cached_property
    def pack_talks(self) -> bool:
        """Whether the wolves talk at night."""
        return bool(self.options.talk) and self.options.num_wolves > 1

    def _all_actions(self) -> Iterable[Action]:
        yield PASS
        for kind in (DayVote, NightKill, Inspect, Protect):
            yield from map(kind, range(self.num_players))
        yield from self._statements()

    def initial_state(self) -> WerewolfState:
        return WerewolfState(self)


class WerewolfState(HiddenRolesState):
    """A position: who lives, and whom the doctor protected.

    At night every living player acts, villagers by passing, so that nothing shows who is who.
    """

    game: Werewolf

    def __init__(self, game: Werewolf) -> None:
        super().__init__(game)
        self.living: tuple[int, ...] = tuple(range(game.num_players))
        self.day = 0
        """Number of the current night and of the day after it."""
        self.is_day = False
        self.protected: int | None = None
        """Seat that the doctor protected last."""

    @property
    def pack(self) -> tuple[int, ...]:
        """The living wolves."""
        return tuple(seat for seat in self.living if self.dealt[seat] == WOLF)

    @property
    def _is_quiet(self) -> bool:
        return self.day == 1 and self.game.options.quiet_first_night

    def is_out(self, player: int) -> bool:
        return super().is_out(player) or player not in self.living

    def _legal_actions(self, player: int) -> ActionSet:
        if self.phase == "talk":
            return self.game.talk_actions
        # Sets that depend on hidden roles are made anew, and not kept on the game.
        speaks = self.phase == "night talk" and self.dealt[player] == WOLF
        return self.game.actions.subset(self._actions(player), (SPEAK,) if speaks else ())

    def _actions(self, player: int) -> Iterable[Action]:
        others = [seat for seat in self.living if seat != player]
        actions: Iterable[Action] = (PASS,)
        match self.phase, self.dealt[player]:
            case "vote", _:
                actions = (*map(DayVote, others), PASS)
            case "night", "Seer":
                actions = map(Inspect, others)
            case "night", "Werewolf" if not self._is_quiet:
                actions = map(NightKill, (seat for seat in others if self.dealt[seat] != WOLF))
            case "night", "Doctor" if not self._is_quiet:
                actions = map(Protect, (seat for seat in self.living if seat != self.protected))
        return actions

    def _start(self) -> None:
        for seat in self.pack:
            self.log.append(PackSeen(seat, tuple(o for o in self.pack if o != seat)))
        self._begin_night()

    def _resolve(self, phase: Mapping[int, Action]) -> None:
        match self.phase:
            case "night talk":
                # The living wolves hear it; a single wolf speaks to itself.
                self._log_statements(phase, self.pack)
                self._begin("night", self.living)
            case "night":
                self._end_night(phase)
            case _:
                self._end_day(phase)

    def _begin_night(self) -> None:
        self.day += 1
        self.turn += 1
        self.is_day = False
        self.log.append(NightBegan(self.day))
        self._begin("night talk" if self.game.pack_talks else "night", self.living)

    def _end_night(self, phase: Mapping[int, Action]) -> None:
        votes = tuple(action.seat for action in phase.values() if isinstance(action, NightKill))
        # The most votes count, in a tie that of the wolf with the lowest seat: `max` returns the
        # first of equal ones. No wolf votes in a quiet night.
        victim = max(votes, key=votes.count, default=None)
        if victim is not None:
            self.log.append(PackChose(self.pack, votes, victim))
        for seat, action in phase.items():
            if isinstance(action, Inspect):
                # The seer learns the result even if killed in the same night.
                self.log.append(SeerSaw(seat, action.seat, self.dealt[action.seat] == WOLF))
            elif isinstance(action, Protect):
                self.protected = action.seat
                self.log.append(DoctorProtected(seat, action.seat))
                if victim == action.seat:
                    victim = None
        self.log.append(NightEnded(self.day, victim, self._role_of(victim)))
        self._go_on(victim)

    def _end_day(self, phase: Mapping[int, Action]) -> None:
        votes = [NO_SEAT] * self.game.num_players
        for seat, action in phase.items():
            if isinstance(action, DayVote):
                votes[seat] = action.seat
        counts = Counter(vote for vote in votes if vote != NO_SEAT)
        best = [seat for seat in counts if counts[seat] == max(counts.values())]
        # The most votes eliminate; a tie, or no vote at all, eliminates no player.
        eliminated = best[0] if len(best) == 1 else None
        self.log.append(DayVoted(tuple(votes), eliminated, self._role_of(eliminated)))
        self._go_on(eliminated)

    def _role_of(self, seat: int | None) -> str:
        return "" if seat is None else self.dealt[seat]

    def _go_on(self, dead: int | None) -> None:
        """Remove the dead; end the game if a team has won, or begin the day or the night."""
        self.living = tuple(seat for seat in self.living if seat != dead)
        if not self.pack:
            self._end(VILLAGE)
        # Parity: by day the wolves can no longer be outvoted.
        elif 2 * len(self.pack) >= len(self.living):
            self._end(WOLVES)
        elif self.is_day:
            self._begin_night()
        else:
            self.is_day = True
            self.log.append(DayBegan(self.day, self.living))
            self._discuss(self.living)

    def reason(self) -> str:
        if self.winner == VILLAGE:
            return "all werewolves are dead: the village wins"
        return "the werewolves are as many as the other players: they win"
