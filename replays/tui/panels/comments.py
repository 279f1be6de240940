"""Panel of the comments on the plies so far."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from replays.analysis.documents import CommentJson
from replays.tui.panels.base import (
    COMPUTING,
    MarkedText,
    PanelContext,
    heading,
    hint,
    printable_lines,
)

MAX_COMMENTS = 50
"""Number of comments that are listed, the newest ones."""


def comments_at(comments: Iterable[CommentJson], position: int) -> list[CommentJson]:
    """Return the comments that judge the last ply, or have just become visible.

    Mistakes come first, because there may be room for a few lines only.
    """
    current = [
        comment
        for comment in comments
        if comment["visible_from"] <= position
        and position in (comment["ply"] + 1, comment["visible_from"])
    ]
    return sorted(current, key=lambda comment: (not comment["mistake"], comment["ply"]))


def draw_comment(comment: CommentJson) -> RenderableType:
    """Return a comment; the mark of a mistake is legible without colour."""
    mistake = comment["mistake"]
    author = f"seat {comment['player']}, ply {comment['ply'] + 1}: "
    label = f"mistake of {author}" if mistake else author
    text = Text(label, style="bold red" if mistake else "dim")
    text.append(
        printable_lines(comment["text"]), style="not bold default" if mistake else "not dim"
    )
    return MarkedText("!", "bold red", text) if mistake else MarkedText("·", "dim", text)


def current_comments(context: PanelContext) -> list[RenderableType]:
    """Return the comments of this position, or a remark that they are not complete yet."""
    comments = context.analysis.comments(context.seat)
    position = context.position
    drawn = [draw_comment(comment) for comment in comments_at(comments.value, position)]
    # A comment that is visible only later implies that this position is complete.
    complete = comments.complete or any(
        comment["visible_from"] > position for comment in comments.value
    )
    return drawn if complete else [*drawn, hint(COMPUTING)]


def comments_panel(context: PanelContext) -> RenderableType:
    """Return all comments until this position, the newest first."""
    comments = context.analysis.comments(context.seat)
    visible = [each for each in comments.value if each["visible_from"] <= context.position]
    mistakes = sum(comment["mistake"] for comment in visible)
    progress = "" if comments.complete else f" · {COMPUTING}"
    title = heading("Comments so far", f": {len(visible)}, mistakes: {mistakes}{progress}")
    if not visible and comments.complete:
        return Group(title, hint("There are no comments up to this position."))
    newest = sorted(visible, key=lambda comment: comment["ply"])[: -MAX_COMMENTS - 1 : -1]
    earlier = len(visible) - len(newest)
    remark = [hint(f"and {earlier:,} earlier comments")] if earlier else []
    return Group(title, *map(draw_comment, newest), *remark)
