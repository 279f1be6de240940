"""Talk of Werewolf: the words for its roles and sides, and the acts that players announce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena import Action, Event
from arena.core.claims import Claim, Vocabulary
from games.hidden_roles.game import PASS
from games.hidden_roles.talk import RoleTalk
from games.werewolf.moves import (
    DOCTOR,
    HUNTER,
    PACK,
    SEER,
    VILLAGER,
    WITCH,
    WOLF,
    DayVote,
)

TOWN = "village"
"""The side of all who are no wolves, in claims."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    WOLF: ("werewolf", "werewolves", "wolf", "wolves", "mafia", "wolfs"),
    SEER: ("seer", "prophet", "fortune teller", "fortune-teller"),
    DOCTOR: ("doctor", "doc", "healer"),
    HUNTER: ("hunter",),
    WITCH: ("witch",),
    VILLAGER: ("villager", "villagers", "townsperson", "vanilla", "vt"),
    TOWN: (
        *("innocent", "innocents", "clear", "clean", "cleared", "town", "townie", "village"),
        *("village side", "village's side", "side of the village", "village team", "our side"),
        *("good guys", "good guy", "member of the village"),
    ),
}
ABSTENTIONS = (
    *("abstain", "pass on the vote", "abstaining", "withhold my vote", "cast no vote"),
    *("vote for nobody", "vote for no one", "skip the vote", "skip this vote"),
)


class WerewolfTalk(RoleTalk):
    """Talk of Werewolf."""

    minority = WOLF

    @property
    def sees(self) -> frozenset[str]:
        """The seer."""
        return frozenset({SEER})

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the table."""
        return Vocabulary(
            self.game.num_players,
            groups=GROUPS,
            of_others={VILLAGER: TOWN},
            acts={"vote": (), "abstain": ABSTENTIONS},
        )

    def members(self, group: str) -> frozenset[str]:
        """Return the roles of a group: a side, or one role."""
        if group == TOWN:
            return frozenset(GROUPS) - PACK - {TOWN}
        return frozenset({group})

    def is_kept(
        self, claim: Claim, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether a vote by day keeps what its voter has announced."""
        if claim.kind != "intention" or not (isinstance(action, DayVote) or action == PASS):
            return None
        kept = (
            action == PASS if claim.content == "abstain" else action == DayVote(claim.player or 0)
        )
        return kept == claim.holds
