"""Readings: what one text, or one piece of a reply, says about the next action.

A mention is a head followed by its arguments, with other words between. A reading is the legal
action that a text means, or the failure, which a correction answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from arena.agents.reply import context
from arena.agents.reply.phrasebook import Parts, Phrasebook, Word, field_names, phrasebook
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
_NEXT_ITEM = re.compile(r"(?:\s*(?:,|&|\band\b)|[-–/])\s*([^,.;\n]{1,60})")
_EMPHASIS = "*_`"
_EMPHASISED = re.compile(rf"([{_EMPHASIS}]{{1,3}})(\S(?:(?!\1).)*)\1", re.DOTALL)
"""Text that Markdown emphasises as a whole, `**hello**`."""
GAP = 4
"""Words without meaning that may stand before an argument; before a number or a letter, one: in
"if I bid low, then player 3 wins" no player bids 3."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Part of a text that names an action, or a head with some arguments (`actions` is empty).

    There are several actions only if their texts have the same words.
    """

    parts: Parts
    actions: tuple[Action, ...]
    start: int
    end: int


def find_mentions(book: Phrasebook, text: str, written: str = "") -> list[Mention]:
    """Return the actions and parts of actions that a casefolded text names, in its order.

    `written` is the text before it was casefolded, if its capitals are to be respected.
    """
    reader = _MentionReader(book)
    for word in book.atoms.find(book.words(text, written=written)):
        reader.read(word)
    return reader.finish()


class _MentionReader:
    """Puts heads and arguments together as they come."""

    def __init__(self, book: Phrasebook) -> None:
        self._book = book
        self._found: list[Mention] = []
        self._head: Word | None = None

    def read(self, word: Word) -> None:
        # An argument of the open head. This test comes first, because a word can be an argument of
        # one action and the head of another.
        if self._head and self._is_near(word) and word.text in self._book.args[self._head.text]:
            if word.text not in self._args or self._head.text in self._book.repeating:
                self._args.append(word.text)
            self._end = word
            self._complete()
        # A new head closes the one before.
        elif word.text in self._book.args:
            self.finish()
            self._head = self._end = word
            self._args: list[str] = []
            # Number of arguments of the action noted for this head; -1 for none. 0 is an action
            # without arguments.
            self._taken = -1
            self._complete()

    def finish(self) -> list[Mention]:
        """Close what is unfinished; everything found so far."""
        if self._head and self._taken < 0:
            self._add(Parts(self._head.text, tuple(self._args)), ())
        self._head = None
        return self._found

    def _is_near(self, word: Word) -> bool:
        # Numbers and single letters occur in prose by accident, so they must be nearer.
        is_small = word.text[0].isdigit() or len(word.text) == 1
        return word.first - self._end.last - 1 <= (1 if is_small else GAP)

    def _complete(self) -> None:
        """Note the action that is complete now; a longer one takes the place of its beginning."""
        assert self._head is not None
        head = self._head.text
        parts = self._book.complete(head, self._args, self._taken)
        if parts is None:
            return
        if self._taken >= 0:
            self._found.pop()
        self._add(parts, self._book.named(parts))
        self._taken = len(parts.args)
        # No longer action exists, so later words cannot belong to this head.
        if self._taken == max(self._book.arities[head]):
            self._head = None

    def _add(self, parts: Parts, actions: tuple[Action, ...]) -> None:
        assert self._head is not None
        self._found.append(Mention(parts, actions, self._head.start, self._end.end))


@dataclass(frozen=True, slots=True)
class Reading:
    """Parsed reply: a legal action, or the reason why there is none."""

    action: Action | None
    failure: ReplyFailure | None
    excerpt: str
    """The words in which the action or the failure was found, shortened."""


@dataclass(frozen=True, slots=True)
class ActionClaim:
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


def settle(claims: Sequence[ActionClaim], text: str) -> Reading | None:
    """Return the reading of claims of equal weight, in the order of the text; None without any.

    The last claim counts if it agrees with the one before, revises it or is the final one.
    Otherwise the claims contradict each other.
    """
    final = [claim for claim in claims if claim.is_final]
    if not claims:
        return None
    last = (final or claims)[-1]
    # A label without an action, such as a menu read back, does not contradict an action.
    others = [c for c in claims if c.reading.action not in (None, last.reading.action)]
    if others and not final and not context.is_revised(text[others[-1].end : last.start]):
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
            if context.counts(folded, mention.start, mention.end)
        ]
        named = [mention for mention in mentions if mention.actions]
        if named:
            first = named[0]
            if context.is_alternative(folded, first.start, first.end) or self.lists(first, folded):
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


def correction(reading: Reading, observation: Observation, thinking_tokens: int = 0) -> str:
    """Return the correction for a reply without a legal action, with an example.

    `thinking_tokens` is the limit at which a reply was cut off while the model still thought; 0 for
    other replies.
    """
    quote = f"'{reading.excerpt}'"
    match reading.failure:
        case "empty":
            fault = "Your reply was empty. Answer with one action."
        case "truncated" if thinking_tokens:
            fault = (
                f"Your thinking used up all {thinking_tokens} tokens of the reply, so there was no "
                "answer. Think only briefly, then answer with one action."
            )
        case "truncated":
            fault = "Your reply was cut off before it named an action. Think less, then name it."
        case "refused":
            fault = "This is only a parlour game, and nobody comes to harm. Answer with one action."
        case "undecided":
            fault = f"{quote} names several actions. Write the one that you choose on a last line."
        case "illegal":
            fault = f"{quote} is not allowed now. Choose another action."
        case "invalid_speech":
            fault = f"{reading.excerpt}."
        case "ambiguous":
            fault = f"{quote} {_missing(reading.excerpt, observation)}"
        case _:
            fault = "No action was found in your reply. End it with one action, written out."
    # An example shows the notation; its choice, the first legal action, is arbitrary.
    example = f" For example: {observation.legal_actions[0]}" if observation.legal_actions else ""
    return fault + example


def _missing(excerpt: str, observation: Observation) -> str:
    """Return what would distinguish the legal actions that `excerpt` fits."""
    actions = fitting_actions(excerpt, observation)
    # The kind of action is open, so name the candidates; otherwise name the fields that differ.
    if len({type(action) for action in actions}) > 1:
        book = phrasebook(observation.game)
        heads = dict.fromkeys(book.parts[action].head for action in actions)
        return f"may be several actions: {', '.join(heads)}. Say which."
    names = field_names(actions[0]) if actions else []
    fields = [name for name in names if len({getattr(action, name) for action in actions}) > 1]
    if not fields:
        return "is not a whole action. Write all of it."
    *first, last = (f"the {name}" for name in fields)
    named = f"{', '.join(first)} and {last}" if first else last
    return f"is not a whole action. Name {named} too."


def fitting_actions(excerpt: str, observation: Observation) -> list[Action]:
    """Return the legal actions that the words of a failed reading may mean."""
    excerpt = excerpt.casefold()
    book, legal = phrasebook(observation.game), observation.legal_actions
    meant = [action for action in book.meant(excerpt) if action in legal]
    mentions = find_mentions(book, excerpt)
    if meant or not mentions:
        return meant
    parts = mentions[-1].parts
    # Without a fit for the arguments, the head alone still shows which fields are needed.
    return book.fitting(parts, legal) or book.fitting(Parts(parts.head, ()), legal)
