"""Werewolf (Mafia) as a `Game`: D. Davidoff's Mafia (1986), with A. Plotkin's werewolves (1997).

M. Braverman, O. Etesami, E. Mossel, "Mafia: a theoretical study of players and coalitions in a
partial information environment", Annals of Applied Probability 18 (2008), study its balance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from arena import Action, ActionSet, Observation
from games.hidden_roles.game import PASS, SPEAK, HiddenRolesGame, HiddenRolesState
from games.werewolf.moves import (
    DOCTOR,
    HUNTER,
    NO_SEAT,
    PACK,
    SEER,
    VILLAGE,
    WOLF,
    WOLVES,
    DayBegan,
    DayVote,
    DayVoted,
    DoctorProtected,
    HunterShot,
    Inspect,
    NightBegan,
    NightEnded,
    NightKill,
    PackChose,
    PackSeen,
    Protect,
    SeerSaw,
    ShootPlayer,
    WerewolfOptions,
)


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
    summary = "a village votes out whom it takes for werewolves, who kill at night"
    Options = WerewolfOptions
    options: WerewolfOptions
    # Ties and saved victims can go on for long.
    default_max_turns: ClassVar[int | None] = 50
    Text = "games.werewolf.text:WerewolfText"
    Analysis = "games.werewolf.assessor:WerewolfAnalysis"
    Arrays = "games.werewolf.knowledge:WerewolfArrays"
    View = "games.werewolf.view:WerewolfView"

    @cached_property
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat: werewolves first."""
        return self.options.roles

    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for the village, 1 for the werewolves."""
        return WOLVES if role in PACK else VILLAGE

    @cached_property
    def pack_talks(self) -> bool:
        """Whether the wolves talk at night."""
        return self.options.talk > 0 and self.options.num_wolves > 1

    def _all_actions(self) -> Iterable[Action]:
        yield PASS
        kinds = (
            DayVote,
            NightKill,
            Inspect,
            Protect,
            *([ShootPlayer] if self.options.hunter else []),
        )
        for kind in kinds:
            yield from map(kind, range(self.num_players))

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is the shot of the hunter."""
        return isinstance(action, ShootPlayer)

    def initial_state(self) -> WerewolfState:
        return WerewolfState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `pass` where it is legal, so that a failed answer neither votes nor shoots."""
        legal = observation.legal_actions
        return (PASS,) if PASS in legal else legal


class WerewolfState(HiddenRolesState):
    """A position: who lives, and what the doctor did last.

    At night every living player acts, villagers by passing, so that nothing shows who is who.
    """

    game: Werewolf

    def __init__(self, game: Werewolf) -> None:
        super().__init__(game)
        self.living: tuple[int, ...] = tuple(range(game.num_players))
        self.day = 0
        """Number of the current night and of the day after it."""
        self.talks = 0
        """Rounds of statements of this day that are over."""
        self.protected: int | None = None
        """Seat that the doctor protected last."""
        self.dying_hunter: int | None = None
        self.after_hunter: str = ""
        """Phase that follows the shot of the hunter: `day` or `night`."""

    @property
    def pack(self) -> tuple[int, ...]:
        """The living wolves."""
        return tuple(seat for seat in self.living if self.dealt[seat] == WOLF)

    # Legal actions. Sets that depend on hidden roles are made anew, and not kept on the game.

    def is_out(self, player: int) -> bool:
        return super().is_out(player) or player not in (*self.living, self.dying_hunter)

    def _legal_actions(self, player: int) -> ActionSet:
        match self.phase:
            case "night":
                return self._night_actions(player)
            case "night talk":
                can_speak = self.dealt[player] == WOLF
            case "talk":
                can_speak = True
            case "vote":
                return self._about(DayVote, self._others(player), may_pass=True)
            case _:
                return self._about(ShootPlayer, self.living, may_pass=True)
        return self.game.actions.subset((PASS,), (SPEAK,) if can_speak else ())

    def _night_actions(self, player: int) -> ActionSet:
        role = self.dealt[player]
        if role == WOLF:
            return self._about(NightKill, (s for s in self.living if self.dealt[s] != WOLF))
        if role == SEER:
            return self._about(Inspect, self._others(player))
        if role == DOCTOR:
            return self._about(Protect, (s for s in self.living if s != self.protected))
        return self.game.actions.subset((PASS,))

    def _others(self, player: int) -> Iterable[int]:
        return (seat for seat in self.living if seat != player)

    def _about(
        self, kind: Callable[[int], Action], seats: Iterable[int], may_pass: bool = False
    ) -> ActionSet:
        return self.game.actions.subset([*map(kind, seats), *([PASS] if may_pass else [])])

    # Phases

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
            case "talk":
                self.talks += 1
                self._log_statements(phase)
                self._discuss()
            case "vote":
                self._end_day(phase)
            case _:
                self._end_hunt(next(iter(phase.values())))

    def _begin_night(self) -> None:
        self.day += 1
        self.turn += 1
        self.log.append(NightBegan(self.day))
        self._begin("night talk" if self.game.pack_talks else "night", self.living)

    def _begin_day(self) -> None:
        self.talks = 0
        self.log.append(DayBegan(self.day, self.living))
        self._discuss()

    def _discuss(self) -> None:
        """Begin a round of statements, or the vote after the last one."""
        self._begin("talk" if self.talks < self.game.options.talk else "vote", self.living)

    def _end_night(self, phase: Mapping[int, Action]) -> None:
        victim = pack_choice(phase)
        pack = self.pack
        votes = tuple(action.seat for action in phase.values() if isinstance(action, NightKill))
        self.log.append(PackChose(pack, votes, victim))
        protected = None
        for seat, action in phase.items():
            if isinstance(action, Inspect):
                # The seer learns the result even if killed in the same night.
                self.log.append(SeerSaw(seat, action.seat, self.dealt[action.seat] == WOLF))
            elif isinstance(action, Protect):
                protected = self.protected = action.seat
                self.log.append(DoctorProtected(seat, action.seat))
        if victim == protected:
            self.log.append(NightEnded(self.day, None, ""))
            self._begin_day()
        else:
            self.log.append(NightEnded(self.day, victim, self._shown_role(victim)))
            self._die(victim, "day")

    def _end_day(self, phase: Mapping[int, Action]) -> None:
        votes = [NO_SEAT] * self.game.num_players
        for seat, action in phase.items():
            if isinstance(action, DayVote):
                votes[seat] = action.seat
        ranking = Counter(vote for vote in votes if vote != NO_SEAT).most_common(2)
        # The most votes eliminate; a tie, or no vote at all, eliminates no player.
        if not ranking or (len(ranking) == 2 and ranking[0][1] == ranking[1][1]):
            self.log.append(DayVoted(tuple(votes), None, ""))
            self._begin_night()
            return
        seat = ranking[0][0]
        self.log.append(DayVoted(tuple(votes), seat, self._shown_role(seat)))
        self._die(seat, "night")

    def _shown_role(self, seat: int) -> str:
        """Return the role of a dead player as it is published; the hunter always is."""
        role = self.dealt[seat]
        return role if self.game.options.reveal or role == HUNTER else ""

    def _die(self, seat: int, then: str) -> None:
        # The victim is dead before the hunter shoots, so that no player dies twice.
        self.living = tuple(other for other in self.living if other != seat)
        if self.dealt[seat] == HUNTER:
            self.dying_hunter, self.after_hunter = seat, then
            # The hunter's role is public now, so that acting alone gives nothing away.
            self._begin("hunt", (seat,))
        else:
            self._go_on(then)

    def _end_hunt(self, action: Action) -> None:
        hunter = self.dying_hunter
        assert hunter is not None
        self.dying_hunter = None
        if isinstance(action, ShootPlayer):
            self.log.append(HunterShot(hunter, action.seat, self._shown_role(action.seat)))
            self.living = tuple(seat for seat in self.living if seat != action.seat)
        else:
            self.log.append(HunterShot(hunter, None, ""))
        self._go_on(self.after_hunter)

    def _go_on(self, then: str) -> None:
        """End the game if a team has won, or begin the day or the night."""
        if not self.pack:
            self._end(VILLAGE)
        # Parity: by day the wolves can no longer be outvoted.
        elif 2 * len(self.pack) >= len(self.living):
            self._end(WOLVES)
        elif then == "day":
            self._begin_day()
        else:
            self._begin_night()

    def reason(self) -> str:
        if self.winner == VILLAGE:
            return "all werewolves are dead: the village wins"
        return "the werewolves are as many as the other players: they win"


def pack_choice(phase: Mapping[int, Action]) -> int:
    """Return the victim that the wolves choose: the most votes, in a tie the lowest wolf's vote.

    Args:
        phase: The actions of a night by seat, in ascending order of the seats.
    """
    votes = [action.seat for _, action in sorted(phase.items()) if isinstance(action, NightKill)]
    # `max` returns the first of equal ones, which is the vote of the wolf with the lowest seat.
    return max(votes, key=votes.count)
