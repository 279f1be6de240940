"""Several versions of one model's weights in one sampler: training steps, and mixtures of them.

`embedded:RUN/checkpoints/mixture` is the mixture over the checkpoints that a run has kept: each of
its players draws one at the start of a game and plays all of the game with it. A player that draws
step t with a probability in proportion to t plays the average policy of the run, of which self-play
brings the exploitability down where the newest weights go in circles (M. Zinkevich et al., "Regret
minimization in games with incomplete information", NIPS 2007; the linear weights are those of
CFR+, O. Tammelin 2014).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from arena.core.errors import UsageError
from backends.embedded.layers import StateDict, merged
from backends.embedded.sampler import Sampler

SERVED_BYTES = 2**30
"""Weights of versions that stay loaded for answers; the least recently used one goes first, and two
stay whatever their size."""


class ServedVersions:
    """Versions that are loaded into a sampler when they are asked for, as `NAME@VERSION`."""

    def __init__(self, sampler: Sampler, name: str, read: Callable[[int], StateDict]) -> None:
        """Prepare; `read` returns the weights of a version, or raises UsageError."""
        self._sampler, self._name, self._read = sampler, name, read
        self._last_requests: dict[int, float] = {}
        """Time of the last request for each loaded version."""
        self._most = 2

    def name(self, version: int) -> str:
        """Return the adapter of a version; load it if necessary. Raises UsageError."""
        if version not in self._last_requests:
            self.load(version, self._read(version))
        self._last_requests[version] = time.monotonic()
        return f"{self._name}@{version}"

    def load(self, version: int, state: StateDict) -> None:
        """Load the weights of a version, or replace them."""
        state = merged(state)
        self._sampler.load_adapter_weights(f"{self._name}@{version}", state)
        self._last_requests[version] = time.monotonic()
        self._most = max(2, SERVED_BYTES // sum(tensor.nbytes for tensor in state.values()))

    def evict(self, newest: int) -> None:
        """Unload the least recently used versions above the limit; `newest` always stays."""
        others = self._last_requests.keys() - {newest}
        recent = sorted(others, key=self._last_requests.__getitem__, reverse=True)
        # One of the places belongs to the newest version.
        self._unload(recent[self._most - 1 :])

    def keep(self, versions: Collection[int]) -> None:
        """Unload all other versions; the next request for one reads it again."""
        self._unload(self._last_requests.keys() - set(versions))

    def _unload(self, versions: Collection[int]) -> None:
        for version in versions:
            del self._last_requests[version]
            self._sampler.unload_adapter(f"{self._name}@{version}")


def mixture_weights(steps: Collection[int]) -> dict[int, float]:
    """Return the probability of each kept checkpoint, in proportion to the steps it stands for.

    Step t has the weight t. A checkpoint stands for itself and for the steps since the kept one
    before it, which were deleted: so the weights are those of all steps, however many are kept.
    """
    weights, before = dict[int, float](), 0
    for step in sorted(steps):
        # The sum of t over before < t <= step.
        weights[step] = (step * (step + 1) - before * (before + 1)) / 2
        before = step
    return {step: weight / sum(weights.values()) for step, weight in weights.items()}


def mixture_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the kept checkpoints by step; `folder` is their folder. Raises UsageError."""
    found = {int(path.parent.name): path.parent for path in folder.glob("[0-9]*/training.json")}
    if not found:
        raise UsageError(f"{folder} has no checkpoints; a mixture is that of a run's")
    return found
