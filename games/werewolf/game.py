"""Werewolf (Mafia) as a `Game`: D. Davidoff's Mafia (1986), with A. Plotkin's werewolves (1997).

M. Braverman, O. Etesami, E. Mossel, "Mafia: a theoretical study of players and coalitions in a
partial information environment", Annals of Applied Probability 18 (2008), study its balance.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import (
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    TextLevel,
)
from games.hidden_roles.base import PASS
from games.hidden_roles.rules import HiddenRolesGame, HiddenRolesState
from games.werewolf import text
from games.werewolf.assessor import MEASURES, WerewolfAssessor, comment
from games.werewolf.base import WerewolfBase
from games.werewolf.moves import NO_SEAT
from games.werewolf.notes import WerewolfNotes
from games.werewolf.posterior import WerewolfPosterior
from games.werewolf.resampling import redraw
from games.werewolf.state import WerewolfState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.werewolf.view import WerewolfView


class Werewolf(WerewolfBase, HiddenRolesGame):
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

    measures = MEASURES

    # Positions and knowledge

    def initial_state(self) -> WerewolfState:
        return WerewolfState(self)

    def knowledge(self, player: int) -> WerewolfPosterior:
        return WerewolfPosterior(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> WerewolfAssessor:
        """Return a new assessor of one game; its kinds are `vote` and `knowledge`."""
        return WerewolfAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment:
        return comment(assessment)

    def new_notes(self, player: int) -> WerewolfNotes:
        return WerewolfNotes(self, player)

    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw a finished phase again, see `redraw` in `resampling`."""
        assert isinstance(before, WerewolfState) and isinstance(other, WerewolfState)
        return redraw(before, other, phase, player, rng)

    # Texts and views

    def new_view(self, seat: int | None) -> WerewolfView:
        """Return a view of the table: a row for each player."""
        from games.werewolf.view import WerewolfView

        return WerewolfView(self)

    def rules(self) -> str:
        return text.rules(self)

    def narrate(self, event: Event) -> str:
        return text.narrate(self, event)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the notes of this level and the legal actions."""
        notes = text.note_lines(self, observation, level)
        return [*notes, *super().situation(observation, level)]

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `pass` where it is legal, so that a failed answer neither votes nor shoots."""
        legal = observation.legal_actions
        return (PASS,) if PASS in legal else legal

    def synonyms(self) -> Mapping[str, str]:
        return {
            **super().synonyms(),
            **{"vote for": "vote", "lynch": "vote", "eliminate": "vote", "abstain": "pass"},
            **{"attack": "kill", "eat": "kill", "investigate": "inspect", "check": "inspect"},
            **{"save": "protect", "heal": "protect", "guard": "protect", "skip": "pass"},
        }

    # Arrays

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        players = self.num_players
        roles = len(self.distinct_roles)
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "role": ArraySpec(shape=(roles,), low=0, high=1),
            "pack": ArraySpec(shape=(players,), low=0, high=1),
            "inspected": ArraySpec(shape=(players,), low=-1, high=1),
            "protected": ArraySpec(shape=(players,), low=0, high=1),
            "living": ArraySpec(shape=(players,), low=0, high=1),
            "public_roles": ArraySpec(shape=(players, roles), low=0, high=1),
            "last_votes": ArraySpec(shape=(players, players), low=0, high=1),
            "day": ArraySpec(shape=(2,), low=0, high=127),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays; one column per seat.

        `inspected` is 1 for a werewolf and -1 for another role. `last_votes` has a row per voter.
        `day` is the number of the night, at most 127, and 1 by day.
        """
        import numpy as np  # Imported late: listing the games must stay fast.

        notes: WerewolfNotes = observation.notes  # type: ignore[assignment]
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.array_specs.items()}
        arrays["player"][observation.player] = 1
        if notes.role:
            arrays["role"][self.distinct_roles.index(notes.role)] = 1
        arrays["pack"][list(notes.pack)] = 1
        for seat, is_wolf in notes.inspected.items():
            arrays["inspected"][seat] = 1 if is_wolf else -1
        if notes.protected is not None:
            arrays["protected"][notes.protected] = 1
        arrays["living"][list(notes.living)] = 1
        for seat, role in notes.roles.items():
            arrays["public_roles"][seat, self.distinct_roles.index(role)] = 1
        for voter, vote in enumerate(notes.votes[-1].votes if notes.votes else ()):
            if vote != NO_SEAT:
                arrays["last_votes"][voter, vote] = 1
        arrays["day"][:] = min(notes.night, 127), notes.is_day
        return arrays
