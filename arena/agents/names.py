"""Names of players for people: what a person has entered, the name of a bot, that of a model.

Prompts, actions and replays number the players from 0 ("Player 0"). Pages and terminals show these
names in their place; a person without a name is numbered from 1.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from arena.core.errors import UsageError
from arena.core.spec import Spec, redacted
from arena.core.text import appearance, one_line, plain_letters

HUMAN = "human"
LONGEST_NAME = 24
_PLAYERS = re.compile(r"\bPlayers? (\d+(?:(?:, | and |, and | or )\d+)*)\b")
"""The numbers of players in a text: "Player 0", "Players 1, 2 and 3"."""
# Letters of any script, digits and blanks. No "+" or ":", which are part of a SPEC.
_NAME = re.compile(r"\w[\w '.\-]*")
_NUMBERED = re.compile(r"(?:player|seat)s? ?[\dlo]+")
"""The number of a player, as `appearance` returns it."""


def person_spec(name: str) -> str:
    """Return the SPEC of a person with this name; an empty name is none.

    Raises UsageError if the name is too long, or holds other characters than letters and digits.
    """
    name = _plain(name)
    if not name:
        return HUMAN
    is_number = _NUMBERED.fullmatch(appearance(name))
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name) or is_number:
        raise UsageError(
            f"name: at most {LONGEST_NAME} letters, digits, blanks, hyphens, dots and "
            "apostrophes, and not the number of a player"
        )
    return f"{HUMAN}:{name}"


def display_names(specs: Sequence[str]) -> list[str]:
    """Return the names of the players of these SPECs; those that look alike are numbered."""
    names = [_plain(_name(spec, seat)) for seat, spec in enumerate(specs)]
    counts = Counter(map(appearance, names))
    used = {name for name, count in counts.items() if count == 1}
    for seat, name in enumerate(names):
        if counts[appearance(name)] > 1:
            numbered = (f"{name} {number}" for number in itertools.count(1))
            names[seat] = next(each for each in numbered if appearance(each) not in used)
            used.add(appearance(names[seat]))
    return names


class PlayerNames:
    """Names of the players of a game, in texts that number the players from 0.

    Example:
        >>> names = PlayerNames(["Ada", "Detective"])
        >>> names.text("Player 1 shows Player 0 a card.")
        'Detective shows Ada a card.'
        >>> names.typed("propose ada, detective, P3")
        'propose Player 0, Player 1, Player 2'
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        # A longer name may begin with a shorter one. Each seat has a group of the expression.
        self._order = sorted(range(len(names)), key=lambda seat: -len(names[seat]))
        parts = [f"({re.escape(names[seat])})" for seat in self._order]
        any_name = "|".join([*parts, r"P(?:layer )?(?P<number>[1-9]\d*)"])
        self._any_name = re.compile(rf"(?<!\w)(?:{any_name})(?!\w)", re.IGNORECASE)

    def of(self, seat: int) -> str:
        """Return the name of the player in a seat."""
        return self._names[seat] if seat < len(self._names) else f"Player {seat + 1}"

    def text(self, text: str) -> str:
        """Return a text with the names of the players in place of their numbers."""
        return _PLAYERS.sub(lambda found: re.sub(r"\d+", self._of, found[1]), text)

    def typed(self, text: str) -> str:
        """Return what a person has typed, with numbers in place of names.

        A person who types a number counts from 1, as the names do.
        """
        return self._any_name.sub(self._number, text)

    def _number(self, name: re.Match[str]) -> str:
        if number := name["number"]:
            return f"Player {int(number) - 1}"
        assert name.lastindex is not None, "each name is a group"
        return f"Player {self._order[name.lastindex - 1]}"

    def _of(self, number: re.Match[str]) -> str:
        return self.of(int(number[0]))


def _plain(name: str) -> str:
    """Return a name in its one form: NFKC, and no control characters or changes of direction."""
    return one_line(plain_letters(name))


def _name(spec: str, seat: int) -> str:
    parsed = Spec.parse(redacted(spec))
    if parsed.is_human:
        return parsed.rest or f"Player {seat + 1}"
    if parsed.prefix == "bot":
        return parsed.rest.replace("_", " ").capitalize()
    # The last part of the name of a model: openai/gpt-5, http://HOST/v1#NAME, a folder.
    *above, last = re.split(r"[/#]", parsed.rest.rstrip("/"))
    if above[1:] and above[-1] == "checkpoints":
        return f"{above[-2]} {last.lstrip('0')}"  # The run, and the step.
    return last or parsed.prefix
