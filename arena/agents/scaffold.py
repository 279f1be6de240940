"""Scaffolds: the text level and the notes of its own that a model has beside its chat.

A SPEC names the scaffold, `MODEL+notes`, so replays and results hold it. Models with "scratchpad"
may write a block `<notes>…</notes>` in a reply; it replaces the one before and is shown again
whenever the chat is rebuilt.
"""

from __future__ import annotations

from arena.agents.agent import Seat
from arena.agents.notebook import LONGEST_NOTES
from arena.core.errors import UsageError
from arena.core.observation import TextLevel
from arena.core.spec import Scaffold, Spec

INSTRUCTION = (
    "You may keep notes: write <notes>…</notes> before your action. The newest block replaces the "
    f"one before, up to {LONGEST_NOTES} characters, and you can read it at later decisions, even "
    "when your replies are left out."
)
"""Part of the system message of a model with a scratchpad."""


def text_level_of(spec: str, default: TextLevel) -> TextLevel:
    """Return the text level of a SPEC's scaffold; `default` without one."""
    match Spec.parse(spec).scaffold:
        case "notes" | "deductions" as level:
            return level
        case None:
            return default
        case _:
            return "events"


def check_scaffold(scaffold: Scaffold | None, seat: Seat) -> None:
    """Raise UsageError for a scaffold that has no effect, with guided replies."""
    if scaffold == "scratchpad" and seat.models.guided:
        raise UsageError(
            f"seat {seat.player}: guided replies hold a legal action and nothing else, so the "
            f"scaffold '{scaffold}' has no effect; use --free"
        )
