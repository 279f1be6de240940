"""What a seat has found out, by exact knowledge.

Potential-based shaping (Ng, Harada and Russell, "Policy invariance under reward transformations",
ICML 1999): with the potential

    phi = -H / H_dealt,    H the entropy in bits of what the game hides from the seat,

and without discount, a decision earns phi(after) - phi(before). These gains telescope: whichever
moments they are taken between, they add up to phi(end) - phi(dealt) = (H_dealt - H_end) / H_dealt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from arena import Assessment
from arena.core.errors import ArenaError, UsageError

if TYPE_CHECKING:
    from arena.episodes.reward import Rollout


def share_removed(assessments: Sequence[Assessment]) -> float:
    """(H_dealt - H_end) / H_dealt, from a seat's assessment of the kind `knowledge`.

    0 where nothing was hidden. Raises ArenaError without such an assessment.
    """
    for each in reversed(assessments):
        if each.kind == "knowledge":
            dealt, end = each.facts.get("entropy_dealt"), each.facts.get("entropy_end")
            if isinstance(dealt, int | float) and isinstance(end, int | float):
                return (dealt - end) / dealt if dealt else 0.0
    raise ArenaError(
        "the game's assessor does not say what a player knew at the end: it must give an "
        "assessment of the kind 'knowledge' with entropy_dealt and entropy_end"
    )


def information_gains(rollout: Rollout, before: Collection[int] | None = None) -> list[float]:
    """What was gained between moments of a game; the sum is the term `information`.

    The moments are those just before these plies, the seat's own decisions if none are given. The
    first gain is what came before all of them, each further one what came after its moment.
    Raises UsageError for a game without exact knowledge.
    """
    game, seat = rollout.game, rollout.seat
    assessor = game.assessor((seat,), ("knowledge",))
    if assessor is None:
        raise UsageError(f"{game.name} has no exact knowledge: nothing says what a seat found out")
    removed = [0.0]
    for ply in rollout.episode.plies:
        if ply.player == seat if before is None else ply.number in before:
            said = assessor.end(rollout.episode.outcome)
            removed.append(share_removed(said) if said else 0.0)  # Nothing, before the deal.
        assessor.ply(ply)
    removed.append(share_removed(assessor.end(rollout.episode.outcome)))
    return [after - earlier for earlier, after in pairwise(removed)]
