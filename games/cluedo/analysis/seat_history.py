"""Record of one seat during a game: its knowledge, its turns and its chances to accuse."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from games.cluedo.analysis.facts import NEGLIGIBLE
from games.cluedo.analysis.seen_cards import SeenCards
from games.cluedo.inference.constraints import Constraints
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Suggest


@dataclass(slots=True)
class AccusationOpportunity:
    """A decision at which accusing was legal."""

    ply: int
    ends_turn: bool
    constraints: Constraints
    """What the player knew at the time."""
    provable: bool | None
    """Whether only one envelope was possible; None until it is computed."""

    def is_provable(self) -> bool:
        """Return whether only one envelope was possible."""
        if self.provable is None:
            # Entropy 0 means one envelope; the constraints are those of that decision.
            self.provable = DealCount(self.constraints).entropy() < NEGLIGIBLE
        return self.provable


@dataclass(slots=True)
class SeatHistory:
    """Record of one seat, updated by the assessor."""

    knowledge: CluedoKnowledge
    seen: SeenCards
    entropy_dealt: float | None = None
    """Entropy of the envelope after the deal, in bits, if it is needed."""
    own_turns: int = 0
    """Number of own turns so far."""
    latest_turn: int = 0
    """The game's number of the latest own turn."""
    open_questions: Sequence[Suggest] = ()
    """The questions that it could ask last in this turn; empty as soon as it has asked one."""
    opportunities: list[AccusationOpportunity] = field(default_factory=list)
    accused: bool = False

    @property
    def provable(self) -> bool:
        """Whether only one envelope is possible now."""
        return self.knowledge.entropy() < NEGLIGIBLE

    def provable_opportunities(self) -> list[AccusationOpportunity]:
        """Return the decisions at which the envelope was provable."""
        # Knowledge never shrinks, so these are the last decisions of the list. A binary search
        # counts the deals at a few decisions only.
        if not self.opportunities or not self.opportunities[-1].is_provable():
            return []
        first = bisect_left(self.opportunities, True, key=AccusationOpportunity.is_provable)
        return self.opportunities[first:]

    @property
    def turns_passed(self) -> int:
        """Number of own turns that the player ended although the envelope was provable."""
        return sum(opportunity.ends_turn for opportunity in self.provable_opportunities())
