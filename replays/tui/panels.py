"""Panels of the terminal viewer: posterior, comments, result, help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from arena import Replay
from arena.core.text import bits_text, decimal
from arena.core.view.tabletop import draw_tabletop
from replays.analysis.documents import CommentJson, PosteriorJson, SeatSummaryJson
from replays.analysis.posterior import entry_at
from replays.analysis.timeline import former_players
from replays.tui.background_analysis import BackgroundAnalysis
from replays.tui.frame import printable_lines

COMPUTING = "computing …"
NO_POSTERIOR = "This game does not compute exact probabilities."
MAX_COMMENTS = 50
"""Number of comments that are listed, the newest ones."""
MIN_NAME = 11
"""Columns of a thing's name, at least."""
SHADES = "░▒▓█"
LEGEND = "● certain   – impossible   ░▒▓█ probability in percent"
ARROWS = {"higher": " ↑", "lower": " ↓", None: ""}
KEYS = {
    "← →": "previous, next ply; also p and n, Space",
    "PgUp PgDn": "previous, next turn; in other panels they scroll, as ↑ ↓ do",
    "Home End": "first, last position",
    "[ ]": "previous, next move of the focused seat",
    "m M": "next, previous mistake",
    "0 … 9   o": "view of this seat; everything open",
    "f F": "focus the next, the previous seat (with everything open)",
    "t g c d r": "table, grid (posterior), comments, decision, result",
    "Tab": "next panel; Shift-Tab: previous panel",
    "Esc  ?  q": "back to the table; this help; quit",
}
MARKS = {
    "▶": "must act",
    "░▒▓█ 25": "grid: exact probability given what the seat has seen; percent",
    "5.20 bits": "entropy of the seat's posterior: what it does not know yet",
    "· Player 1 …": "event that only some seats witnessed",
    "!": "mistake: a perfect reasoner in this seat would have known better",
    " ": "(what a move revealed is judged only with everything open)",
}


@dataclass(frozen=True, slots=True)
class PanelContext:
    """A position and a perspective."""

    replay: Replay
    analysis: BackgroundAnalysis
    position: int
    """Number of plies played."""
    seat: int | None
    """The perspective; None: everything is open."""
    focus: int
    """The seat whose facts are shown; equal to the perspective, if there is one."""


def heading(title: str, detail: str = "") -> Text:
    """Return a bold title with a dim detail."""
    return Text.assemble((title, "bold"), (detail, "dim"))


def hint(text: str) -> Text:
    """Return a remark in dim italics."""
    return Text(text, style="dim italic")


# Posterior


def grid_panel(context: PanelContext) -> RenderableType:
    """Return the posterior of the focused seat at this position."""
    posterior = context.analysis.posteriors.get(context.focus)
    focus_hint = "   f: another seat" if context.seat is None else ""
    title = f"Posterior of seat {context.focus}"
    if posterior is None:
        reason = NO_POSTERIOR if context.focus in context.analysis.posteriors else COMPUTING
        return Group(heading(title), hint(reason + focus_hint))
    entry, places = entry_at(posterior, context.position), posterior["places"]
    # A count of worlds may have hundreds of digits.
    form = "," if len(entry["worlds"]) < 13 else ".2e"
    worlds = format(Decimal(entry["worlds"]), form)
    detail = f" · entropy {bits_text(entry['bits'])} · possible worlds: {worlds}"
    if entry["grid"] is None or not places:
        return Group(heading(title, detail), hint(focus_hint.strip()))
    meanings = [
        f"{label} {printable_lines(place)}"
        for label, place in zip(place_labels(places), places, strict=True)
        # "P0" explains itself below the names of seats.
        if label != place and not re.fullmatch(r"\w+ \d+", place)
    ]
    legend = [*(["   ".join(meanings)] if meanings else []), LEGEND + focus_hint]
    return Group(heading(title, detail), _draw_grid(posterior, entry["grid"]), *map(hint, legend))


def _draw_grid(posterior: PosteriorJson, grid: list[list[float]]) -> RenderableType:
    """Return a table for each kind of things, as many beside each other as fit."""
    labels = place_labels(posterior["places"])
    longest = max(map(len, (*posterior["things"], *posterior["kinds"])))
    # Two tables fit into 80 columns; a cell has 4.
    name_width = min(longest, max(MIN_NAME, 39 - 4 * len(labels)))
    # The last things of the list have no row while they are not in the game.
    rows = zip(posterior["kinds"], posterior["things"], grid, strict=False)
    tables = []
    for kind, things in groupby(rows, key=lambda row: row[0]):
        table = Table.grid()
        table.add_column(no_wrap=True, width=name_width)
        table.add_row(
            heading(printable_lines(kind)), *(heading(f" {label:>3}") for label in labels)
        )
        for _, thing, probabilities in things:
            # A thing that lies open for all is in none of the places.
            cells = map(_cell, probabilities) if any(probabilities) else [Text(" open", "dim")]
            table.add_row(Text(printable_lines(thing)), *cells)
        tables.append(table)
    return Columns(tables, padding=(0, 2, 0, 0))


def _cell(probability: float) -> Text:
    """Return a probability, four columns wide."""
    if probability >= 1:
        return Text("   ●", "bold green")
    if probability <= 0:
        return Text("   –", "dim")
    # Only certain and impossible cells have their own signs, so 0 and 100 are never shown.
    percent = min(99, max(1, round(100 * probability)))
    return Text(f" {SHADES[min(3, int(4 * probability))]}{percent:>2}", "cyan")


def place_labels(places: Sequence[str]) -> list[str]:
    """Return labels of three columns: P0, P1, Env; numbers if these would not be unique."""
    labels = []
    for place in map(printable_lines, places):
        words = place.split()
        initials = "".join(word if word.isdecimal() else word[0] for word in words)
        labels.append((initials if len(words) > 1 else place)[:3])
    return labels if len(set(labels)) == len(labels) else [str(n) for n in range(len(places))]


# Comments


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


def draw_comments(comments: Iterable[CommentJson]) -> Table:
    """Return the comments; the mark of a mistake is legible without colour."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for comment in comments:
        mistake = comment["mistake"]
        author = f"seat {comment['player']}, ply {comment['ply'] + 1}: "
        text = Text.assemble(
            (f"mistake of {author}", "bold red") if mistake else (author, "dim"),
            printable_lines(comment["text"]),
        )
        table.add_row(Text("!", "bold red") if mistake else Text("·", "dim"), text)
    return table


def current_comments(context: PanelContext) -> RenderableType | None:
    """Return the comments of this position, or a remark that they are not complete yet."""
    known = context.analysis.comments.get(context.seat, [])
    current = comments_at(known, context.position)
    # A comment that is visible only later implies that this position is complete.
    later = any(comment["visible_from"] > context.position for comment in known)
    if later or context.seat in context.analysis.summaries:
        return draw_comments(current) if current else None
    return Group(draw_comments(current), hint(COMPUTING))


def comments_panel(context: PanelContext) -> RenderableType:
    """Return all comments until this position, the newest first."""
    known = context.analysis.comments.get(context.seat, [])
    visible = [each for each in known if each["visible_from"] <= context.position]
    mistakes = sum(comment["mistake"] for comment in visible)
    complete = context.seat in context.analysis.summaries
    progress = "" if complete else f" · {COMPUTING}"
    title = heading("Comments so far", f": {len(visible)}, mistakes: {mistakes}{progress}")
    if not visible and complete:
        return Group(title, hint("There are no comments up to this position."))
    newest = sorted(visible, key=lambda comment: comment["ply"])[: -MAX_COMMENTS - 1 : -1]
    earlier = len(visible) - len(newest)
    remark = [hint(f"and {earlier:,} earlier comments")] if earlier else []
    return Group(title, draw_comments(newest), *remark)


# Result


def result_panel(context: PanelContext) -> RenderableType:
    """Return the result; shown at the last position only, because it reveals the end."""
    replay, outcome = context.replay, context.replay.outcome
    if context.position < len(replay.moves):
        return Group(heading("Result"), hint("Shown at the last position: press End"))
    if outcome is None:
        return Group(heading("Result"), hint(printable_lines(replay.notice or "unfinished")))
    title = heading("Result", f": {outcome.status}, {printable_lines(outcome.reason)}")
    summaries = context.analysis.summaries.get(context.seat, [])
    # A game without exact knowledge has no summaries; its returns are still shown.
    players = [summary["player"] for summary in summaries]
    seats = players or range(len(replay.header.players))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in seats:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("", *(heading(f"seat {seat}") for seat in seats))
    table.add_row("return", *(f"{outcome.returns[seat]:g}" for seat in seats))
    for row in _summary_rows(summaries):
        table.add_row(*row)
    parts: list[RenderableType] = [title, table, *_branch_remarks(context)]
    if context.seat not in context.analysis.summaries:
        parts.append(hint(COMPUTING))
    elif summaries:
        parts.append(hint("↑ higher is better   ↓ lower is better"))
    return Group(*parts)


def _branch_remarks(context: PanelContext) -> Iterator[Text]:
    """Yield, for a branch, which plies are not counted and who played them."""
    header = context.replay.header
    if header.first_own_ply:
        yield hint(f"From ply {header.first_own_ply + 1} on; other players made the plies before:")
    for seat in range(len(header.players)):
        for former in former_players(header, seat):
            yield hint(f"seat {seat} was {printable_lines(former.spec)} until ply {former.until}")


def _summary_rows(summaries: Sequence[SeatSummaryJson]) -> Iterator[list[str]]:
    if not summaries:
        return
    yield ["mistakes", *(str(each["mistakes"]) for each in summaries)]
    by_title = [{each["title"]: each for each in summary["measures"]} for summary in summaries]
    measures = {title: measure for own in by_title for title, measure in own.items()}
    for title, measure in measures.items():
        values = [own[title]["value"] if title in own else None for own in by_title]
        yield [printable_lines(title) + ARROWS[measure["better"]], *map(decimal, values)]


# Help


def help_panel(context: PanelContext) -> RenderableType:
    """Return the keys, then the marks: those of the game's own table first."""
    table = draw_tabletop(context.replay.make_game(), (), context.seat)
    marks = {**(table.legend if table else {}), **MARKS}
    return Group(heading("Keys"), _meanings(KEYS), heading("Marks"), _meanings(marks))


def _meanings(meanings: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    # Both tables have the same first column.
    table.add_column(min_width=max(map(len, (*KEYS, *MARKS))))
    for sign, meaning in meanings.items():
        table.add_row(heading(sign), Text(meaning))
    return table
