"""Reader of replies: finds the action that a model's reply means, in every game.

The contract:

1. A marked answer is JSON with an answer's key or the fields of an action (so also a call of a
   function), the text behind a label ("Action: …"), in a tag (`<action>`), in `\\boxed{}`, on the
   only line of a fenced block, or a last line that is emphasised as a whole. The *last* marked
   answer is the answer. If it is a legal action, that is played. If it is none, the attempt
   failed, and the correction quotes it. Nothing else in the reply is looked at.
2. Without a mark the last line (or the whole reply) is the answer, if it is an action and nothing
   else. Otherwise a reply that names exactly one action, and a legal one, means this one, unless
   the sentence around it negates, doubts, reports or puts off. All other replies have no action.
3. A reply that was cut off by the limit on tokens has no action, unless a marked answer is complete
   and is the beginning or the end of the reply: what stands between may be an example.
4. Numbers are read whole: "-3", "3.5", "3-4" and "1,000" are not 3, 4 or 1. An action beside a
   number or a name that does not belong to it ("raise to 3" where "raise" takes no amount) is not
   this action.

Case, punctuation, emphasis, little joining words ("with the") and the order of names that commas
part do not matter, and the game's synonyms count (`GameText.synonyms`). Letters of other forms
(NFKC) count if there is no action without them. An answer may leave out what is obvious:
"Candlestick" where a card must be shown. Speech, such as `say TEXT`, is not taken from prose.

`<think>` blocks are not searched. One that is never closed goes on to the end, and one that was
opened in the prompt begins with the reply. Of the rest only the last 16,384 characters are read, so
that no reply holds up the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from arena.agents.reply.marks import XML_TAG, MarkedAnswer, marked_answers
from arena.agents.reply.phrasebook import Mention, Parts, phrasebook, words_in
from arena.core.action import Action, Speech, field_names
from arena.core.errors import InvalidAction
from arena.core.observation import Observation
from arena.core.text import plain_letters
from arena.llm.backend import FinishReason

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
    is_cut_thinking: bool = False
    """The limit on tokens came before the model had finished thinking."""


def failed(failure: ReplyFailure, words: str) -> Reading:
    """Return the reading of words that name no legal action."""
    return Reading(None, failure, excerpt_of(words))


def excerpt_of(text: str) -> str:
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
            return Reading(legal[0], None, excerpt_of(words))
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
        return Reading(speech, None, excerpt_of(str(speech)))

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


def correction(reading: Reading, observation: Observation, max_tokens: int = 0) -> str:
    """Return the correction for a reply without a legal action, with an example.

    `max_tokens` is the limit of the reply, if there is one.
    """
    missing = _missing(reading.excerpt, observation) if reading.failure == "ambiguous" else ""
    fault = _FAULTS[reading.failure].format(reading.excerpt, missing)
    if reading.is_cut_thinking and max_tokens:
        fault = (
            f"Your thinking used up all {max_tokens} tokens of the reply, so there was no "
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


MAX_REPLY, MAX_READ = 1 << 20, 1 << 14
"""Last characters of a reply in which think blocks are looked for, and of the text outside them."""

_THINK = r"(?:think|thinking|thought|reasoning)[>\]]"
_THINK_END = re.compile(rf"[<\[]/{_THINK}", re.IGNORECASE)
_THINK_BLOCK = re.compile(rf"[<\[]{_THINK}.*?(?:[<\[]/{_THINK}|\Z)", re.IGNORECASE | re.DOTALL)
_ASIDE = re.compile(r"<notes>.*?</notes>|<\|[^|>\n]{1,40}\|>", re.IGNORECASE | re.DOTALL)
"""Notes of the model, and control tokens of a chat template that a server did not remove."""
_SENTENCE_END = re.compile(
    # Titles and abbreviations do not end a sentence.
    r"(?:(?<!\bmr)(?<!\bmrs)(?<!\bms)(?<!\bdr)(?<!\bprof)(?<!\brev)(?<!\bcol)(?<!\be\.g)(?<!\bi\.e)"
    r"(?<!\bvs)\.|[!?。！？])[\"'”’*_)\]]*(?:\s|$)|\n"
)
_CLAUSE_END = re.compile(r"[:：][\s*_)\"]+")
_WINDOW = 240
"""Characters before and after a mention that are searched for its sentence."""
_DOUBT = re.compile(
    r"n['’]t\b|\b(?:not|never|no|nor|cannot|without|avoid|if|unless|when|once|until|whether|otherwise"
    r"|would(?! like)|could|might|may|can|should|perhaps|maybe|either|or|between|options?|example"
    r"|consider\w*|tempt\w+|idea|plan\w*|bad|poor|premature|risky|later|next|last|earlier|before|had"
    r"|tried|suggested|asked|showed|probability|optimal|strategy|player \d+|he|she|they|opponents?"
    r"|others?|you|who|(?:any|some|every|no)(?:body|one))\b|[|?？✗❌%]"
)
"""Words by which a sentence doubts, rejects, puts off or reports the action that it names."""
_REFUSAL = re.compile(
    r"[^\n]{0,60}?\bi(?:['’]m| am)? (?:(?:can['’]?t|cannot|won['’]t|will not|unable to|not able to)"
    r" (?:\w+ )?(?:help|assist|comply|do|continue|participate|take part|engage|play|provide|answer"
    r"|discuss|generate|create)|not (?:comfortable|willing)|(?:must |have to |respectfully )?"
    r"(?:decline|refuse))\b"
)
"""Words by which a casefolded reply declines to play."""


def visible(text: str) -> str:
    """Return the end of the text outside think blocks."""
    outside = _THINK_BLOCK.sub("\n", text[-MAX_REPLY:])
    # The end of a block without a beginning: the prompt opened it, so all text so far was thought.
    return _ASIDE.sub("\n", _THINK_END.split(outside)[-1][-MAX_READ:])


def read_reply(
    text: str, observation: Observation, finish_reason: FinishReason = "stop", refusal: str = ""
) -> Reading:
    """Find the action in a reply; see the module for what counts. Never raises."""
    # The provider's own statement outweighs the text, which may be a fragment.
    if refusal or finish_reason == "content_filter":
        return failed("refused", refusal or text)
    cut, shown = finish_reason == "length", visible(text)
    # Fast path for a reply that is exactly one legal action. It also decides for actions whose
    # texts have the same words.
    exact = phrasebook(observation.game).by_text.get(shown.strip())
    if exact is not None and exact in observation.legal_actions and not cut:
        return Reading(exact, None, excerpt_of(shown))
    if not any(character.isprintable() and not character.isspace() for character in shown):
        excerpt = excerpt_of(text[-EXCERPT_LENGTH:])
        return Reading(None, "truncated" if cut else "empty", excerpt, is_cut_thinking=cut)
    reading = _read(shown, observation, cut)
    if reading.action is None and (plain := plain_letters(shown)[-MAX_READ:]) != shown:
        again = _read(plain, observation, cut)
        return reading if again.action is None else again
    return reading


def _read(text: str, observation: Observation, cut: bool) -> Reading:
    """Read what is visible of a reply."""
    reader = AnswerReader(observation)
    marks = marked_answers(text, reader.book)
    if cut:
        marks = [mark for mark in marks[-1:] if _is_apart(mark, text)]
    if marks:
        return _read_marks(marks, reader)
    if cut:
        return failed("truncated", text[-EXCERPT_LENGTH:])
    return _read_unmarked(text, reader)


def _is_apart(mark: MarkedAnswer, text: str) -> bool:
    """Return whether a marked answer is complete and begins or ends a reply that was cut off."""
    before = XML_TAG.sub("", text[: mark.start]).removesuffix("```json\n")
    after = XML_TAG.sub("", text[mark.end :])
    begins = not re.search(r"\w", before + after.partition("\n")[0])
    return mark.is_closed and (begins or not re.search(r"\w", after))


def _read_marks(marks: list[MarkedAnswer], reader: AnswerReader) -> Reading:
    """Read the last mark that is no part of the speech of an earlier one."""
    end, reading = 0, failed("illegal", "")
    for mark in marks:
        if mark.start < end:
            continue
        if mark.action is not None:
            reading = reader.choose([mark.action], mark.texts[0])
        else:
            # More text than the first line counts only if that is a part of an action.
            reading, *others = map(reader.answer, mark.texts)
            if reading.failure == "ambiguous":
                reading = next((other for other in others if other.action), reading)
        is_speech = isinstance(reading.action, Speech) or reading.failure == "invalid_speech"
        end = mark.end if is_speech else 0
    return reading


def _read_unmarked(text: str, reader: AnswerReader) -> Reading:
    """Return the reading of a reply without a marked answer."""
    readings = _read_end(text, reader), reader.brief(text), _read_prose(text, reader)
    found = [reading for reading in readings if reading is not None]
    action = next((reading for reading in found if reading.action is not None), None)
    if action is None and _REFUSAL.match(text[:400].casefold()):
        return failed("refused", text)
    return action or found[0]


def _read_end(text: str, reader: AnswerReader) -> Reading | None:
    """Return the reading of the last line, or its last sentence, if that is an action alone."""
    *before, last = ["", *(line for line in text.split("\n") if re.search(r"\w", line))]
    sentence = last[_last_end(_SENTENCE_END, last.rstrip(' .!?*_`"”')) :]
    # A clause may be what the words before reject.
    clause = "" if _DOUBT.search(last.casefold()) else last[_last_end(_CLAUSE_END, last) :]
    readings = filter(None, map(reader.whole, (last, sentence, clause)))
    reading = next((reading for reading in readings if reading.action), None)
    # The last of several lines that are an action each ends a list of options.
    other = reader.whole(before[-1]) if before else None
    is_listed = reading and other and other.action not in (None, reading.action)
    return None if is_listed else reading


def _read_prose(text: str, reader: AnswerReader) -> Reading:
    """Return the one action that a reply names, or the failure."""
    folded = text.casefold()
    mentions = [m for m in reader.book.mentions(folded) if m.actions or m.parts.args]
    if len({mention.parts.sorted() for mention in mentions}) != 1:
        return failed("undecided" if mentions else "unparsable", text)
    last = mentions[-1]
    reading = reader.mentioned(last, text) if last.actions else reader.incomplete([last], text)
    if reading.action is not None and _is_doubtful(folded, last):
        return failed("unparsable", text)
    return reading


def _last_end(pattern: re.Pattern[str], text: str) -> int:
    """Return where the last match ends; 0 without one."""
    return max((match.end() for match in pattern.finditer(text)), default=0)


def _is_doubtful(folded: str, mention: Mention) -> bool:
    """Return whether the sentence of a mention has words that make it no decision."""
    before = folded[max(0, mention.start - _WINDOW) : mention.start]
    after = folded[mention.end : mention.end + _WINDOW].partition(" instead of ")[0]
    end = _SENTENCE_END.search(after)
    sentence = f"{before[_last_end(_SENTENCE_END, before) :]} \0 {after[: end and end.end()]}"
    return bool(_DOUBT.search(sentence))
