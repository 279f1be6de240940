"""When to accuse: what waiting for the next turn risks, against what accusing now risks."""

from __future__ import annotations

from games.cluedo.inference.knowledge import CluedoKnowledge

HAZARD = 0.5
"""How likely a rival is to solve the case in its next turn when the player in turn is down to two
envelopes. Rivals are taken to know about as much as the player does."""


def break_even(knowledge: CluedoKnowledge, rivals: int, may_suggest: bool) -> float:
    """The probability of an envelope above which accusing it now wins as often as waiting would.

    1 while the player may still suggest this turn, for asking first costs nothing, and 1 where no
    rival is left. Otherwise the probability that none of the `rivals`, the other players still in
    the game, solves the case before the player's next turn, after which it is taken to win:

        (1 - HAZARD * 2 ** (1 - H)) ** rivals,    H = the entropy of the envelope in bits.

    An estimate, whose form and constant were fitted to games between bots; only what follows from
    certainty (1 as long as waiting is free) is exact.
    """
    if may_suggest or not rivals:
        return 1.0
    threat = HAZARD * 2 ** (1 - knowledge.entropy())
    return float((1 - threat) ** rivals)
