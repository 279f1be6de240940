r"""Marked answers in a reply: labels, tags, `\boxed{}`, lines, numbered options and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from arena.agents.reply.phrasebook import Phrasebook
from arena.core.action import Action, Speech, normalise
from arena.core.text import read_value

MAX_MARKS = 32
"""Only so many of the last labels, tags and boxes are read."""
MAX_LINES = 400
"""Only so many of the last lines are read as actions."""
MAX_CONTENT = 600
"""Characters of a marked answer that are read."""

_NOUN = (
    r"(?:action|answer|move|decision|choice|play|selection|response|verdict|pick|output|command"
    r"|aktion|antwort|zug|entscheidung|réponse|reponse|coup|décision|acción|accion|respuesta"
    r"|jugada|decisión|ação|acao|resposta|jogada|azione|risposta|mossa|действие|ответ|ход"
    r"|行动|动作|答案|回答|アクション|行動|回答|행동|답)"
)
_EDGE = r"(?:[\s>*_#`~–—•·\"'“”«»(\[|→⇒✅👉🎯🎲]|-(?!\d)){0,80}+"
# Bounded and possessive: each line break may begin a label, so a search to the end of a long run of
# them, and the way back, would take quadratic time.
_LABEL = re.compile(
    rf"(?:^|[\n.!?;:>。！？]){_EDGE}(?:(?:so|thus|therefore|hence|and)\b,?\s+)?"
    r"(?:(?:my|the|our|your|meine?|die|ma|la|mi|el|minha|a|mon|le|o|我的|最终|最終)\s*)?"
    r"(?P<final>(?:final|finale|corrected|revised|updated|actual|endgültige|definitive|definitiva"
    r"|final[ei]?|最终|最終の?)\s*)?"
    rf"(?:chosen |selected |recommended |best |official |game |player )?{_NOUN}"
    r"(?:\s+(?:final|finale|définitive|definitiva|for (?:this|my) turn|this turn|now))?"
    rf"[*_`\"'\])]*\s*(?:[:：=]|->|→|⇒|\b(?:is|will be|ist|est|es|é|è)\b(?:\s*:)?){_EDGE}",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"[<\[]\s*(?P<name>final[_ ]?answer|final[_ ]?action|final|answer|action|move|decision|choice"
    r"|act|command|response|output|tool_call|function_call)\s*[>\]]",
    re.IGNORECASE,
)
_XML = re.compile(r"</?[\w:-]{1,40}>")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?|[{}$~]|\\[,;! ]")
"""LaTeX commands and braces; the text within them stays."""

_MARKER = re.compile(
    r"^[\s>]*(?:(?P<bullet>[-*•+·–])\s+|(?P<number>(?:[*_`#]*(?:option|choice|move|plan)\s*)?"
    r"[*_]*[#(\[]?(?:\d{1,2}|[a-hA-H]|[ivIV]{1,3})[.):\]]{1,2}[*_]*)\s+|#{1,6}\s+)",
    re.IGNORECASE,
)
_LEAD = re.compile(r"\s*[\"'“(]*(\*\*|__|`+)([^*`\n]{1,80}?)\1")
_OPTION = re.compile(
    r"\b(?:options?|choice|number|no\.|plan|choose|pick|select|go(?:ing)? (?:with|for)|take"
    r"|answer(?: is)?:?|action:|move:)\s*(?:is |option |number |plan |choice )*[#(*\"'`]*"
    r"(\d{1,2}|[a-h])\b"
)
_ORDINAL = re.compile(
    r"\b(?:choose|pick|select|go(?:ing)? (?:with|for)|take|prefer|do)\W+(?:the\W+)?"
    r"(first|second|third|fourth|fifth|former|latter|last)\b"
)
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "former": 0}
_ORDINALS |= {"latter": -1, "last": -1}


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """Marked part of a reply."""

    text: str
    start: int
    end: int
    is_final: bool = False
    """Marked as the final one, which outweighs earlier marks."""
    heading: str = ""
    """The line before, if it introduces this one."""


def labelled(text: str) -> list[ReplyPart]:
    r"""Return the answers behind labels ("Action: …"), in tags and in `\boxed{}`, in text order."""
    marks = [*_labels(text), *_tags(text), *_boxes(text)]
    return sorted(marks, key=lambda mark: mark.start)[-MAX_MARKS:]


def _labels(text: str) -> Iterator[ReplyPart]:
    for match in list(_LABEL.finditer(text))[-MAX_MARKS:]:
        # The content is the rest of the line or else the paragraph that follows. `_EDGE` may have
        # gone over the line break already.
        start = match.end()
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        # Fields one a line, "Suspect: …", belong together. A paragraph ends with an empty line.
        if text[match.start() : start].rstrip(" *_`>-").endswith("\n") or end - start < 12:
            blank = text.find("\n\n", start)
            end = len(text) if blank < 0 else blank
        end = min(end, start + MAX_CONTENT)
        yield ReplyPart(text[start:end], start, end, bool(match["final"]))


def _tags(text: str) -> Iterator[ReplyPart]:
    for match in list(_TAG.finditer(text))[-MAX_MARKS:]:
        start = match.end()
        closing = re.compile(rf"[<\[]/\s*{re.escape(match['name'])}|\n\n", re.IGNORECASE)
        found = closing.search(text, start, start + MAX_CONTENT)
        end = found.start() if found else min(len(text), start + MAX_CONTENT)
        content = _XML.sub(" ", text[start:end])
        yield ReplyPart(content, start, end, match["name"].casefold().startswith("final"))


def _boxes(text: str) -> Iterator[ReplyPart]:
    for match in list(_BOX.finditer(text))[-MAX_MARKS:]:
        depth, end = 1, match.end()
        while end < min(len(text), match.end() + MAX_CONTENT) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        content = _COMMAND.sub(" ", text[match.end() : end])
        # A box is the final answer by convention.
        yield ReplyPart(" ".join(content.split()), match.start(), end, True)


@dataclass(frozen=True, slots=True)
class ReplyLine:
    """Line of a reply, without its list marker."""

    part: ReplyPart
    is_item: bool
    """The line has a bullet or a number."""
    number: str
    """Number or letter of an option, e.g. "2" or "b"; empty for none."""
    lead: ReplyPart | None
    """Emphasised beginning that an explanation follows: "**Rope**, because …"."""


def lines(text: str) -> list[ReplyLine]:
    """Return the last lines that hold words, fences of code left out."""
    found, heading = list[ReplyLine](), ""
    for match in list(re.finditer(r"[^\n]+", text))[-MAX_LINES:]:
        raw, at = match[0], match.end()
        marker = _MARKER.match(raw)
        begin = match.start() + (marker.end() if marker else 0)
        content = text[begin:at]
        if not re.search(r"\w", content) or content.strip().startswith(("```", "~~~")):
            continue
        numbered = marker["number"] if marker else None
        number = re.sub(r"\W|_|option|choice|move|plan", "", (numbered or "").casefold())
        is_item = bool(numbered or (marker and marker["bullet"]))
        part = ReplyPart(content, begin, at, heading=heading)
        strong = _LEAD.match(content)
        lead = (
            ReplyPart(strong[2], begin + strong.start(2), begin + strong.end(2)) if strong else None
        )
        found.append(ReplyLine(part, is_item, number, lead))
        bare = raw.strip().strip("*_ ")
        introduces = bare.endswith((":", "：")) or raw.lstrip().startswith("#")
        # All items of a list share the line that introduces it.
        if introduces or not is_item:
            heading = bare.casefold() if introduces else ""
    return found


def chosen_option(folded: str, options: dict[str, ReplyPart]) -> ReplyPart | None:
    """Return the one of several numbered options that the last choice in the text names."""
    if len(options) < 2:
        return None
    behind = max(mark.end for mark in options.values())
    items = list(options.values())
    chosen: tuple[int, ReplyPart] | None = None
    for match in _OPTION.finditer(folded, behind):
        if match[1] in options:
            chosen = (match.start(), options[match[1]])
    for match in _ORDINAL.finditer(folded, behind):
        number = _ORDINALS[match[1]]
        if number < len(items) and (chosen is None or match.start() > chosen[0]):
            chosen = (match.start(), items[number])
    return chosen[1] if chosen else None


ACTION_KEYS = (
    *("action", "move", "answer", "final_answer", "choice", "decision", "command"),
    *("type", "kind", "name", "verb"),
)
MAX_OBJECTS, MAX_LENGTH, MAX_DEPTH = 64, 8192, 8
"""JSON is looked for behind the last so many braces; what is longer or deeper is read as prose."""

SPEECH_KEYS = ("text", "message", "content", "speech")
"""Keys of the text of speech."""

LONG = 6
"""More words than that in a value are an explanation."""

DECODER = json.JSONDecoder(strict=False)  # Models break lines within strings.


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """Answer in one JSON object of a reply."""

    action: Action | None
    """The action whose verb and fields the object has."""
    texts: tuple[str, ...]
    """Texts that may name the action otherwise, the likeliest first."""


def split_json(text: str, book: Phrasebook) -> tuple[str, list[JsonAnswer]]:
    """Return `text` without the JSON objects that answer, and these answers in their order.

    An object that does not look like an answer, e.g. notes, is replaced by lines "key: value".
    """
    pieces, answers, at = [], [], 0
    for start in _braces(text):
        # This brace lies inside the object that was decoded last.
        if start < at:
            continue
        try:
            # `raw_decode` ignores what follows the object, e.g. more prose or a closing fence.
            decoded, length = DECODER.raw_decode(text[start : start + MAX_LENGTH])
        # A brace without JSON behind it stays in the text as it is.
        except (ValueError, RecursionError):
            continue
        # Of equal keys at different depths the last one wins.
        values = {key: value for key, value in _flat("", decoded, 0) if value}
        answer = _answer(values, book)
        if answer is None:
            prose = "\n".join(f"{key}: {value}" for key, value in values.items())
        else:
            answers.append(answer)
            prose = ""
        pieces += [text[at:start], f"\n{prose}\n"]
        at = start + length
    return "".join((*pieces, text[at:])), answers


def _braces(text: str) -> list[int]:
    """Return the positions of the last opening braces, in the order of the text."""
    found: list[int] = []
    # From the end: the answer is usually last, and the limit then drops the oldest braces.
    at = text.rfind("{")
    while at >= 0 and len(found) < MAX_OBJECTS:
        found.append(at)
        at = text.rfind("{", 0, at)
    return found[::-1]


def _answer(values: dict[str, str], book: Phrasebook) -> JsonAnswer | None:
    """Return the answer in the flattened values of an object; None if it is not an answer."""
    # In the order of `ACTION_KEYS`: a key such as "action" outweighs a general one such as "name".
    heads = [values.pop(key) for key in ACTION_KEYS if key in values]
    # No key looks like an action, so it may be a note.
    if not heads and book.fields.isdisjoint(values):
        return None
    for head in heads:
        for kind in book.speech:
            if head.casefold() in (kind.verb, kind.__name__.casefold()):
                return JsonAnswer(None, (f"{kind.verb} {_spoken(kind, values)}",))
    # First try: the head is a verb, and the other fields are the fields of its action.
    for head in heads:
        action = book.by_fields(head, values)
        if action is not None:
            return JsonAnswer(action, ())
    # Second try: a head holds the text of a whole action. Third try: the short values together.
    short = [value for value in (*heads, *values.values()) if len(value.split()) <= LONG]
    return JsonAnswer(None, (*heads, ", ".join(short)))


def _spoken(kind: type[Speech], values: dict[str, str]) -> str:
    """Return the text of speech in the values of an object, or an empty text."""
    # The notation names the fields too: `clue WORD NUMBER`.
    named = [values.get(word) for word in kind.form.casefold().split()]
    text = " ".join(value for value in named if value is not None)
    return text or next((values[key] for key in SPEECH_KEYS if key in values), "")


def _flat(key: str, value: JsonValue, depth: int) -> Iterator[tuple[str, str]]:
    """All values below, each under its own key."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        # The arguments of a tool call are JSON inside a string.
        value = read_value(value)
    # Bounds the recursion for hostile input.
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _flat(normalise(name).replace(" ", "_"), below, depth + 1)
    elif isinstance(value, list) and any(isinstance(below, dict) for below in value):
        for below in value:
            yield from _flat(key, below, depth + 1)
    # Joined by commas, like the arguments of an action.
    elif isinstance(value, list):
        yield key, ", ".join(map(str, value))
    elif value is not None:
        yield key, str(value)
