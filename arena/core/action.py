"""Actions: what a player does, how it is written, and which are legal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

from arena.core.errors import AmbiguousAction, InvalidAction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHANCE = -1
"""The player who deals and throws dice."""


class Action:
    """A move: a frozen value whose `str()` is the text that `State.parse` reads back."""

    __slots__ = ()


A = TypeVar("A", bound=Action)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """An action and the player (or CHANCE) who took it."""

    player: int
    action: Action


def normalise(text: str) -> str:
    """Text as the action codec compares it: case, punctuation and spacing do not matter."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


class ActionTable:
    """Every action that any state of a game may offer a player, in a fixed order.

    The position in the table is the number of the action in `action_space` and `action_mask`.
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        self.actions = tuple(actions)
        self.index = {action: number for number, action in enumerate(self.actions)}

    def __len__(self) -> int:
        return len(self.actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    def __getitem__(self, number: int) -> Action:
        return self.actions[number]

    @cached_property
    def _by_text(self) -> dict[str, Action]:
        return {normalise(str(action)): action for action in self.actions}

    def parse(self, text: str) -> Action:
        """The action that `text` names; a beginning that fits one action only will do.

        Raises InvalidAction or AmbiguousAction.
        """
        wanted = normalise(text)
        if wanted in self._by_text:
            return self._by_text[wanted]
        fitting = [a for t, a in self._by_text.items() if wanted and t.startswith(wanted)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            examples = "', '".join(str(action) for action in fitting[:3])
            raise AmbiguousAction(f"'{text}' fits {len(fitting)} actions, e.g. '{examples}'")
        raise InvalidAction(f"'{text}' is no action of this game")

    def subset(self, actions: Iterable[Action]) -> ActionSet:
        return ActionSet(self, tuple(actions))


class ActionSet(Sequence[Action]):
    """The legal actions of one decision, in a fixed order.

    Immutable, so a game may hand out the same set many times; membership and mask are made once.
    """

    def __init__(self, table: ActionTable, actions: tuple[Action, ...]) -> None:
        self.table = table
        self.actions = actions
        self._by_kind: dict[type[Action], tuple[Action, ...]] = {}

    def __len__(self) -> int:
        return len(self.actions)

    @overload
    def __getitem__(self, number: int) -> Action: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Action, ...]: ...
    def __getitem__(self, number: int | slice) -> Action | tuple[Action, ...]:
        return self.actions[number]

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    @cached_property
    def _members(self) -> frozenset[Action]:
        return frozenset(self.actions)

    def __contains__(self, action: object) -> bool:
        return action in self._members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSet) and self.actions == other.actions

    def __hash__(self) -> int:
        return hash(self.actions)

    def __repr__(self) -> str:
        return f"ActionSet({', '.join(map(str, self.actions))})"

    def of(self, kind: type[A]) -> tuple[A, ...]:
        """Those of one kind, e.g. `legal.of(Suggest)`, in the same order."""
        found = self._by_kind.get(kind)
        if found is None:
            found = tuple(action for action in self.actions if isinstance(action, kind))
            self._by_kind[kind] = found
        return found  # type: ignore[return-value]

    @cached_property
    def mask(self) -> NDArray[np.int8]:
        """Shape (number of actions of the game,): 1 where legal. Read-only."""
        import numpy as np

        mask = np.zeros(len(self.table), dtype=np.int8)
        mask[[self.table.index[action] for action in self.actions]] = 1
        mask.setflags(write=False)
        return mask
