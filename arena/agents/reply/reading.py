"""Readings: what one text, or one piece of a reply, says about the next action."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from arena.agents.reply.context import counts, is_alternative, is_revised
from arena.agents.reply.mentions import Mention, find_mentions
from arena.agents.reply.phrasebook import Parts, phrasebook
from arena.core.action import Action
from arena.core.errors import InvalidAction
from arena.core.observation import Observation

ReplyFailure = Literal[
    "empty",  # nothing to be seen outside think blocks
    "truncated",  # the limit on tokens came before a legal action
    "unparsable",  # none of the others
    "ambiguous",  # a part of an action, which fits several legal ones
    "undecided",  # several actions, without a word which of them is the answer
    "illegal",  # an action of this game, not allowed now
    "refused",  # by the provider's filter, or by the model in words
    "invalid_speech",  # free text that is too long, or not allowed now
]

EXCERPT_LENGTH = 120

_FIRST_PART = re.compile(r"\n|[.!;:,(]\s|\s[—–-]+\s")
"""Ends a brief answer that an explanation follows: "Rope, because …"."""


_NEXT_ITEM = re.compile(r"\s*(?:,|&|\band\b)\s*([^,.;\n]{1,60})")


_EMPHASIS = "*_`"
_EMPHASISED = re.compile(rf"([{_EMPHASIS}]{{1,3}})(\S(?:(?!\1).)*)\1", re.DOTALL)
"""Text that Markdown emphasises as a whole, `**hello**`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Parsed reply: a legal action, or the reason why there is none."""

    action: Action | None
    failure: ReplyFailure | None
    excerpt: str
    """The words in which the action or the failure was found, shortened."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Reading of one piece of a reply, with its place in the text."""

    reading: Reading
    start: int
    end: int
    is_final: bool = False
    """Marked as the final answer, which outweighs the others."""


def failed(failure: ReplyFailure, words: str) -> Reading:
    """Return the reading of words that name no legal action."""
    return Reading(None, failure, shorten(words))


def shorten(text: str) -> str:
    """Return the text as one line of at most `EXCERPT_LENGTH` characters."""
    line = " ".join(text[: 4 * EXCERPT_LENGTH].split())
    return line if len(line) <= EXCERPT_LENGTH else line[: EXCERPT_LENGTH - 1] + "…"


def _without_emphasis(text: str) -> str:
    """Return a text without the marks of Markdown around all of it; marks within it stay."""
    whole = _EMPHASISED.fullmatch(text)
    if whole:
        return whole[2]
    # The partner of a mark may be outside of the text: "**Action: say hello**".
    lead = text[: len(text) - len(text.lstrip(_EMPHASIS))]
    text = text if lead in text[len(lead) :] else text[len(lead) :]
    body = text.rstrip(_EMPHASIS)
    return text if text[len(body) :] in body else body


def settle(claims: Sequence[Claim], text: str) -> Reading | None:
    """Return the reading of claims of equal weight; None if there are none.

    The last claim counts if it agrees with the one before, revises it or is the final one.
    Otherwise the claims contradict each other.

    Args:
        claims: Claims in the order of the text.
        text: The casefolded text of the reply.
    """
    final = [claim for claim in claims if claim.is_final]
    if not claims:
        return None
    last = (final or claims)[-1]
    # A label without an action, such as a menu read back, does not contradict an action.
    others = [c for c in claims if c.reading.action not in (None, last.reading.action)]
    if others and not final and not is_revised(text[others[-1].end : last.start]):
        return failed("undecided", f"{others[-1].reading.excerpt} … {last.reading.excerpt}")
    return last.reading


class TextReader:
    """Reads pieces of text as answers in one situation."""

    def __init__(self, observation: Observation) -> None:
        self.book = phrasebook(observation.game)
        self.legal = observation.legal_actions
        self._table = observation.game.actions

    def choose(self, actions: Iterable[Action], words: str) -> Reading:
        """Return the one legal action among `actions`, or the failure."""
        legal = [action for action in actions if action in self.legal]
        if len(legal) == 1:
            return Reading(legal[0], None, shorten(words))
        return failed("ambiguous" if legal else "illegal", words)

    def brief(self, text: str) -> Reading | None:
        """Read a text that consists of an action, or of parts of one, and nothing else."""
        meant = self.book.meant(text.casefold()) or self.book.meant(
            self.book.spell(text).casefold()
        )
        return self.choose(meant, text) if meant else None

    def part(self, mention: Mention, words: str) -> Reading:
        """Read a part of an action, which may fit only one legal action."""
        return self.choose(self.book.fitting(mention.parts, self.legal), words)

    def spoken(self, text: str) -> Reading | None:
        """Read a text that begins with a verb of speech, `say …`; None if it does not."""
        plain = _without_emphasis(text.strip(" \n\t>"))
        # The whole action between quotes: "say hello".
        if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'":
            plain = plain[1:-1]
        verb, space, words = plain.partition(" ")
        plain = f"{verb}{space}{_without_emphasis(words.strip())}"
        try:
            speech = self._table.parse_speech(plain)
        except InvalidAction as error:
            return Reading(None, "invalid_speech", str(error))
        if speech is None:
            return None
        fault = self.legal.speech_fault(speech)
        if fault:
            return Reading(None, "invalid_speech", fault)
        return Reading(speech, None, shorten(str(speech)))

    def marked(self, text: str) -> Reading | None:
        """Read a marked answer, of which the first action counts; None if it names nothing."""
        # Speech first: "say I would vote for Player 2" is no vote.
        reading = self.spoken(text) or self.brief(text)
        if reading is not None:
            return reading
        text = self.book.spell(text)
        folded = text.casefold()
        mentions = [
            mention
            for mention in find_mentions(self.book, folded, text)
            if counts(folded, mention.start, mention.end)
        ]
        named = [mention for mention in mentions if mention.actions]
        if named:
            first = named[0]
            if is_alternative(folded, first.start, first.end) or self.lists(first, folded):
                return failed("undecided", text)
            return self.choose(first.actions, folded[first.start : first.end])
        reading = self.brief(_FIRST_PART.split(text.strip(" *_`\"'\n"), maxsplit=1)[0])
        parts = [mention for mention in mentions if mention.parts.args]
        if reading is not None or not parts:
            return reading
        return self.part(parts[0], folded[parts[0].start : parts[0].end])

    def lists(self, mention: Mention, folded: str) -> bool:
        """Return whether another argument follows the action: "show Plum, Rope"."""
        following = _NEXT_ITEM.match(folded, mention.end)
        if following is None:
            return False
        head = next(iter(self.book.meant(folded[mention.start : mention.end])), None)
        meant = self.book.fitting(Parts(mention.parts.head, ()), self.book.meant(following[1]))
        return any(action != head and action in self.legal for action in meant)
