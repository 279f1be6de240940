"""Context of a mention in prose: whether the author asserts the action or only talks about it.

The rules are patterns of English over the sentence around the mention. They differ by reach: the
words just before, the clause, the sentence up to a conclusion, and what follows. They err on the
side of doubt: a mention that does not count leads to a correction, which costs one more reply; a
mention that counts wrongly costs a move.
"""

from __future__ import annotations

import re

WINDOW = 240
"""Characters before and after a mention that are searched for its sentence."""

_SENTENCE_START = re.compile(
    # Titles and abbreviations do not end a sentence.
    r"(?:(?<!\bmr)(?<!\bmrs)(?<!\bms)(?<!\bdr)(?<!\bprof)(?<!\brev)(?<!\bcol)(?<!\be\.g)(?<!\bi\.e)"
    r"(?<!\bvs)\.|[!?。！？])[\"'”’*_)\]]*(?:\s|$)|\n"
)
_CONCLUSION = re.compile(r";|\b(?:so|therefore|thus|hence|but|nevertheless|anyway|in any case)\b")
"""Ends the reach of a condition: "if he had it he would show it, so I accuse …"."""
_CLAUSE = re.compile(r"[,;:—–(]|\b(?:because|since|as|and|so|but|which|that)\b")

_NEGATION = re.compile(
    r"(?:\b(?:not|never|cannot|no need|no longer|without|than|instead of|avoid|against|ruled? out"
    r"|refrain from|hold off|stop short of|postpone|delay|premature(?:ly)?|risky)|n['’]t)"
    r"(?:[ \t]+(?!but\b|so\b)[\w'’]+){0,4}[ \t:*_`\"“'’]*$"
)
"""A negation at most four words before the mention."""
_CONDITION = re.compile(
    r"\b(?:if|unless|when(?:ever)?|once|until|in case|provided|assuming|suppos(?:e|ing)|whether"
    r"|otherwise|or else|between|alternatives?|alternatively|backup|fallback|hypothetical(?:ly)?"
    r"|rejected|premature|considered|tempt(?:ed|ing)|plan(?:s|ned)?|later|eventually|afterwards?"
    r"|future|following turn|next (?:turn|time|round|move|step)|example|for instance|e\.g"
    r"|such as)\b|\bturn \d+\W*$"
)
"""Words that make all of the sentence behind them conditional, hypothetical or later."""
_HEDGE = re.compile(
    r"\b(?:would(?!\W+(?:like|rather|prefer|choose|go))|could|might|may|can(?!\W+now)|perhaps|maybe"
    r"|possibl[ey]|potential(?:ly)?|consider(?:ing)?|thinking (?:about|of)|options?|or|instead of"
    r"|about to|want(?:s|ed)?|able|before|after|had|tried)\b|i['’]d(?!\W+(?:like|rather))"
)
"""Words that weaken the clause that they belong to."""
_OTHER_SUBJECT = re.compile(
    r"\b(?:player \d+|p\d+|he|she|they|opponents?|others?|you|who|no ?(?:body|one)"
    r"|(?:some|any|every)(?:body|one))(?:['’]s)?(?:\W+(?!i\b)\w+){0,2}\W*$"
)
"""Another player is the subject."""
_RETRACTION = re.compile(
    # A condition or a time that follows at once.
    r"^[\"'”’*_`]*\W{0,3}(?:(?:but )?(?:only )?(?:would|could|might|if|unless|once|when|provided"
    r"|next turn|next time|later)\b)"
    # A judgement of the action.
    r"|\b(?:would|could|might|may|is|are|was|seems?|feels?|looks?)(?: \w+)? (?:a bad|a gamble"
    r"|a mistake|a waste|an option|another|dangerous|foolish|illegal|impossible|inadvisable|not"
    r"|overkill|pointless|possible|premature|reckless|risky|silly|suboptimal|tempting|too \w+"
    r"|unnecessary|unwise|useless|wasteful|worse|wrong)\b"
    # A negation, except of what confirms: "cannot refute".
    r"|\b(?:isn|wasn|wouldn|doesn|don|can|couldn)['’]t (?!refute|be (?:refuted|shown))"
    r"|\b(?:not (?:yet|now|worth|a good|ready|safe|justified|warranted)|premature|rejected"
    r"|too (?:early|soon|risky)|next (?:turn|time|round)|can wait|on a later turn|later on"
    r"|in the (?:next|future)|with (?:a )?probability|\d+ ?% of|per ?cent of|of the time)\b"
    r"|[x×✗❌]\s*$"
)
"""What follows the mention takes it back or puts it off."""
_CLOSED_PARENTHESIS = re.compile(r"\([^()\n]*\)")

_COMMITMENT = re.compile(
    r"(?:^|\b(?:i|i['’](?:ll|m)|we|let me|let us|let['’]s|time to|going to|ready to|decid\w+ to"
    r"|ch(?:oo|o)s\w+ to|will|shall|must|should|hereby|now|my|so|therefore|thus|hence|final|answer"
    r"|action|decision|move|conclusion|certain|is))(?:\W+\w+){0,3}\W*$"
)
_REVISION = re.compile(
    r"\b(?:wait|actually|second thoughts?|correction|scratch that|hmm+|revis\w+|reconsider\w*"
    r"|on reflection|sorry|oops|mistake|changed? my|better(?: idea)?|rather|instead|no,|forget that"
    r"|however|final(?:ly)?|in the end|ultimately|so i|therefore|thus|hence|conclusion|decid\w+"
    r"|go(?:ing)? with)\b"
)
_SEQUENCE = re.compile(
    r"^[^.!?\n]{0,40}\b(?:then|after(?: that|wards?)?|next|later|followed by|before|and)\b"
)
_ALTERNATIVE = re.compile(r"\W{0,4}(?:\b(?:or|vs|versus)\b(?! (?:else|i lose))|/)")
_JOINED = re.compile(r"\b(?:or|because|since|not|never|nor)\b|n['’]t\b")
_OR_AT_END = re.compile(r"\bor\W+(?:\w+\W+){0,3}$")
_FIRST_PERSON = re.compile(r"(?:i['’]m|i am|by|with)\W+$")
_QUESTION_TO_READER = re.compile(
    r"\b(?:you|shall i|should i|which)\b[^.!?\n]*\?\W*$"
    r"|\b(?:can(?:not|['’]t)(?: \w+)? decide|up to you|your (?:call|choice)|undecided)\b"
)
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?(?:very |so |truly )?sorry\b|i apologi[sz]e"
    r"|unfortunately|as an ai\b)?"
    r"[^\n]{0,60}?"
    r"(?:\bi (?:can['’]?t|cannot|can not|won['’]t|will not|(?:am|['’]m) (?:unable|not able) to)"
    r" (?:\w+ )?(?:help|assist|comply|do (?:that|this)|continue|participate|take part|engage|play"
    r"|provide|fulfil|support|answer|discuss|complete|respond|generate|create)"
    r"|\bi(?: am|['’]m) (?:unable|not able|not comfortable|not willing)\b"
    r"|\bi (?:must|have to|need to|respectfully|will have to) (?:\w+ )?(?:decline|refuse)"
    r"|\bi (?:decline|refuse) to)"
)


def sentence_before(text: str, start: int) -> str:
    """Return what precedes position `start` in its sentence and in `WINDOW`."""
    return _after_last(_SENTENCE_START, text[max(0, start - WINDOW) : start])


def sentence_after(text: str, end: int) -> tuple[str, str]:
    """Return what follows position `end` in its sentence, and the mark that ends the sentence."""
    after = text[end : end + WINDOW]
    match = _SENTENCE_START.search(after)
    return (after[: match.start()], match[0].strip()) if match else (after, "")


def counts(text: str, start: int, end: int, heading: str = "") -> bool:
    """Return whether the author asserts the action that casefolded `text[start:end]` names.

    `heading` is the line that introduces the mention, e.g. "next turn:".
    """
    before = _CLOSED_PARENTHESIS.sub("", f"{heading} {sentence_before(text, start)}")
    after, mark = sentence_after(text, end)
    if "?" in mark or "？" in mark or "|" in after[:3] or before.rstrip().endswith("|"):
        return False
    open_clause = _after_last(_CLAUSE, before)
    return not (
        _NEGATION.search(before)
        or _CONDITION.search(_after_last(_CONCLUSION, before))
        or _HEDGE.search(open_clause)
        or _OTHER_SUBJECT.search(open_clause)
        or _RETRACTION.search(after)
    )


def is_committed(text: str, start: int) -> bool:
    """Return whether the words before a mention announce it as the decision, "I now accuse …"."""
    return bool(_COMMITMENT.search(sentence_before(text, start).lstrip(" *_`>#-\"'“")))


def is_first_person(text: str, start: int) -> bool:
    """Return whether the author is the subject of a mention in the -ing form, "I'm suggesting"."""
    return bool(_FIRST_PERSON.search(text, max(0, start - 12), start))


def is_revised(between: str) -> bool:
    """Return whether the text between two mentions takes back the first one."""
    return bool(_REVISION.search(between))


def is_sequel(between: str) -> bool:
    """Return whether the second of two mentions is a later step of a plan, "…, then end turn"."""
    return bool(_SEQUENCE.search(between))


def is_alternative(text: str, start: int, end: int) -> bool:
    """Return whether the mention `text[start:end]` is, or names, one of two: "… or …"."""
    return bool(_ALTERNATIVE.match(text, end) or _JOINED.search(text, start, end))


def is_joined_by_or(between: str) -> bool:
    """Return whether "or" leads to the second of two mentions in one sentence."""
    return bool(_OR_AT_END.search(between)) and not _SENTENCE_START.search(between)


def asks_reader(text: str) -> bool:
    """Return whether a reply ends with a question to its reader."""
    return bool(_QUESTION_TO_READER.search(text[-WINDOW:]))


def is_refusal(folded: str) -> bool:
    """Return whether a casefolded reply begins by declining to play."""
    return _REFUSAL.match(folded) is not None


def _after_last(pattern: re.Pattern[str], text: str) -> str:
    ends = [match.end() for match in pattern.finditer(text)]
    return text[ends[-1] :] if ends else text
