"""The actions of a game with their text codec, and the sets of actions that are legal."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from arena.core.action import A, Action, Speech, SpeechOffer, Statement, normalise
from arena.core.errors import AmbiguousAction, IllegalAction, InvalidAction
from arena.core.text import pluralize, shorten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FEW = 4
"""Actions of a set that is searched one by one."""
SCANNED = 32
"""Actions of a set whose numbers are searched one by one: to hash them all takes longer."""
MOST_STATEMENTS = 3
"""Statements that may be attached to one speech."""

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_FILLERS = frozenset(("a", "an", "the", "is", "that", "it", "worth"))
"""Words that change nothing in a statement."""


class ActionTable:
    """All actions that a game may offer to its players, in a fixed order, and its kinds of speech.

    The position in the table is the number of the action in `action_space` and `action_mask`, which
    speech does not have.
    """

    def __init__(self, actions: Iterable[Action], speech: Iterable[type[Speech]] = ()) -> None:
        self.actions = tuple(actions)
        self.speech = tuple(speech)
        self.index = {action: number for number, action in enumerate(self.actions)}
        # Not on first use: a cache would show who has spoken.
        self.statements = tuple(each for each in self.actions if isinstance(each, Statement))
        self._statements_by_words = {_words(str(each)): each for each in self.statements}
        self._public = dict[tuple[int, ...], ActionSet]()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without caches: the bytes depend on the value only.
        return ActionTable, (self.actions, self.speech)

    def __len__(self) -> int:
        return len(self.actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    def __getitem__(self, number: int) -> Action:
        return self.actions[number]

    @cached_property
    def _by_text(self) -> dict[str, Action]:
        return {normalise(str(action)): action for action in self.actions}

    def attached(self, text: str) -> tuple[Statement, ...]:
        """Return the statements in the square brackets of a speech; the rest are free words.

        Raises InvalidAction for brackets that begin like a statement and hold none, and for more
        than `MOST_STATEMENTS`.
        """
        known = self._statements_by_words
        verbs = {words.partition(" ")[0] for words in known}
        found = []
        for part in _BRACKETS.findall(text) if known else ():
            words = _words(part)
            if words.partition(" ")[0] not in verbs:
                continue
            if words not in known:
                raise InvalidAction(
                    f"'[{shorten(part, 60)}]' is no statement, but [{self.statements[0]}] is one"
                )
            found.append(known[words])
        if len(found) > MOST_STATEMENTS:
            most = pluralize(MOST_STATEMENTS, "statement")
            raise InvalidAction(f"a speech takes at most {most}, not {len(found)}")
        return tuple(dict.fromkeys(found))

    def statement_fault(self, text: str) -> str | None:
        """Return why the brackets of a speech are not legal, in one line; None if they are."""
        try:
            self.attached(text)
        except InvalidAction as error:
            return str(error)
        return None

    def parse(self, text: str) -> Action:
        """Return the action that `text` names; a prefix is enough if it fits one action only.

        Raises:
            InvalidAction: No action fits.
            AmbiguousAction: Several actions fit.
        """
        speech = self.parse_speech(text)
        if speech is not None:
            return speech
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

    def parse_speech(self, text: str) -> Speech | None:
        """Return the speech that `text` writes out; None if it begins with no verb of speech.

        Raises InvalidAction.
        """
        if not self.speech:
            return None
        verb, _, rest = text.strip().partition(" ")
        # Models write "**Say:** hello" too.
        verb = verb.casefold().strip(":*_`")
        for kind in self.speech:
            if verb == kind.verb:
                return kind.read(rest)
        return None

    def subset(self, actions: Iterable[Action], speech: Iterable[SpeechOffer] = ()) -> ActionSet:
        """Return a set of legal actions, in the given order, and of speech that is legal too."""
        return ActionSet(self, tuple(actions), tuple(speech))

    def numbered(self, numbers: Iterable[int]) -> ActionSet:
        """Return the set of the legal actions with these numbers, in the given order.

        Faster than `subset`, which searches for the numbers of its actions.
        """
        found = ActionSet.__new__(ActionSet)
        # The actions are computed on first use: a network needs the mask only.
        found.__dict__.update(table=self, speech=(), numbers=tuple(numbers))
        return found

    def public(self, numbers: tuple[int, ...]) -> ActionSet:
        """Return the set with these numbers, as one complete object for all positions.

        All sets are kept, so only what every player knows may determine the numbers.
        """
        found = self._public.get(numbers)
        if found is None:
            found = self._public[numbers] = self.numbered(numbers).complete()
        return found


def _words(statement: str) -> str:
    """Return a statement without what may differ in writing: `P3` and `Player 3` are the same."""
    words = re.sub(r"\bp(\d)", r"player \1", normalise(statement)).split()
    return " ".join(word for word in words if word not in _FILLERS)


class ActionSet(Sequence[Action]):
    """The legal actions of one decision, in a fixed order.

    As a sequence it holds the actions of the table, of which there is always one; `in` is also
    true for speech that is offered beside them.

    Immutable, so one object can serve many decisions. Numbers, kinds and mask are computed on
    first use. A set that several players share should be `complete`, or its caches show how the
    others have used it.
    """

    table: ActionTable
    speech: tuple[SpeechOffer, ...]

    def __init__(
        self,
        table: ActionTable,
        actions: tuple[Action, ...],
        speech: tuple[SpeechOffer, ...] = (),
    ) -> None:
        fields = self.__dict__  # Assignment is blocked, see `__setattr__`.
        fields["table"] = table
        fields["actions"] = actions
        fields["speech"] = speech

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an ActionSet is immutable: cannot set '{name}'")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an ActionSet is immutable: cannot delete '{name}'")

    def __reduce__(self) -> tuple[Any, ...]:
        return ActionSet, (self.table, self.actions, self.speech)  # Without caches, as above.

    def complete(self) -> Self:
        """Compute all caches now, and return the set itself."""
        for name in ("actions", "numbers", "_members", "_by_type", "mask"):
            getattr(self, name)
        return self

    def __len__(self) -> int:
        return len(self.__dict__.get("numbers") or self.actions)

    @overload
    def __getitem__(self, number: int) -> Action: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Action, ...]: ...
    def __getitem__(self, number: int | slice) -> Action | tuple[Action, ...]:
        return self.actions[number]

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The actions, in the order of the set."""
        actions = self.table.actions
        return tuple([actions[number] for number in self.numbers])

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the actions in the table, in the order of the set."""
        index = self.table.index
        return tuple([index[action] for action in self.actions])

    @cached_property
    def _members(self) -> frozenset[int]:
        return frozenset(self.numbers)

    @cached_property
    def _by_type(self) -> dict[type[Action], tuple[Action, ...]]:
        groups: dict[type[Action], list[Action]] = {}
        for action in self.actions:
            # The order of the set is kept within each kind.
            groups.setdefault(type(action), []).append(action)
        return {kind: tuple(group) for kind, group in groups.items()}

    def __contains__(self, action: object) -> bool:
        if isinstance(action, Speech):
            return self.speech_fault(action) is None
        return self._own(action) is not None

    def _own(self, action: Any) -> Action | None:
        """Return the action of the set that equals `action` and is of the same class."""
        size = len(self)
        if size > FEW:
            number = self.table.index.get(action)
            if number is None or number not in (self.numbers if size <= SCANNED else self._members):
                return None
            own = self.table[number]
            return own if type(own) is type(action) else None
        for own in self.actions:  # Faster than to build the members first.
            if own is action or (type(own) is type(action) and own == action):
                return own
        return None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ActionSet)
            and self.actions == other.actions
            and self.speech == other.speech
        )

    def __hash__(self) -> int:
        return hash(self.actions)

    def __repr__(self) -> str:
        return f"ActionSet({', '.join(self.notations())})"

    @property
    def is_forced(self) -> bool:
        """True if there is only one legal action and nothing to say."""
        return len(self.actions) == 1 and not self.speech

    def check(self, action: Action) -> Action:
        """Return the action of the set that equals `action`, or a copy of legal speech.

        An agent may change the object that it has given, or have made one that equals every other.

        Raises:
            IllegalAction: The action is not legal now. It gives the reason.
            InvalidAction: Speech whose text was changed to one that cannot be spoken.
        """
        if isinstance(action, Speech):
            fault = self.speech_fault(action)
            if fault is None:
                return dataclasses.replace(action)  # Checks the text again.
            raise IllegalAction(fault)
        own = self._own(action)
        if own is None:
            raise IllegalAction(f"'{action}' is not allowed now")
        return own

    def copy(self) -> ActionSet:
        """Return an equal set without caches, for a user that is not trusted."""
        return ActionSet(self.table, self.actions, self.speech)

    def speech_fault(self, speech: Speech) -> str | None:
        """Return why speech is not legal now, in one line; None if it is legal."""
        for offer in self.speech:
            if type(speech) is offer.kind:
                return offer.fault(speech) or self.table.statement_fault(speech.text)
        return f"'{speech.verb}' is not allowed now"

    def notations(self) -> Iterator[str]:
        """Yield the text of each action, then the notation of each kind of speech."""
        yield from map(str, self.actions)
        for offer in self.speech:
            yield offer.kind.notation()

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

        # Bytes are filled faster than elements of an array.
        mask = bytearray(len(self.table.actions))
        for number in self.numbers:
            mask[number] = 1
        return np.frombuffer(bytes(mask), np.int8)  # Read-only, because bytes are.
