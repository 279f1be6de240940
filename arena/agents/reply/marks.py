r"""Marked answers in a reply: JSON, labels, tags, `\boxed{}`, fenced and emphasised lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from arena.agents.reply.phrasebook import Phrasebook
from arena.core.action import Action, Speech, normalise
from arena.core.text import read_value

MAX_MARKS, MAX_CONTENT = 8, 600
"""Marks that are read, the last ones, and characters of each."""

_NOUN = (
    r"(?:action|answer|move|decision|choice|play|selection|response|verdict|pick|output|command"
    r"|aktion|antwort|zug|entscheidung|réponse|reponse|coup|décision|acción|accion|respuesta"
    r"|jugada|decisión|ação|acao|resposta|jogada|azione|risposta|mossa|действие|ответ|ход"
    r"|行动|动作|答案|回答|アクション|行動|행동|답)"
)
_EDGE = r"(?:[\s>*_#`~–—•·\"'“”«»(\[|→⇒✅👉🎯🎲]|-(?!\d)){0,80}+"
# Bounded and possessive: each line break may begin a label, so a search to the end of a long run of
# them, and the way back, would take quadratic time.
_LABEL = re.compile(
    rf"(?:^|[\n.!?;,:>。！？]){_EDGE}(?P<label>(?:(?:so|thus|therefore|hence|and|but)\b,?\s+)?"
    r"(?:(?:my|the|our|your|meine?|die|ma|la|mi|el|minha|a|mon|le|o|我的|最终|最終)\s*)?"
    r"(?:(?:final|finale|corrected|revised|updated|actual|endgültige|definitive|definitiva"
    r"|final[ei]?|chosen|selected|recommended|best|official|game|player|最终|最終の?)\s*)?"
    rf"{_NOUN})(?:\s+(?:final|finale|définitive|definitiva|for (?:this|my) turn|this turn|now))?"
    r"[*_`\"'\])]*\s*(?:[:：=]|->|→|⇒|\b(?:is|will be|ist|est|es|é|è)\b(?:\s*:|(?P<open>)))"
    rf"{_EDGE}",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"[<\[]\s*(?P<name>final[_ ]?answer|final[_ ]?action|final|answer|action|move|decision|choice"
    r"|act|command|response|output|tool_call|function_call)\s*[>\]]",
    re.IGNORECASE,
)
XML_TAG = re.compile(r"</?[\w:-]{1,40}>")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?|[{}$~]|\\[,;! ]")
"""LaTeX commands and braces; the text within them stays."""
_FENCE = re.compile(r"(?:```|~~~)[^\n`]{0,20}\n([^\n`]{1,600})\n[ \t]*(?:```|~~~)")
"""A fenced block of one line."""
_STRONG = re.compile(r"[^\w\n*`]*(\*{1,3}|__|`{1,3})([^*`\n]+)\1[^\w\n]*")
"""A line that is emphasised as a whole; ornaments may stand around it."""


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """A marked answer and its place in the reply."""

    start: int
    end: int
    texts: tuple[str, ...]
    """The answer, and a longer form for one that is a part of an action."""
    action: Action | None = None
    """The action whose verb and fields a JSON object has."""
    is_closed: bool = True
    """The end of the mark was written: a closing tag, a brace, a line break."""


def marked_answers(text: str, book: Phrasebook) -> list[MarkedAnswer]:
    """Return the last marked answers in their order; nested ones from the outermost on."""
    marks = [*_objects(text, book)]
    for mark in marks:
        # What looks like a label within a string of JSON is none.
        text = text[: mark.start] + " " * (mark.end - mark.start) + text[mark.end :]
    for find in (_labels, _tags, _boxes, _fences):
        marks += [mark for mark in find(text, book) if re.search(r"\w", mark.texts[0])]
    return sorted(marks or _strong_line(text), key=lambda mark: mark.start)[-MAX_MARKS:]


def _labels(text: str, book: Phrasebook) -> Iterator[MarkedAnswer]:
    for match in [*_LABEL.finditer(text)][-MAX_MARKS:]:
        # `_EDGE` may have gone over a line break already.
        content = text[match.end() : match.end() + MAX_CONTENT]
        line, paragraph = content.split("\n")[0], content.split("\n\n")[0]
        # "The answer is clear" is no label, but "The answer is end turn" is one.
        if match["open"] is None or book.mentions(line.casefold()):
            end = match.end() + len(line)
            yield MarkedAnswer(
                match.start("label"), end, (line, paragraph), is_closed=end < len(text)
            )


def _tags(text: str, book: Phrasebook) -> Iterator[MarkedAnswer]:
    for match in [*_TAG.finditer(text)][-MAX_MARKS:]:
        start, limit = match.end(), match.end() + MAX_CONTENT
        closing = re.compile(rf"[<\[]/\s*{re.escape(match['name'])}\s*[>\]]|\n\n", re.IGNORECASE)
        found = closing.search(text, start, limit)
        end, after = found.span() if found else (limit, limit)
        yield MarkedAnswer(
            match.start(), after, (XML_TAG.sub(" ", text[start:end]),), is_closed=bool(found)
        )


def _boxes(text: str, book: Phrasebook) -> Iterator[MarkedAnswer]:
    for match in [*_BOX.finditer(text)][-MAX_MARKS:]:
        depth, end = 1, match.end()
        while end < min(len(text), match.end() + MAX_CONTENT) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        content = _COMMAND.sub(" ", text[match.end() : end])
        yield MarkedAnswer(match.start(), end, (" ".join(content.split()),), is_closed=not depth)


def _fences(text: str, book: Phrasebook) -> Iterator[MarkedAnswer]:
    for match in [*_FENCE.finditer(text)][-MAX_MARKS:]:
        yield MarkedAnswer(match.start(), match.end(), (match[1],))


def _strong_line(text: str) -> list[MarkedAnswer]:
    """Return the last line with words, if it is emphasised as a whole."""
    line = next((line for line in reversed(text.split("\n")) if re.search(r"\w", line)), "")
    strong, start = _STRONG.fullmatch(line), text.rfind(line)
    return [MarkedAnswer(start, start + len(line), (strong[2],))] if strong else []


ACTION_KEYS = (
    *("action", "move", "answer", "final_answer", "choice", "decision", "command"),
    *("type", "kind", "name", "verb", "tool", "tool_name", "function_name"),
)
MAX_OBJECTS, MAX_LENGTH, MAX_DEPTH = 64, 8192, 8
"""JSON is looked for behind the last so many braces; what is longer or deeper is read as prose."""
SPEECH_KEYS = ("text", "message", "content", "speech")
"""Keys of the text of speech."""
DECODER = json.JSONDecoder(strict=False)  # Models break lines within strings.


def _objects(text: str, book: Phrasebook) -> Iterator[MarkedAnswer]:
    """Yield the JSON objects, and lists of words, that look like an answer."""
    at = 0
    for start in [brace.start() for brace in re.finditer("{", text)][-MAX_OBJECTS:]:
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
        if answer is not None:
            at = start + length
            action, texts = answer
            yield MarkedAnswer(start, at, texts, action)


def _answer(
    values: dict[str, str], book: Phrasebook
) -> tuple[Action | None, tuple[str, ...]] | None:
    """Return the answer in the flattened values of an object; None if it is not an answer."""
    # In the order of `ACTION_KEYS`: a key such as "action" outweighs a general one such as "name".
    heads = [values.pop(key) for key in ACTION_KEYS if key in values]
    fields = {key: value for key, value in values.items() if key in book.fields} or values
    # No key looks like an action, so it may be a note.
    if not heads and book.fields.isdisjoint(values):
        return None
    for head in heads:
        for kind in book.speech:
            if head.casefold() in (kind.verb, kind.__name__.casefold()):
                return None, (f"{kind.verb} {_spoken(kind, values)}",)
        # The head is a verb, and the other fields are the fields of its action.
        action = book.by_fields(head, values)
        if action is not None:
            return action, (str(action),)
    # The head holds a whole action, or the other values complete it.
    return None, (*heads[:1], ", ".join([*heads, *fields.values()]))


def _spoken(kind: type[Speech], values: dict[str, str]) -> str:
    """Return the text of speech in the values of an object, or an empty text."""
    # The notation names the fields too: `clue WORD NUMBER`.
    named = [values.get(word) for word in kind.form.casefold().split()]
    text = " ".join(value for value in named if value is not None)
    return text or next((values[key] for key in SPEECH_KEYS if key in values), "")


def _flat(key: str, value: JsonValue, depth: int) -> Iterator[tuple[str, str]]:
    """Yield all values below, each under its own key."""
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
