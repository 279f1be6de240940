"""Parser of replies: finds the action that a model's reply means, in every game.

Rules:

- The last action named in the reply that is legal now is taken. Reasoning before it is welcome, and
  may name other actions; an illegal one after it is passed over. An action close behind a "not"
  ("I do not want to accuse ...", "rather than pass"), or beside a bar ("accuse ... | end turn", the
  menu read back), is not named.
- `<think>` blocks are not searched. One that is never closed goes on to the end, and one that was
  opened in the prompt begins with the reply.
- Case, punctuation, markdown and little joining words do not matter ("with the", "in the", "I"...).
  Neither does the order of names that commas part: "suggest Kitchen, Rope, Green".
- A game's synonyms count as its own words (`Game.synonyms`): in Cluedo the names of both editions,
  "Mustard" alone, "reveal" for "show".
- JSON, also in a fence or as a tool call: `{"action": "suggest ..."}`, or a verb (under "action",
  "type", "kind", "name") with the fields of the action under their names, nested or not. In one
  object the action outweighs the rest, e.g. a "reasoning".
- A short reply, or the last line or sentence of any, may leave out what is obvious: "Candlestick"
  where a card must be shown, or a beginning that fits one legal action only.

The time is linear in the length; of the words that mean something in the game, only the last
20,000 are read. What is left is a failure, and `correction` answers it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from arena.agents.reply.json_answer import without_json
from arena.agents.reply.phrasebook import Mention, Parts, Phrasebook, field_names, phrasebook
from arena.core.action import Action, normalise
from arena.core.observation import Observation
from arena.llm.backend import FinishReason

ReplyFailure = Literal[
    "empty",  # nothing to be seen outside think blocks
    "truncated",  # the limit on tokens came before a legal action
    "unparsable",  # none of the others
    "ambiguous",  # a part of an action, which fits several legal ones
    "illegal",  # an action of this game, not allowed now
    "refused",  # by the provider's filter, or by the model in words
]

EXCERPT_LENGTH = 120

_THINK = re.compile(r"[<\[](/?)(?:think|thinking|thought|reasoning)[>\]]", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:(?:\bnot|n['’]t|\bnever|\bcannot|\bthan|\binstead of|\bavoid|\bwhether|\bno need)"
    r"(?:[ \t]+(?!but\b|so\b)[\w'’]+){0,4}[ \t:]*|\|\s*)$"
)
"""A negation at most four words before, or a bar: one of several that were offered."""
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?(?:very |so |truly )?sorry\b|i apologi[sz]e"
    r"|unfortunately|as an ai\b)?"
    r"[^\n]{0,60}?"
    r"(?:\bi (?:can['’]?t|cannot|can not|won['’]t|will not|(?:am|['’]m) (?:unable|not able) to)"
    r" (?:\w+ )?(?:help|assist|comply|do (?:that|this)|continue|participate|take part|engage|play"
    r"|provide|fulfil|support|answer|discuss|complete|respond|generate|create)"
    r"|\bi(?: am|['’]m) (?:unable|not able|not comfortable|not willing)\b"
    r"|\bi (?:must|have to|need to|respectfully|will have to) (?:\w+ )?(?:decline|refuse)"
    r"|\bi (?:decline|refuse) to)",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Parsed reply: a legal action, or the reason why there is none."""

    action: Action | None
    failure: ReplyFailure | None
    excerpt: str
    """The words in which the action or the failure was found, shortened."""


def read_reply(
    text: str,
    observation: Observation,
    finish_reason: FinishReason = "stop",
    refusal: str = "",
) -> Reading:
    """Find the action in a reply; see the module for what counts. Never raises."""
    # The provider's own statement outweighs the text, which may be a fragment.
    if refusal or finish_reason == "content_filter":
        return _failed("refused", refusal or text)
    book, cut = phrasebook(observation.game), finish_reason == "length"
    # A cut-off "bid 1" may have been "bid 12", so an incomplete number does not count.
    shown = _without_cut_number(visible(text), book) if cut else visible(text)
    # Fast path for a reply that is exactly one legal action. It also decides for actions whose
    # texts have the same words.
    exact = book.by_text.get(shown.strip())
    if exact is not None and exact in observation.legal_actions:
        return Reading(exact, None, _shorten(shown))
    if not any(character.isprintable() and not character.isspace() for character in shown):
        return _failed("truncated" if cut else "empty", text[-EXCERPT_LENGTH:])
    reply = _Reply(shown, observation, cut)
    return reply.action() or reply.failure()


def visible(text: str) -> str:
    """The text outside think blocks."""
    kept: list[str] = []
    at, is_open, was_open = 0, False, False
    for tag in _THINK.finditer(text):
        closes = bool(tag[1])
        # A closing tag without an opening one: the prompt opened the block, so all text so far was
        # thought.
        if closes and not was_open:
            kept.clear()
        elif not closes and not is_open:
            kept.append(text[at : tag.start()])
        if closes or not is_open:
            at = tag.end()
        # Blocks do not nest: the first closing tag ends the block.
        is_open, was_open = not closes, True
    # The text behind an unclosed tag is thought, up to the end.
    if not is_open:
        kept.append(text[at:])
    return "\n".join(kept)


class _Reply:
    """One reply, and what its game has to say about it."""

    def __init__(self, shown: str, observation: Observation, cut: bool) -> None:
        self._book = phrasebook(observation.game)
        self._legal = observation.legal_actions
        self._cut = cut
        self._text = without_json(shown, self._book)
        folded = self._text.casefold()
        if len(folded) != len(self._text):  # Some letters become two, and places would shift.
            self._text = folded
        self._folded = folded
        self._mentions = self._book.mentions(folded)

    def action(self) -> Reading | None:
        # The last legal action counts. Exactly one: a mention with several legal actions does not
        # decide.
        for mention in reversed(self._mentions):
            legal = [action for action in mention.actions if action in self._legal]
            if len(legal) == 1 and not self._is_denied(mention):
                return Reading(legal[0], None, self._excerpt(mention))
        return self._brief_action() or self._only_completion()

    def _brief_action(self) -> Reading | None:
        for brief, meant in self._briefs.items():
            legal = [action for action in meant if action in self._legal]
            if len(legal) == 1:
                return Reading(legal[0], None, _shorten(brief))
        return None

    def _only_completion(self) -> Reading | None:
        """The one legal action that the last part of an action can mean."""
        parts = [m for m in self._mentions if m.parts.args and not m.actions]
        # The part may have been the beginning of something else if the reply was cut off.
        if not parts or self._cut or self._is_denied(parts[-1]):
            return None
        legal = self._book.fitting(parts[-1].parts, self._legal)
        return Reading(legal[0], None, self._excerpt(parts[-1])) if len(legal) == 1 else None

    def failure(self) -> Reading:
        # Checked first: with more tokens the reply might have named an action.
        if self._cut:
            return _failed("truncated", self._text[-EXCERPT_LENGTH:])
        # Only the beginning is read: later "I cannot ..." is usually reasoning about the rules.
        if _REFUSAL.match(self._folded[:400]):
            return _failed("refused", self._text)
        return self._brief_failure() or self._named_failure() or _failed("unparsable", self._text)

    def _brief_failure(self) -> Reading | None:
        for brief, meant in self._briefs.items():
            if meant:
                # `action` has not found exactly one legal action here, so legal means several.
                is_legal = any(action in self._legal for action in meant)
                return _failed("ambiguous" if is_legal else "illegal", brief)
        return None

    def _named_failure(self) -> Reading | None:
        """The last action or part of one; a lone head counts only if there is nothing more."""
        named = [m for m in self._mentions if not self._is_denied(m)]
        telling = [m for m in named if m.parts.args or m.actions]
        if not named:
            return None
        last = (telling or named)[-1]
        if any(action in self._legal for action in last.actions) or self._can_become_legal(last):
            return _failed("ambiguous", self._excerpt(last))
        return _failed("illegal", self._excerpt(last)) if telling else None

    def _can_become_legal(self, mention: Mention) -> bool:
        if mention.actions:
            return False
        parts = mention.parts
        # These arguments belong to no action together; the head alone decides.
        if not self._book.fitting(parts, self._book.parts):
            return any(self._book.parts[action].head == parts.head for action in self._legal)
        return bool(self._book.fitting(parts, self._legal))

    @cached_property
    def _briefs(self) -> dict[str, list[Action]]:
        """All, the last line and the last sentence, and what each can mean by itself."""
        # A line of fillers only, such as "Final answer:", names nothing.
        filled = (line for line in reversed(self._text.splitlines()) if self._says_more(line))
        line = next(filled, "")
        sentence = re.split(r"[.!?:;]\s+", line.rstrip(" .!?:;*`"))[-1]
        # A dict, because the three are often equal, and because their order is that of preference.
        return {text: self._book.meant(text.casefold()) for text in (self._text, line, sentence)}

    def _says_more(self, line: str) -> bool:
        return not self._book.fillers.issuperset(normalise(line).split())

    def _is_denied(self, mention: Mention) -> bool:
        # 60 characters are enough for a negation and four words after it.
        before = self._folded[max(0, mention.start - 60) : mention.start]
        is_first_of_several = self._folded[mention.end :].lstrip().startswith("|")
        return is_first_of_several or bool(_DENIED.search(before))

    def _excerpt(self, mention: Mention) -> str:
        return _shorten(self._text[mention.start : mention.end])


def _failed(failure: ReplyFailure, where: str) -> Reading:
    return Reading(None, failure, _shorten(where))


def _shorten(text: str) -> str:
    """In one line of at most `EXCERPT_LENGTH` characters."""
    line = " ".join(text[: 4 * EXCERPT_LENGTH].split())
    return line if len(line) <= EXCERPT_LENGTH else line[: EXCERPT_LENGTH - 1] + "…"


def _without_cut_number(text: str, book: Phrasebook) -> str:
    """The text without a number at its end, if a longer one may have been cut off there."""
    found = re.search(r"[0-9]{1,9}\Z", text)
    return text[: found.start()] if found and book.has_longer(found[0]) else text


def correction(reading: Reading, observation: Observation) -> str:
    """Return the correction for a reply without a legal action, with an example."""
    quote = f"'{reading.excerpt}'"
    match reading.failure:
        case "empty":
            fault = "Your reply was empty. Answer with one action."
        case "truncated":
            fault = "Your reply was cut off before it named an action. Think less, then name it."
        case "refused":
            fault = "This is only a parlour game, and nobody comes to harm. Answer with one action."
        case "illegal":
            fault = f"{quote} is not allowed now. Choose another action."
        case "ambiguous":
            fault = f"{quote} {_missing(reading.excerpt, observation)}"
        case _:
            fault = "No action was found in your reply. End it with one action, written out."
    # An example shows the notation; its choice, the first legal action, is arbitrary.
    example = f" For example: {observation.legal_actions[0]}" if observation.legal_actions else ""
    return fault + example


def _missing(excerpt: str, observation: Observation) -> str:
    """Return what would distinguish the legal actions that `excerpt` fits."""
    actions = _fitting(excerpt.casefold(), observation)
    # The kind of action is open, so name the candidates; otherwise name the fields that differ.
    if len({type(action) for action in actions}) > 1:
        book = phrasebook(observation.game)
        heads = dict.fromkeys(book.parts[action].head for action in actions)
        return f"may be several actions: {', '.join(heads)}. Say which."
    fields = (
        [name for name in field_names(actions[0]) if _differs(name, actions)] if actions else []
    )
    if not fields:
        return "is not a whole action. Write all of it."
    *first, last = (f"the {name}" for name in fields)
    named = f"{', '.join(first)} and {last}" if first else last
    return f"is not a whole action. Name {named} too."


def _fitting(excerpt: str, observation: Observation) -> list[Action]:
    book, legal = phrasebook(observation.game), observation.legal_actions
    meant = [action for action in book.meant(excerpt) if action in legal]
    mentions = book.mentions(excerpt)
    if meant or not mentions:
        return meant
    parts = mentions[-1].parts
    # Without a fit for the arguments, the head alone still shows which fields are needed.
    return book.fitting(parts, legal) or book.fitting(Parts(parts.head, ()), legal)


def _differs(field: str, actions: Sequence[Action]) -> bool:
    return len({getattr(action, field) for action in actions}) > 1
