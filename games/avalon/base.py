"""Options, roles and actions of Avalon, which its rules, knowledge and texts share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Literal

from arena import Action, ActionSet
from games.avalon.moves import APPROVE, FAIL, REJECT, SUCCESS, Assassinate, Propose
from games.avalon.options import (
    EVIL,
    EVIL_ROLES,
    GOOD,
    MERLIN,
    MINION,
    MORDRED,
    MORGANA,
    NUM_EVIL,
    OBERON,
    PERCIVAL,
    SERVANT,
    TEAM_SIZES,
    AvalonOptions,
)
from games.hidden_roles.game import PASS, SPEAK, HiddenRolesBase


class AvalonBase(HiddenRolesBase, ABC):
    """Options, roles and actions; `Avalon` adds the rest of the game."""

    name = "avalon"
    team_names = ("good", "evil")
    summary = "missions of loyal servants and hidden traitors; find Merlin"
    Options = AvalonOptions
    options: AvalonOptions

    @cached_property
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat: good ones first."""
        special, evil = self.options.special_roles, NUM_EVIL[self.num_players]
        good_special = [role for role in special if role not in EVIL_ROLES]
        evil_special = [role for role in special if role in EVIL_ROLES]
        servants = self.num_players - evil - len(good_special)
        minions = evil - len(evil_special)
        return (*good_special, *[SERVANT] * servants, *evil_special, *[MINION] * minions)

    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for good, 1 for evil."""
        return EVIL if role in EVIL_ROLES else GOOD

    def sight(self, role: str) -> tuple[Literal["evil", "merlin"] | None, frozenset[str]]:
        """Return the kind of secret that a role sees, and the roles of the seats that it sees."""
        evil = frozenset(EVIL_ROLES)
        if role == MERLIN:
            return "evil", evil - {MORDRED}
        if role == PERCIVAL:
            return "merlin", frozenset({MERLIN, MORGANA})
        if role in evil and role != OBERON:
            return "evil", evil - {OBERON}
        return None, frozenset()

    @property
    def team_sizes(self) -> tuple[int, ...]:
        """Members of the team of each mission."""
        return TEAM_SIZES[self.num_players]

    def fails_needed(self, mission: int) -> int:
        """Return the `fail` cards that make a mission fail; missions count from 0."""
        # The rule book: two for the fourth mission of seven or more players.
        return 2 if mission == 3 and self.num_players >= 7 else 1

    # Actions. The sets depend on public information only, see `Game`.

    def _all_actions(self) -> Iterable[Action]:
        for size in sorted(set(self.team_sizes)):
            yield from map(Propose, combinations(range(self.num_players), size))
        yield from (APPROVE, REJECT, SUCCESS, FAIL, PASS)
        if MERLIN in self.role_list:
            yield from map(Assassinate, range(self.num_players))

    @cached_property
    def _proposals(self) -> dict[int, ActionSet]:
        return {
            size: self.actions.subset(
                map(Propose, combinations(range(self.num_players), size))
            ).complete()
            for size in set(self.team_sizes)
        }

    def proposals(self, mission: int) -> ActionSet:
        """Return all teams of the size that a mission has; missions count from 0."""
        return self._proposals[self.team_sizes[mission]]

    @cached_property
    def statements(self) -> ActionSet:
        """Silence, or a statement."""
        return self.actions.subset((PASS,), (SPEAK,)).complete()

    @cached_property
    def vote_actions(self) -> ActionSet:
        """The two votes on a team."""
        return self.actions.subset((APPROVE, REJECT)).complete()

    @cached_property
    def card_actions(self) -> tuple[ActionSet, ActionSet]:
        """The mission cards of each team: good players have one."""
        # Both at once: a set made on first use would show that an evil player is on a team.
        return (
            self.actions.subset((SUCCESS,)).complete(),
            self.actions.subset((SUCCESS, FAIL)).complete(),
        )

    def guesses(self, seats: Sequence[int]) -> ActionSet:
        """Return the guesses of the Assassin: one of these seats."""
        return self.actions.subset(map(Assassinate, seats))

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is the guess of the Assassin, which ends the game."""
        return isinstance(action, Assassinate)
