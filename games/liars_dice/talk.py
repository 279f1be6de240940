"""Claims of liar's dice: each bid says that so many dice count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import Action, Event
from arena.core.analysis import Knowledge
from arena.core.claims import Claim, GameTalk
from games.liars_dice.knowledge import LiarsDiceKnowledge
from games.liars_dice.moves import DiceBid

if TYPE_CHECKING:
    from games.liars_dice.game import LiarsDice


class LiarsDiceTalk(GameTalk):
    """Bids as claims. A bid that is more probably false than true is a bluff."""

    game: LiarsDice
    bluff_below = 0.5

    def move_claims(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Claim]:
        """Return the claim of a bid: `bid 1 3 fives`."""
        return (Claim("bid", player, action.claim),) if isinstance(action, DiceBid) else ()

    def probability(self, claim: Claim, speaker: int, knowledge: Knowledge) -> float | None:
        """Return the probability that a bid is true, given the bidder's own dice."""
        assert isinstance(knowledge, LiarsDiceKnowledge)
        bid = next(bid for bid in self.game.bids if bid.claim == claim.content)
        return knowledge.probability(bid)
