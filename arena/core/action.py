"""Actions, their text codec, and the sets of actions that are legal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, overload

from arena.core.errors import AmbiguousAction, InvalidAction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHANCE = -1
"""The player number of chance, which deals cards and rolls dice."""

FEW = 4
"""Actions of a set that is searched one by one."""


class Action:
    """A move: a frozen value whose `str()` is the text that `State.parse` reads back."""

    __slots__ = ()


A = TypeVar("A", bound=Action)
ActionValues = Mapping[Action, Sequence[float]]
"""For each action the return of each seat that is to be expected after it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """An action and the player (or CHANCE) who took it."""

    player: int
    action: Action


def normalise(text: str) -> str:
    """Return text as the action codec compares it: case, punctuation and spacing are ignored."""
    # Case-folded, so that letters such as "ß" compare equal in both cases.
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


class ActionTable:
    """All actions that a game may offer to its players, in a fixed order.

    The position in the table is the number of the action in `action_space` and `action_mask`.
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        self.actions = tuple(actions)
        self.index = {action: number for number, action in enumerate(self.actions)}

    def __reduce__(self) -> tuple[Any, ...]:
        return ActionTable, (self.actions,)  # Without caches: the bytes depend on the value only.

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
        """Return the action that `text` names; a prefix is enough if it fits one action only.

        Raises:
            InvalidAction: No action fits.
            AmbiguousAction: Several actions fit.
        """
        key = normalise(text)
        # A whole text outweighs a prefix: "mark 1" is not ambiguous beside "mark 12".
        if key in self._by_text:
            return self._by_text[key]
        # An empty key would be a prefix of every action.
        matches = [a for known, a in self._by_text.items() if key and known.startswith(key)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            examples = "', '".join(str(action) for action in matches[:3])
            raise AmbiguousAction(f"'{text}' fits {len(matches)} actions, e.g. '{examples}'")
        raise InvalidAction(f"'{text}' is not an action of this game")

    def subset(self, actions: Iterable[Action]) -> ActionSet:
        """Return a set of legal actions, in the given order."""
        return ActionSet(self, tuple(actions))


class ActionSet(Sequence[Action]):
    """The legal actions of one decision, in a fixed order.

    Immutable, so one object can serve many decisions. Members, kinds and mask are computed on
    first use. A set that several players share should be `complete`, or its caches show how the
    others have used it.
    """

    table: ActionTable
    actions: tuple[Action, ...]

    def __init__(self, table: ActionTable, actions: tuple[Action, ...]) -> None:
        fields = self.__dict__  # Assignment is blocked, see `__setattr__`.
        fields["table"] = table
        fields["actions"] = actions

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an ActionSet is immutable: cannot set '{name}'")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an ActionSet is immutable: cannot delete '{name}'")

    def __reduce__(self) -> tuple[Any, ...]:
        return ActionSet, (self.table, self.actions)  # Without caches, as above.

    def complete(self) -> Self:
        """Compute all caches now, and return the set itself."""
        for name in ("_members", "_by_type", "mask"):
            getattr(self, name)
        return self

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

    @cached_property
    def _by_type(self) -> dict[type[Action], tuple[Action, ...]]:
        groups: dict[type[Action], list[Action]] = {}
        for action in self.actions:
            # The order of the set is kept within each kind.
            groups.setdefault(type(action), []).append(action)
        return {kind: tuple(group) for kind, group in groups.items()}

    def __contains__(self, action: object) -> bool:
        if len(self.actions) <= FEW:  # Faster than to build the set of members first.
            return action in self.actions
        return action in self._members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSet) and self.actions == other.actions

    def __hash__(self) -> int:
        return hash(self.actions)

    def __repr__(self) -> str:
        return f"ActionSet({', '.join(map(str, self.actions))})"

    def of(self, kind: type[A]) -> tuple[A, ...]:
        """Return the actions of one class, e.g. `legal.of(Suggest)`, in the same order."""
        if not kind.__subclasses__():  # Nearly all classes of actions: one look-up is enough.
            return self._by_type.get(kind, ())  # type: ignore[return-value]
        # `kind` may be a base class of several kinds; then the order of the set is kept by a scan.
        types = [found for found in self._by_type if issubclass(found, kind)]
        if len(types) == 1:
            return self._by_type[types[0]]  # type: ignore[return-value]
        return tuple(action for action in self.actions if isinstance(action, kind)) if types else ()

    @cached_property
    def mask(self) -> NDArray[np.int8]:
        """Legality by action number: shape (number of actions,), 1 is legal. Read-only."""
        import numpy as np

        index = self.table.index
        # Bytes are filled faster than elements of an array.
        mask = bytearray(len(index))
        for action in self.actions:
            mask[index[action]] = 1
        return np.frombuffer(bytes(mask), dtype=np.int8)  # Read-only, because bytes are.
