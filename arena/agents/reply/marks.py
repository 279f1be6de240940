r"""Marked answers in a reply: labels, tags, `\boxed{}`, lines of their own and numbered options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
_EDGE = r"[\s>*_#`~\-–—•·\"'“”«»(\[|→⇒✅👉🎯🎲]*"
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
    r"(\d{1,2}|[a-h])\b",
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
    found: list[ReplyLine] = []
    at, heading = max(0, len(text) - 200 * MAX_LINES), ""
    for raw in text[at:].split("\n")[-MAX_LINES:]:
        start = text.find(raw, at)
        at = start + len(raw)
        marker = _MARKER.match(raw)
        begin = start + (marker.end() if marker else 0)
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
