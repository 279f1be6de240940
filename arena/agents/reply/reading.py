"""Readings: what one text says about the next action, and the correction of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from arena.agents.reply.phrasebook import Mention, Parts, phrasebook, words_in
from arena.core.action import Action, field_names
from arena.core.errors import InvalidAction
from arena.core.observation import Observation

ReplyFailure = Literal[
    "empty",  # nothing to be seen outside think blocks
    "truncated",  # the limit on tokens came before a legal action
    "unparsable",  # none of the others
    "ambiguous",  # a part of an action, which fits several legal ones
    "undecided",  # several actions, without a mark which of them is the answer
    "illegal",  # an answer that is no action, or none that is allowed now
    "refused",  # by the provider's filter, or by the model in words
    "invalid_speech",  # free text that is too long, or not allowed now
]

EXCERPT_LENGTH = 120

_EMPHASIS = "*_`"
_ORNAMENTS = " *_`\"'.>"
_IN_BRACKETS = re.compile(r" \(([^()]+)\)")
_ALTERNATIVE = re.compile(r"\W{0,4}(?:\b(?:or|vs|versus)\b(?! (?:else|i lose))|[/|?])")
"""Words behind an action by which an answer offers another one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Parsed reply: a legal action, or the reason why there is none."""

    action: Action | None
    failure: ReplyFailure | None
    excerpt: str
    """The words in which the action or the failure was found, shortened."""


def failed(failure: ReplyFailure, words: str) -> Reading:
    """Return the reading of words that name no legal action."""
    return Reading(None, failure, shorten(words))


def shorten(text: str) -> str:
    """Return the text as one line of at most `EXCERPT_LENGTH` characters."""
    line = " ".join(text[: 4 * EXCERPT_LENGTH].split())
    return line if len(line) <= EXCERPT_LENGTH else line[: EXCERPT_LENGTH - 1] + "…"


def _without_emphasis(text: str) -> str:
    """Return a text without the marks of Markdown around all of it; marks within it stay."""
    inner = text.strip(_EMPHASIS)
    return inner if set(_EMPHASIS).isdisjoint(inner) else text


class AnswerReader:
    """Reads texts as answers in one situation."""

    def __init__(self, observation: Observation) -> None:
        self.book = phrasebook(observation.game)
        self.legal = observation.legal_actions
        self._table = observation.game.actions
        self._labels = observation.game.text.labels(observation)

    def choose(self, actions: Iterable[Action], words: str) -> Reading:
        """Return the one legal action among `actions`, or the failure."""
        legal = [action for action in actions if action in self.legal]
        if len(legal) == 1:
            return Reading(legal[0], None, shorten(words))
        return failed("ambiguous" if legal else "illegal", words)

    def whole(self, text: str) -> Reading | None:
        """Read a text that is speech, an action or parts of one, and nothing else."""
        return self.spoken(text) or self.brief(text)

    def brief(self, text: str) -> Reading | None:
        """Read a text that is an action or parts of one, and nothing else."""
        plain = text.strip()
        labelled = self._labels.get(plain) or self._labels.get(plain.strip(_ORNAMENTS))
        meant = [labelled] if labelled else self.book.meant(text)
        return self.choose(meant, text) if meant else None

    def spoken(self, text: str) -> Reading | None:
        """Read a text that begins with a verb of speech, `say …`; None if it does not."""
        plain = _without_emphasis(text.strip(" \n\t>"))
        # The whole action between quotes: "say hello".
        if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'":
            plain = plain[1:-1]
        verb, space, words = plain.partition(" ")
        try:
            speech = self._table.parse_speech(verb + space + _without_emphasis(words.strip()))
        except InvalidAction as error:
            return Reading(None, "invalid_speech", str(error))
        if speech is None:
            return None
        fault = self.legal.speech_fault(speech)
        if fault:
            return Reading(None, "invalid_speech", fault)
        return Reading(speech, None, shorten(str(speech)))

    def answer(self, text: str) -> Reading:
        """Read a marked answer: an action, which words of the author may surround."""
        reading = self.whole(text)
        if reading is not None:
            return reading
        folded = text.casefold()
        mentions = self.book.mentions(folded)
        first, idle = mentions[0] if mentions else None, self.book.fillers
        # An answer begins with the action: words before it may reject it, or be another answer.
        if (
            first is None
            or not first.actions
            or not idle.issuperset(words_in(folded[: first.start]))
        ):
            return self.incomplete(mentions, text)
        if _ALTERNATIVE.match(folded, first.end):
            return failed("undecided", text)
        return self.mentioned(first, text)

    def mentioned(self, mention: Mention, text: str) -> Reading:
        """Read an action that a text names; a label behind it that is another's contradicts it."""
        label = _IN_BRACKETS.match(text, mention.end)
        other = self._labels.get(label[1]) if label else None
        if label and other and other not in mention.actions:
            return failed("illegal", text[mention.start : label.end()])
        return self.choose(mention.actions, text[mention.start : mention.end])

    def incomplete(self, mentions: Iterable[Mention], text: str) -> Reading:
        """Return the failure of an answer without a whole action."""
        for mention in mentions:
            is_part = mention.parts.args and not mention.actions
            if is_part and self.book.fitting(mention.parts, self.legal):
                return failed("ambiguous", text[mention.start : mention.end])
        return failed("illegal", text)


_FAULTS: dict[ReplyFailure | None, str] = {
    "empty": "Your reply was empty. Answer with one action.",
    "truncated": "Your reply was cut off before it named an action. Think less, then name it.",
    "refused": "This is only a parlour game, and nobody comes to harm. Answer with one action.",
    "undecided": "'{}' names several actions. Write the one that you choose on a last line.",
    "illegal": "'{}' is not allowed now. Choose another action.",
    "invalid_speech": "{}.",
    "ambiguous": "'{}' {}",
    "unparsable": "No action was found in your reply. End it with one action, written out.",
}


def correction(reading: Reading, observation: Observation, thinking_tokens: int = 0) -> str:
    """Return the correction for a reply without a legal action, with an example.

    `thinking_tokens` is the limit that cut off a reply while the model still thought, or 0.
    """
    missing = _missing(reading.excerpt, observation) if reading.failure == "ambiguous" else ""
    fault = _FAULTS[reading.failure].format(reading.excerpt, missing)
    if reading.failure == "truncated" and thinking_tokens:
        fault = (
            f"Your thinking used up all {thinking_tokens} tokens of the reply, so there was no "
            "answer. Think only briefly, then answer with one action."
        )
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
    book, legal = phrasebook(observation.game), observation.legal_actions
    meant = [action for action in book.meant(excerpt) if action in legal]
    mentions = book.mentions(excerpt.casefold())
    if meant or not mentions:
        return meant
    parts = mentions[-1].parts
    # Without a fit for the arguments, the head alone still shows which fields are needed.
    return book.fitting(parts, legal) or book.fitting(Parts(parts.head, ()), legal)
