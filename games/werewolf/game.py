"""Werewolf (Mafia) as a `Game`: D. Davidoff's Mafia (1986), with A. Plotkin's werewolves (1997).

The options `witch` and `run_off` follow "The Werewolves of Miller's Hollow" (P. des Pallières and
H. Marly, 2001), which has no doctor. There the causes of death stay secret and the witch may use
both potions in one night; here poison is announced, and she uses one potion in a night, so that
what a night proves is simple.

M. Braverman, O. Etesami, E. Mossel, "Mafia: a theoretical study of players and coalitions in a
partial information environment", Annals of Applied Probability 18 (2008), study its balance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from arena import Action, ActionSet
from games.hidden_roles.game import PASS, SPEAK, HiddenRolesGame, HiddenRolesState
from games.werewolf.moves import (
    DOCTOR,
    HEAL,
    HUNTER,
    NO_SEAT,
    PACK,
    SEER,
    VILLAGE,
    WITCH,
    WOLF,
    WOLVES,
    DayBegan,
    DayVote,
    DayVoted,
    DoctorProtected,
    HealVictim,
    HunterShot,
    Inspect,
    NightBegan,
    NightEnded,
    NightKill,
    PackChose,
    PackSeen,
    Poison,
    Protect,
    RunOffBegan,
    SeerSaw,
    ShootPlayer,
    VoteCast,
    WerewolfOptions,
    WitchPoisoned,
    WitchSaw,
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
    sides = ("village", "werewolf")
    summary = "a village votes out whom it takes for werewolves, who kill at night"
    Options = WerewolfOptions
    options: WerewolfOptions
    # Ties and saved victims can go on for long.
    default_max_turns = 50
    Text = "games.werewolf.text:WerewolfText"
    Analysis = "games.werewolf.assessor:WerewolfAnalysis"
    Arrays = "games.werewolf.knowledge:WerewolfArrays"
    View = "games.werewolf.text:WerewolfView"
    Talk = "games.hidden_roles.talk:RoleTalk"

    @cached_property
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat: werewolves first."""
        return self.options.roles

    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for the village, 1 for the werewolves."""
        return WOLVES if role in PACK else VILLAGE

    @property
    def seers(self) -> frozenset[str]:
        return frozenset({SEER}) & {*self.role_list}

    @property
    def promised(self) -> tuple[tuple[Action, ...], ...]:
        return ((*map(DayVote, range(self.num_players)), PASS),)

    @cached_property
    def pack_talks(self) -> bool:
        """Whether the wolves talk at night."""
        return self.talk_rounds > 0 and self.options.num_wolves > 1

    def _all_actions(self) -> Iterable[Action]:
        yield PASS
        kinds = (
            DayVote,
            NightKill,
            Inspect,
            Protect,
            *([ShootPlayer] if self.options.hunter else []),
            *([Poison] if self.options.witch else []),
        )
        for kind in kinds:
            yield from map(kind, range(self.num_players))
        if self.options.witch:
            yield HEAL
        yield from self._statements()

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is the shot of the hunter."""
        return isinstance(action, ShootPlayer)

    def initial_state(self) -> WerewolfState:
        return WerewolfState(self)


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
        self.victim: int | None = None
        """The player whom the wolves have killed in the night that ends now."""
        self.potions: tuple[type[Action], ...] = (HealVictim, Poison) if game.options.witch else ()
        """The potions that the witch still has."""
        self.cast: dict[int, Action] = {}
        """The votes of an open vote so far."""
        self.candidates: tuple[int, ...] = ()
        """The tied players of a run-off."""
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
                speech = (SPEAK,) if self.dealt[player] == WOLF else ()
                return self.game.actions.subset((PASS,), speech)
            case "talk":
                return self.game.talk_actions
            case "potions":
                return self._potion_actions(player)
            case "vote":
                seats = self.candidates or self.living
                return self._about(DayVote, (s for s in seats if s != player), may_pass=True)
            case _:
                return self._about(ShootPlayer, self.living, may_pass=True)

    def _night_actions(self, player: int) -> ActionSet:
        role = self.dealt[player]
        if self._is_quiet and role != SEER:
            return self.game.actions.subset((PASS,))
        if role == WOLF:
            return self._about(NightKill, (s for s in self.living if self.dealt[s] != WOLF))
        if role == SEER:
            return self._about(Inspect, self._others(player))
        if role == DOCTOR:
            return self._about(Protect, (s for s in self.living if s != self.protected))
        return self.game.actions.subset((PASS,))

    def _potion_actions(self, player: int) -> ActionSet:
        actions: list[Action] = [PASS]
        if self.dealt[player] == WITCH:
            actions += [HEAL] * (HealVictim in self.potions)
            others = (seat for seat in self.living if seat not in (player, self.victim))
            actions += map(Poison, others) if Poison in self.potions else ()
        return self.game.actions.subset(actions)

    @property
    def _is_quiet(self) -> bool:
        return self.day == 1 and self.game.options.quiet_first_night

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
            case "potions":
                self._end_potions(phase)
            case "vote":
                self._end_vote(phase)
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
        if self.talks < self.game.talk_rounds:
            self._begin("talk", self.living)
        else:
            self._begin_vote(())

    def _end_night(self, phase: Mapping[int, Action]) -> None:
        self.victim = None if self._is_quiet else pack_choice(phase)
        if self.victim is not None:
            votes = tuple(action.seat for action in phase.values() if isinstance(action, NightKill))
            self.log.append(PackChose(self.pack, votes, self.victim))
        for seat, action in phase.items():
            if isinstance(action, Inspect):
                # The seer learns the result even if killed in the same night.
                self.log.append(SeerSaw(seat, action.seat, self.dealt[action.seat] == WOLF))
            elif isinstance(action, Protect):
                self.protected = action.seat
                self.log.append(DoctorProtected(seat, action.seat))
                if self.victim == action.seat:
                    self.victim = None
        if self.game.options.witch and self.victim is not None:
            witch = self.dealt.index(WITCH)
            if witch in self.living:
                self.log.append(WitchSaw(witch, self.victim))
            # All act, as at night, so that it stays secret whether the witch lives.
            self._begin("potions", self.living)
        else:
            self._end_potions({})

    def _end_potions(self, phase: Mapping[int, Action]) -> None:
        dead = []
        for action in phase.values():
            self.potions = tuple(kind for kind in self.potions if not isinstance(action, kind))
            if isinstance(action, HealVictim):
                self.victim = None
            elif isinstance(action, Poison):
                dead.append(action.seat)
                self.log.append(WitchPoisoned(action.seat, self._shown_role(action.seat)))
        if self.victim is not None:
            dead.append(self.victim)
        role = "" if self.victim is None else self._shown_role(self.victim)
        self.log.append(NightEnded(self.day, self.victim, role))
        self._die(dead, "day")

    def _begin_vote(self, candidates: tuple[int, ...]) -> None:
        self.cast, self.candidates = {}, candidates
        self._begin("vote", self._voters()[:1] if self.game.options.open_votes else self.living)

    def _voters(self) -> tuple[int, ...]:
        """Return the players whose open vote is to come; another player begins each day."""
        first = (self.day - 1) % len(self.living)
        order = self.living[first:] + self.living[:first]
        return tuple(seat for seat in order if seat not in self.cast)

    def _end_vote(self, phase: Mapping[int, Action]) -> None:
        if self.game.options.open_votes:
            self.cast = {**self.cast, **phase}
            for seat, action in phase.items():
                vote = action.seat if isinstance(action, DayVote) else NO_SEAT
                self.log.append(VoteCast(seat, vote))
        if left := self._voters()[:1] if self.cast else ():
            self._begin("vote", left)
        else:
            self._end_day(self.cast or phase)

    def _end_day(self, phase: Mapping[int, Action]) -> None:
        votes = [NO_SEAT] * self.game.num_players
        for seat, action in phase.items():
            if isinstance(action, DayVote):
                votes[seat] = action.seat
        counts = Counter(vote for vote in votes if vote != NO_SEAT)
        best = tuple(
            seat for seat in self.living if counts[seat] == max(counts.values(), default=0)
        )
        # The most votes eliminate; a tie, or no vote at all, eliminates no player.
        if not counts or len(best) > 1:
            self.log.append(DayVoted(tuple(votes), None, ""))
            if counts and self.game.options.run_off and not self.candidates:
                self.log.append(RunOffBegan(best))
                self._begin_vote(best)
            else:
                self._begin_night()
            return
        self.log.append(DayVoted(tuple(votes), best[0], self._shown_role(best[0])))
        self._die(best, "night")

    def _shown_role(self, seat: int) -> str:
        """Return the role of a dead player as it is published; the hunter always is."""
        role = self.dealt[seat]
        return role if self.game.options.reveal or role == HUNTER else ""

    def _die(self, seats: Sequence[int], then: str) -> None:
        # The victims are dead before the hunter shoots, so that no player dies twice.
        self.living = tuple(other for other in self.living if other not in seats)
        hunter = tuple(seat for seat in seats if self.dealt[seat] == HUNTER)
        if hunter:
            self.dying_hunter, self.after_hunter = hunter[0], then
            # The hunter's role is public now, so that acting alone gives nothing away.
            self._begin("hunt", hunter)
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
