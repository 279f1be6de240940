"""Nim: players take sticks from one of several heaps in turn; whoever takes the last one wins.

C. L. Bouton, "Nim, a game with a complete mathematical theory", Annals of Mathematics 3 (1901).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arena import (
    Action,
    ActionSet,
    ArraySpec,
    Decision,
    Event,
    Game,
    GameArrays,
    GameOptions,
    GameText,
    Observation,
    Seat,
    State,
)


class NimOptions(GameOptions):
    """Options of `nim`."""

    heaps: int = Field(3, ge=1, le=5, description="Heaps; the first holds 1 stick, the next 2, …")


@dataclass(frozen=True, slots=True)
class Take(Action):
    heap: int
    sticks: int

    def __str__(self) -> str:
        return f"take {self.sticks} from {self.heap}"


@dataclass(frozen=True, slots=True)
class Taken(Event):
    player: int
    heap: int
    sticks: int


class Nim(Game):
    name = "nim"
    summary = "take the last stick"
    Options = NimOptions
    options: NimOptions
    num_players = 2
    turn_bound = 15
    Text = "nim_game.rules:NimText"
    Arrays = "nim_game.rules:NimArrays"

    def _all_actions(self) -> Iterable[Action]:
        for heap in range(self.options.heaps):
            yield from (Take(heap, sticks) for sticks in range(1, heap + 2))

    def initial_state(self) -> NimState:
        return NimState(self)


class NimText(GameText):
    def rules(self) -> str:
        return "Take any number of sticks from one heap. Whoever takes the last stick wins."

    def narrate(self, event: Event) -> str:
        assert isinstance(event, Taken)
        name = self.game.seat_names[event.player]
        return f"{name} takes {event.sticks} from heap {event.heap}."


class NimArrays(GameArrays):
    game: Nim

    @property
    def specs(self) -> Mapping[str, ArraySpec]:
        heaps = self.game.options.heaps
        return {"heaps": ArraySpec((heaps,), 0, heaps)}

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        return {"heaps": np.array(heaps_after(self.game, observation.events), dtype=np.int8)}


def heaps_after(game: Nim, events: Sequence[Event]) -> list[int]:
    heaps = list(range(1, game.options.heaps + 1))
    for event in events:
        assert isinstance(event, Taken)
        heaps[event.heap] -= event.sticks
    return heaps


class NimState(State):
    def __init__(self, game: Nim) -> None:
        super().__init__(game)
        self.to_act = (0,)
        self.turn = 1
        self.heaps = tuple(range(1, game.options.heaps + 1))

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.actions.subset(
            action
            for action in self.game.actions
            if isinstance(action, Take) and action.sticks <= self.heaps[action.heap]
        )

    def _apply(self, player: int, action: Action) -> None:
        assert isinstance(action, Take)
        heaps = list(self.heaps)
        heaps[action.heap] -= action.sticks
        self.heaps = tuple(heaps)
        self.log.append(Taken(player, action.heap, action.sticks))
        self.to_act = (1 - player,) if any(heaps) else ()
        self.turn += bool(self.to_act)
        self.winner = player

    def returns(self) -> tuple[float, ...]:
        if self.to_act:
            return (0.0, 0.0)
        return (1.0, -1.0) if self.winner == 0 else (-1.0, 1.0)

    def reason(self) -> str:
        return f"{self.game.seat_names[self.winner]} takes the last stick"


class Perfect:
    """Leaves heaps whose binary sum without carry is zero, if it can."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        assert isinstance(observation.game, Nim)
        heaps = heaps_after(observation.game, observation.events)
        for action in observation.legal_actions:
            assert isinstance(action, Take)
            left = [n - action.sticks * (i == action.heap) for i, n in enumerate(heaps)]
            if reduce(xor, left) == 0:
                return Decision(action)
        return Decision(self._rng.choice(observation.legal_actions))
