"""Accusation threshold: the risk of waiting one turn compared with the risk of accusing now."""

from __future__ import annotations

from games.cluedo.inference.knowledge import CluedoKnowledge

HAZARD = 0.5
"""Probability that a rival solves the case in its next turn when the player in turn is down to two
envelopes (1 bit). The rivals are assumed to know about as much as the player."""


def break_even(knowledge: CluedoKnowledge, rivals: int, may_suggest: bool) -> float:
    """Return the probability of an envelope above which accusing now wins as often as waiting.

    It is 1 while the player may still make a suggestion in this turn, because asking first costs
    nothing, and 1 if no rival is left. Otherwise it is the probability that none of the `rivals`
    (the other players still in the game) solves the case before the player's next turn, in which
    the player is assumed to win:

        (1 - HAZARD * 2 ** (1 - H)) ** rivals,    H = entropy of the envelope in bits.

    This is an estimate. Its form and its constant were fitted to games between bots that reason.
    Only the cases with value 1 are exact. Measures use it because it depends on nothing but the
    player's own uncertainty; the oracle's own decision looks at what each rival can know, see
    `rivals`.
    """
    if may_suggest or not rivals:
        return 1.0
    # A rival with H bits left faces about 2^H envelopes: the threat halves with each bit.
    threat = HAZARD * 2 ** (1 - knowledge.entropy())
    # The rivals count as independent, and each of them must fail.
    return float((1 - threat) ** rivals)
