"""Panels of the terminal viewer: posterior, decision with comments, help."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from arena import Replay
from arena.agents.names import PlayerNames
from arena.core.text import bits_text
from arena.core.view import draw_tabletop
from replays.analysis.documents import AttemptJson, CommentJson, DecisionJson, PosteriorJson
from replays.analysis.posterior import entry_at
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.timeline import players_at
from replays.tui.frame import printable_lines

NO_POSTERIOR = "This game does not compute exact probabilities."
MIN_NAME = 11
"""Columns of a thing's name, at least."""
SHADES = "░▒▓█"
LEGEND = "● certain   – impossible   ░▒▓█ probability in percent"
KEYS = {
    "← →": "previous, next ply; also p and n, Space",
    "PgUp PgDn": "previous, next turn; in other panels they scroll, as ↑ ↓ do",
    "Home End": "first, last position",
    "[ ]": "previous, next move of the focused seat",
    "m M": "next, previous mistake",
    "1 … 9   o": "view of this player; everything open",
    "f": "focus the next seat (with everything open)",
    "t g d": "table, grid (posterior), decision with all comments on it",
    "Esc  ?  q": "back to the table; this help; quit",
}
MARKS = {
    "▶": "must act",
    "░▒▓█ 25": "grid: exact probability given what the seat has seen; percent",
    "5.20 bits": "entropy of the seat's posterior: what it does not know yet",
    "· Ada shows …": "event that only some seats witnessed",
    "!": "mistake: a perfect reasoner in this seat would have known better",
    " ": "(what a move revealed is judged only with everything open)",
}


@dataclass(frozen=True, slots=True)
class PanelContext:
    """A position and a perspective."""

    replay: Replay
    analysis: ReplayAnalysis
    names: PlayerNames
    position: int
    """Number of plies played."""
    seat: int | None
    """The perspective; None: everything is open."""
    focus: int
    """The seat whose facts are shown; equal to the perspective, if there is one."""

    @property
    def comments(self) -> list[CommentJson]:
        """The comments of the perspective that are visible at the position."""
        every = self.analysis.comments(self.seat)
        return [comment for comment in every if comment["visible_from"] <= self.position]


def heading(title: str, detail: str = "") -> Text:
    """Return a bold title with a dim detail."""
    return Text.assemble((title, "bold"), (detail, "dim"))


def hint(text: str) -> Text:
    """Return a remark in dim italics."""
    return Text(text, style="dim italic")


# Posterior


def grid_panel(context: PanelContext) -> RenderableType:
    """Return the posterior of the focused seat at this position."""
    posterior = context.analysis.posterior(context.focus)
    focus_hint = "   f: another seat" if context.seat is None else ""
    title = f"Posterior of {context.names.of(context.focus)}"
    if posterior is None:
        return Group(heading(title), hint(NO_POSTERIOR + focus_hint))
    entry, places = entry_at(posterior, context.position), posterior["places"]
    # A count of worlds may have hundreds of digits.
    form = "," if len(entry["worlds"]) < 13 else ".2e"
    worlds = format(Decimal(entry["worlds"]), form)
    detail = f" · entropy {bits_text(entry['bits'])} · possible worlds: {worlds}"
    if entry["grid"] is None or not places:
        return Group(heading(title, detail), hint(focus_hint.strip()))
    named = [printable_lines(context.names.text(place)) for place in places]
    labels = place_labels(named)
    meanings = [" ".join(pair) for pair in zip(labels, named, strict=True)]
    legend = hint("   ".join([*meanings, LEGEND + focus_hint]))
    return Group(heading(title, detail), _draw_grid(posterior, entry["grid"], labels), legend)


def _draw_grid(
    posterior: PosteriorJson, grid: list[list[float]], labels: Sequence[str]
) -> RenderableType:
    """Return a table for each kind of things, as many beside each other as fit."""
    longest = max(map(len, (*posterior["things"], *posterior["kinds"])))
    # Two tables fit into 80 columns; a cell has 4.
    name_width = min(longest, max(MIN_NAME, 39 - 4 * len(labels)))
    # The last things of the list have no row while they are not in the game.
    rows = zip(posterior["kinds"], posterior["things"], grid, strict=False)
    tables = []
    for kind, things in groupby(rows, key=lambda row: row[0]):
        table = Table.grid()
        table.add_column(no_wrap=True, width=name_width)
        table.add_row(*map(heading, (printable_lines(kind), *(f" {each:>3}" for each in labels))))
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
    return labels if len(set(labels)) == len(labels) else [str(n + 1) for n in range(len(places))]


# Comments


def comments_at(comments: Iterable[CommentJson], position: int) -> list[CommentJson]:
    """Return the comments that judge the last ply, or have just become visible.

    Mistakes come first, because there may be room for a few lines only.
    """
    current = [
        comment for comment in comments if position in (comment["ply"] + 1, comment["visible_from"])
    ]
    return sorted(current, key=lambda comment: (not comment["mistake"], comment["ply"]))


def draw_comments(comments: Iterable[CommentJson], names: PlayerNames) -> Table:
    """Return the comments; the mark of a mistake is legible without colour."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for comment in comments:
        mistake = comment["mistake"]
        author = f"{names.of(comment['player'])}, ply {comment['ply'] + 1}: "
        text = Text.assemble(
            (f"mistake of {author}", "bold red") if mistake else (author, "dim"),
            printable_lines(names.text(comment["text"])),
        )
        table.add_row(Text("!", "bold red") if mistake else Text("·", "dim"), text)
    return table


# Decision


def decision_panel(context: PanelContext) -> RenderableType:
    """Return the decision of the ply that led to this position."""
    if context.position == 0:
        return hint("The game has not started.")
    decision = context.analysis.decision(context.position - 1, context.seat)
    if decision is not None:
        found = comments_at(context.comments, context.position)
        comments = draw_comments(found, context.names)
        return Group(comments, *_decision_parts(context, decision))
    if context.seat is None:
        return hint(f"A chance move. ]: the next move of {context.names.of(context.focus)}")
    return hint(f"This was not a move of {context.names.of(context.seat)}. ]: the next move")


def _decision_parts(context: PanelContext, decision: DecisionJson) -> Iterator[RenderableType]:
    player, choices = decision["player"], len(decision["legal"]) + decision["more_legal"]
    spec = players_at(context.replay.header, decision["ply"])[player].removeprefix("bot:")
    name, action = context.names.of(player), context.names.text(decision["action"])
    seconds = "" if decision["seconds"] is None else f" · {decision['seconds']:.2f} s"
    yield heading(
        printable_lines(f"Ply {decision['ply'] + 1}, {name} ({spec}): {action}"),
        f" · one of {choices:,} legal actions{seconds}",
    )
    if decision["failure"] is not None:
        failure = printable_lines(f"! a fallback was played: {decision['failure']}")
        yield Text(failure, style="bold red")
    attempts = decision["attempts"]
    if not attempts:
        yield hint("There is no record of a request to a model.")
    for number, attempt in enumerate(attempts, start=1):
        yield from _draw_attempt(attempt, f"Attempt {number} of {len(attempts)}")
    if decision["more_attempts"]:
        yield hint(f"and {decision['more_attempts']:,} more attempts")
    if decision["other"]:
        yield Text("\nOther details:", style="bold dim")
        yield Text(printable_lines(json.dumps(decision["other"], ensure_ascii=False, indent=1)))


def _draw_attempt(attempt: AttemptJson, title: str) -> Iterator[RenderableType]:
    failure, cost = attempt["failure"], attempt["cost"]
    style = "bold" if failure is None else "bold red"
    result = ": accepted" if failure is None else f": {printable_lines(failure)}"
    yield Text(f"\n{'' if failure is None else '! '}{title}{result}", style=style)
    figures = (
        printable_lines(attempt["model"]) or "unnamed model",
        f"{attempt['prompt_tokens']:,} tokens in, {attempt['completion_tokens']:,} out",
        "cost unknown" if cost is None else f"${cost:.6f}",
        f"{attempt['seconds']:.2f} s",
    )
    yield Text(" · ".join(figures), style="dim")
    if attempt["excerpt"]:
        yield Text(f"Failed at: {printable_lines(attempt['excerpt'])}")
    new = [message for message in attempt["messages"] if not message["sent_before"]]
    prompts = {f"Prompt, {each['role']}": each["text"] for each in new}
    # In the order in which a model produces them; an empty reply is shown as well.
    texts = {"Reasoning": attempt["reasoning"], "Reply": attempt["reply"]}
    for name, text in {**prompts, **texts, "Refusal": attempt["refusal"]}.items():
        if text.strip() or name == "Reply":
            yield Text(f"{printable_lines(name)}:", style="bold dim")
            yield Padding(Text(printable_lines(text.strip("\n") or "(empty)")), (0, 0, 0, 2))


# Help


def help_panel(context: PanelContext) -> RenderableType:
    """Return the keys, then the marks: those of the game's own table first."""
    tabletop = draw_tabletop(context.replay.make_game(), (), context.seat)
    table = Table.grid(padding=(0, 2, 0, 0))
    for sign, meaning in {**KEYS, **(tabletop.legend if tabletop else {}), **MARKS}.items():
        table.add_row(heading(sign), Text(meaning))
    return Group(heading("Keys and marks"), table)
