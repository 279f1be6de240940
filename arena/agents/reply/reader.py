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

from arena.agents.reply.marks import XML_TAG, MarkedAnswer, marked_answers
from arena.agents.reply.phrasebook import Mention, phrasebook
from arena.agents.reply.reading import EXCERPT_LENGTH, AnswerReader, Reading, failed, shorten
from arena.core.action import Speech
from arena.core.observation import Observation
from arena.core.text import plain_letters
from arena.llm.backend import FinishReason

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
        return Reading(exact, None, shorten(shown))
    if not any(character.isprintable() and not character.isspace() for character in shown):
        return failed("truncated" if cut else "empty", text[-EXCERPT_LENGTH:])
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
