"""Actions, and actions with free text (speech)."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import ClassVar, Self, TypeVar

from arena.core.errors import InvalidAction
from arena.core.text import one_line

CHANCE = -1
"""The player number of chance, which deals cards and rolls dice."""


class Action:
    """A move: a frozen value whose `str()` is the text that `State.parse` reads back.

    A class gives this text as a template, `class Shoot(Action, template="shoot {self.square}")`, or
    defines `__str__`.
    """

    __slots__ = ()
    template: ClassVar[str] = ""

    def __init_subclass__(cls, template: str = "") -> None:
        super().__init_subclass__()
        # `dataclass(slots=True)` creates the class a second time, without the keyword.
        if template:
            cls.template = template

    def __str__(self) -> str:
        return self.template.format(self=self) if self.template else repr(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Speech(Action):
    """An action with free text: a verb, then the text. A game has a subclass for each kind.

    The text is always in the form of `one_line` and at most `max_length` characters long. Raises
    InvalidAction if the text is empty, too long or in another form; `read` puts it into this one.
    """

    text: str
    verb: ClassVar[str] = "say"
    max_length: ClassVar[int] = 280
    form: ClassVar[str] = "TEXT"
    """The text in the notation of actions: `say TEXT`."""

    def __post_init__(self) -> None:
        fault = self.fault(self.text)
        if fault:
            raise InvalidAction(fault)

    def __str__(self) -> str:
        return f"{self.verb} {self.text}"

    @classmethod
    def fault(cls, text: str) -> str | None:
        """Return why a text cannot be spoken, in one line; None if it can."""
        # `type`: what a subclass of str shows may change after the check.
        if type(text) is not str or not text:
            return f"'{cls.verb}' needs a text: {cls.notation()}"
        if len(text) > cls.max_length:
            return f"'{cls.verb}' takes at most {cls.max_length} characters, not {len(text):,}"
        if text != one_line(text):
            return f"'{cls.verb}' takes one line of visible characters without double quotes"
        return None

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the speech of a text that anybody may have written. Raises InvalidAction."""
        # Checked first: to normalise a long text of combining characters takes quadratic time.
        return cls(text if len(text) > 10 * cls.max_length else one_line(text))

    @classmethod
    def notation(cls) -> str:
        """Return how a player writes it: `say TEXT (up to 280 characters)`."""
        return f"{cls.verb} {cls.form} (up to {cls.max_length} characters)"


@dataclasses.dataclass(frozen=True, slots=True)
class Say(Speech):
    """Say a text to the audience that the game gives it."""


SAMPLE_WORDS = (
    "yes",
    "no",
    "perhaps",
    "you",
    "never",
    "Player 1",
    "<b>hi</b>",
    "it's",
    "[red]",
    "é",
)
"""Words of random speech, some of them with signs that a careless viewer would interpret."""


class Statement(Action):
    """A typed claim whose truth is known exactly; a game has a frozen dataclass for each kind.

    It is an action of the game, `claim Player 3 evil`, and in square brackets a part of speech:

        say [claim Player 3 evil] [promise reject] Look at the votes.
    """

    __slots__ = ()


class Promise(Statement):
    """A statement about a later move of its speaker."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SpeechOffer:
    """A kind of speech that is legal now. A subclass adds a rule of its game to `fault`."""

    kind: type[Speech]

    def fault(self, speech: Speech) -> str | None:
        """Return why this speech is not legal now, in one line; None if it is legal."""
        return None

    def sample(self, rng: random.Random) -> Speech:
        """Return random legal speech, for tests."""
        return self.kind(" ".join(rng.choices(SAMPLE_WORDS, k=rng.randint(1, 6))))


A = TypeVar("A", bound=Action)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """An action and the player (or CHANCE) who took it."""

    player: int
    action: Action


WORD = re.compile(r"(?<!\w)[-\u2212]\d+|\d+(?:[.\u2044]\d+)+|[^\W_]+")
"""Words of an action's text: all else only separates them. No sign and no decimal part is left out
of a number: "-3" and "3.5" are not 3."""


def normalise(text: str) -> str:
    """Return text as the action codec compares it: case, punctuation and spacing are ignored."""
    # Case-folded, so that letters such as "ß" compare equal in both cases.
    return " ".join(WORD.findall(text.casefold()))


def field_names(action: Action) -> list[str]:
    """Return the names of an action's fields; none if it is no dataclass."""
    return list(getattr(action, "__dataclass_fields__", ()))
