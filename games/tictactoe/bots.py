"""Bots of tic-tac-toe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from arena import Action, Observation
from arena.agents.agent import EvenBot
from games.tictactoe.game import SQUARES, Mark, Marked, has_line

Marks = frozenset[Mark]


@cache
def value(last: Marks, other: Marks) -> int:
    """Return the score of the player who marked last, if both play perfectly from here on."""
    if has_line(last):
        return 1
    free = SQUARES - last - other
    return -max((value(other | {mark}, last) for mark in free), default=0)


def _marks(observation: Observation) -> tuple[Marks, Marks]:
    """Return the marks of the observer and of the other player."""
    marked = [each for each in observation.events if isinstance(each, Marked)]
    own, other = (
        frozenset(Mark(each.row, each.column) for each in marked if (each.player == me) is mine)
        for me, mine in ((observation.player, True), (observation.player, False))
    )
    return own, other


class Perfect(EvenBot):
    """Bot that never loses: it draws from the marks of the best score (minimax).

    Among them it prefers those after which most answers of the other player lose.
    """

    def _best(self, observation: Observation) -> Sequence[Action]:
        own, other = _marks(observation)
        ranks = dict[Action, tuple[int, int]]()
        for mark in observation.legal_actions:
            assert isinstance(mark, Mark)
            after = own | {mark}
            answers = SQUARES - after - other
            traps = sum(value(other | {answer}, after) < 0 for answer in answers)
            ranks[mark] = (value(after, other), traps)
        best = max(ranks.values())
        return [mark for mark, rank in ranks.items() if rank == best]


class Blocking(EvenBot):
    """Bot that completes its own line, else blocks one, and else marks any square."""

    def _best(self, observation: Observation) -> Sequence[Action]:
        own, other = _marks(observation)
        legal = observation.legal_actions
        marks = [mark for mark in legal if isinstance(mark, Mark)]
        for line in (own, other):
            if completing := [mark for mark in marks if has_line(line | {mark})]:
                return completing
        return legal
