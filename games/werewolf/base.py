"""Options, roles and actions of Werewolf, which its rules, knowledge and texts share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from arena import Action
from games.hidden_roles.game import PASS, HiddenRolesBase
from games.werewolf.moves import DayVote, Inspect, NightKill, Protect, ShootPlayer
from games.werewolf.options import PACK, VILLAGE, WOLVES, WerewolfOptions


class WerewolfBase(HiddenRolesBase, ABC):
    """Options, roles and actions; `Werewolf` adds the rest of the game."""

    name = "werewolf"
    team_names = ("the village", "the werewolves")
    summary = "a village votes out whom it takes for werewolves, who kill at night"
    Options = WerewolfOptions
    options: WerewolfOptions
    # Ties and saved victims can go on for long.
    default_max_turns: ClassVar[int | None] = 50

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
