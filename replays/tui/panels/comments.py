"""What exact knowledge says of the moves, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from replays.analysis.documents import CommentJson
from replays.tui.panels.view import Marked, View, heading, hint, legible

JUDGING = "judging …"
MOST = 50
"""Comments that are listed: the newest ones."""


def here(comments: Iterable[CommentJson], position: int) -> list[CommentJson]:
    """Those that judge the last ply, or have just been found out; none before its time.

    Mistakes come first: where there is little room, they are what must be seen.
    """
    found = [
        each
        for each in comments
        if each["found"] <= position and position in (each["ply"] + 1, each["found"])
    ]
    return sorted(found, key=lambda each: (not each["mistake"], each["ply"]))


def in_words(comment: CommentJson) -> RenderableType:
    """With a mark that needs no colour."""
    wrong = comment["mistake"]
    whose = f"seat {comment['player']}, ply {comment['ply'] + 1}: "
    words = Text(f"mistake of {whose}" if wrong else whose, style="bold red" if wrong else "dim")
    words.append(legible(comment["text"]), style="not bold default" if wrong else "not dim")
    return Marked("!", "bold red", words) if wrong else Marked("·", "dim", words)


def now(view: View) -> list[RenderableType]:
    """The comments of this position, or that they are being looked for."""
    found = view.findings.comments(view.seat)
    shown: list[RenderableType] = [in_words(each) for each in here(found.value, view.position)]
    judged = found.complete or any(each["found"] > view.position for each in found.value)
    return shown if judged else [*shown, hint(JUDGING)]


def comments(view: View) -> RenderableType:
    """All up to here, the newest first."""
    found = view.findings.comments(view.seat)
    until = [each for each in found.value if each["found"] <= view.position]
    mistakes = sum(each["mistake"] for each in until)
    more = "" if found.complete else f" · {JUDGING}"
    title = heading("Comments so far", f": {len(until)}, mistakes: {mistakes}{more}")
    if not until and found.complete:
        return Group(title, hint("Nothing is to be said of the moves up to here."))
    newest = sorted(until, key=lambda each: each["ply"])[: -MOST - 1 : -1]
    left = len(until) - len(newest)
    return Group(title, *map(in_words, newest), *_earlier(left))


def _earlier(count: int) -> Sequence[Text]:
    return [hint(f"and {count:,} earlier ones")] if count else []
