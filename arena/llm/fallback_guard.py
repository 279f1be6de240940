"""Guard against runs in which a model does not play: nearly all its moves are fallback moves."""

from __future__ import annotations

from arena.core.errors import StopPlaying
from arena.llm.ledger import Tally

WINDOW = 4
"""The first decisions that are looked at as a whole, in multiples of the limit in a row."""


class FallbackGuard:
    """Counts the decisions and fallback moves of one SPEC in its tally, over all games of a run.

    It stops the run after `limit` of them in a row, or when they are more than half of the first
    `WINDOW * limit` decisions. Such games measure the fallback, not the model.
    """

    def __init__(self, name: str, tally: Tally) -> None:
        self._name = name
        self._tally = tally
        self._in_a_row = 0

    def count(self, failure: str | None, limit: int) -> None:
        """Count a decision; `failure` is the reason of a fallback move. 0 means no limit.

        Raises StopPlaying.
        """
        tally = self._tally
        tally.decisions += 1
        tally.fallbacks += failure is not None
        self._in_a_row = self._in_a_row + 1 if failure is not None else 0
        is_early = tally.decisions <= WINDOW * limit
        too_many = is_early and tally.fallbacks > WINDOW * limit / 2
        if limit and (self._in_a_row >= limit or too_many):
            raise StopPlaying(
                f"{self._name}: {tally.fallbacks} of {tally.decisions} decisions were fallback "
                f"moves, so this is not its play (the last one: {failure}); check the model, "
                "--max-tokens and --answers, or raise --max-fallbacks (0: no limit)"
            )
