"""Talk of Avalon: the words for its roles and sides, and the acts that players announce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena import Action, Event
from arena.core.claims import Claim, Vocabulary
from games.avalon.moves import (
    ASSASSIN,
    EVIL_ROLES,
    MERLIN,
    MINION,
    MORDRED,
    MORGANA,
    OBERON,
    PERCIVAL,
    ROLES,
    SERVANT,
    AvalonOptions,
    PlayCard,
    VoteOnTeam,
)
from games.hidden_roles.talk import RoleTalk

GOOD_SIDE, EVIL_SIDE = "good", "evil"
"""The sides, in claims."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    MERLIN: ("merlin",),
    PERCIVAL: ("percival",),
    SERVANT: (
        *("loyal servant of arthur", "servant of arthur", "faithful servant of arthur"),
        *("loyal servant", "faithful servant", "servant"),
    ),
    ASSASSIN: ("assassin",),
    MORGANA: ("morgana",),
    MORDRED: ("mordred",),
    OBERON: ("oberon",),
    MINION: ("minion of mordred", "minion", "minions of mordred", "minions"),
    GOOD_SIDE: (
        *("good", "loyal", "good side", "side of good", "good team", "good player", "good players"),
        *("innocent", "clean", "good guys", "good guy", "our side"),
    ),
    EVIL_SIDE: (
        *(
            "evil",
            "evil side",
            "evil player",
            "evil players",
            "traitor",
            "traitors",
            "spy",
            "spies",
        ),
        *("bad", "side of evil", "evil team", "bad guy", "bad guys"),
        *("servant of mordred", "servants of mordred", "dark side"),
    ),
}
_TEAM = (
    "",
    " it",
    " this",
    " this team",
    " this proposal",
    " the team",
    " this one",
    " the proposal",
)
_APPROVALS = (
    "approve",
    "support",
    "approval",
    "vote yes",
    "vote for this team",
    "for this team",
    "voting yes",
    "in favour of",
    "in favor of",
    *(
        "back",
        "backing",
        "endorse",
        "get behind",
        "stand behind",
        "say yes to",
        "saying yes to",
        "go along with",
    ),
    *("say yes", "saying yes"),
)
_REJECTIONS = (
    "reject",
    "oppose",
    "vote no",
    "voting no",
    "voting against",
    "vote against this team",
    "against",
    "rejecting",
    *("say no to", "say no", "saying no to", "saying no"),
)
ACTS: Mapping[str, tuple[str, ...]] = {
    "approve": tuple(f"{verb}{team}" for verb in (*_APPROVALS, "approving") for team in _TEAM),
    "reject": tuple(f"{verb}{team}" for verb in _REJECTIONS for team in _TEAM),
    "success": ("success", "a success card", "success card", "play success"),
    "fail": ("a fail card", "fail card", "play fail"),
}


class AvalonTalk(RoleTalk):
    """Talk of Avalon."""

    minority = EVIL_SIDE

    @property
    def sees(self) -> frozenset[str]:
        """Merlin and Percival; with the Lady of the Lake, her holder may have any role."""
        options = self.game.options
        assert isinstance(options, AvalonOptions)
        return frozenset(ROLES) if options.lady else frozenset((MERLIN, PERCIVAL))

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the table."""
        return Vocabulary(
            self.game.num_players,
            groups=GROUPS,
            of_others={SERVANT: GOOD_SIDE, MINION: EVIL_SIDE},
            acts=ACTS,
        )

    def members(self, group: str) -> frozenset[str]:
        """Return the roles of a group: a side, or one role."""
        if group == EVIL_SIDE:
            return frozenset(EVIL_ROLES)
        if group == GOOD_SIDE:
            return frozenset((MERLIN, PERCIVAL, SERVANT))
        return frozenset({group})

    def is_kept(
        self, claim: Claim, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether a vote or a card keeps what its player has announced."""
        if claim.kind != "intention":
            return None
        if isinstance(action, VoteOnTeam) and claim.content in ("approve", "reject"):
            return (action.approves == (claim.content == "approve")) == claim.holds
        if isinstance(action, PlayCard) and claim.content in ("success", "fail"):
            return (action.fails == (claim.content == "fail")) == claim.holds
        return None
