"""Scaffolds: the text level, the notes of its own and the tools that a model has beside its chat.

A SPEC names the scaffold, `MODEL+tools`, so replays and results hold it. Models with "scratchpad"
may write a block `<notes>…</notes>` in a reply; it replaces the one before and is shown again
whenever the chat is rebuilt. With "memory" it is shown at the beginning of the next game, too (see
`arena.episodes.memory`). Models with "tools" may end a reply with a call instead of an action:

    Call: posterior
    Call: consequences suggest Mrs White, Rope, Hall

With answers of the form "tools", these are functions like those of the actions. A tool computes
only with the events that its own seat has witnessed, so it reveals nothing hidden.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from arena.agents.agent import Seat
from arena.agents.chat import AnswerForm
from arena.core.analysis import PlacedKnowledge
from arena.core.errors import ActionError, UsageError
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.spec import Scaffold, Spec
from arena.core.text import bits_text, percentage, pluralize, read_value, shorten
from arena.llm.backend import Tool

MOST_CALLS = 3
"""Calls of tools before one decision."""
MOST_LISTED = 6
"""Actions of each kind of which one answer lists the consequences."""
LONGEST_NOTES = 2000
"""Characters of a model's own notes that are kept."""

OWN_NOTES: tuple[Scaffold, ...] = ("scratchpad", "memory")
"""Scaffolds with notes of the model's own."""
POSTERIOR, CONSEQUENCES = "posterior", "consequences"
_ABOUT = {
    POSTERIOR: "the exact probability of each hidden fact, by what you have seen",
    CONSEQUENCES: "what an action can give you, by what you have seen; without ACTION, the best "
    "of each kind",
}


def _function(name: str, *fields: str) -> Tool:
    properties: dict[str, JsonValue] = {field: {"type": "string"} for field in fields}
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    schema |= {"required": [*fields], "additionalProperties": False}
    return Tool(name, f"Ask, without acting: {_ABOUT[name]}.", schema)


FUNCTIONS = (_function(POSTERIOR), _function(CONSEQUENCES, "ACTION"))
"""The tools as functions, for answers of the form "tools"."""

_NOTES = re.compile(r"<notes>(.*?)</notes>", re.DOTALL | re.IGNORECASE)
_CALL = re.compile(
    rf"(?:^|[\n\"])[ \t*`]*Call:[ \t*`]*({POSTERIOR}|{CONSEQUENCES})\b"
    # Bounded, so that no reply makes the search slow.
    r"[ \t(*`]{0,9}([^\n\"]{0,200}?)[\s.)*`\"}]{0,9}$",
    re.IGNORECASE,
)
"""A call at the end of a reply, in a line of its own or as a value of JSON."""


def text_level_of(spec: str, default: TextLevel) -> TextLevel:
    """Return the text level of a SPEC's scaffold; `default` without one."""
    match Spec.parse(spec).scaffold:
        case "notes" | "deductions" as level:
            return level
        case None:
            return default
        case _:
            return "events"


def instruction(scaffold: Scaffold | None, answers: AnswerForm) -> str:
    """Return what the system message adds for a scaffold; empty for one without a form."""
    if scaffold in OWN_NOTES:
        more = " You also get it at the beginning of your next game." * (scaffold == "memory")
        return (
            "You may keep notes: write <notes>…</notes> before your action. The newest block "
            f"replaces the one before, up to {LONGEST_NOTES} characters, and you can read it at "
            f"later decisions, even when your replies are left out.{more}"
        )
    if scaffold != "tools":
        return ""
    limit = f"Before each decision you may ask {MOST_CALLS} times at most"
    if answers == "tools":
        return f"{limit}, with the functions {POSTERIOR} and {CONSEQUENCES}. Then act."
    where = "in place of the action" if answers == "json" else "as the last line, without an action"
    return (
        f"{limit}: write one of these {where}, and read the answer before you act.\n"
        f"Call: {POSTERIOR} ({_ABOUT[POSTERIOR]})\n"
        f"Call: {CONSEQUENCES} ACTION ({_ABOUT[CONSEQUENCES]})"
    )


def own_notes(reply: str) -> str | None:
    """Return the newest notes of a reply, cut to the length that is kept; None without notes."""
    blocks = _NOTES.findall(reply)
    return blocks[-1].strip()[:LONGEST_NOTES] if blocks else None


@dataclass(frozen=True, slots=True)
class ScaffoldCall:
    """Call of a tool, instead of an action."""

    name: str
    action: str = ""
    """The action that is asked about; empty for all."""

    def __str__(self) -> str:
        return f"{self.name} {self.action}".rstrip()


def find_call(reply: str) -> ScaffoldCall | None:
    """Return the call of a tool at the end of a reply; None if it ends otherwise."""
    if marked := _CALL.search(reply.rstrip()):
        return ScaffoldCall(marked[1].casefold(), marked[2].strip())
    # A backend adds the call of a function to the text, as the last JSON object.
    start = reply.rfind('{"name"')
    call = read_value(reply[start:]) if start >= 0 else None
    if not isinstance(call, dict) or call.get("name") not in (POSTERIOR, CONSEQUENCES):
        return None
    arguments = call.get("arguments")
    action = arguments.get("ACTION") if isinstance(arguments, dict) else None
    return ScaffoldCall(str(call["name"]), str(action or "").strip())


def make_tools(scaffold: Scaffold | None, seat: Seat) -> SeatTools | None:
    """Return the tools of a seat with such a scaffold.

    Raises UsageError for a scaffold that has no effect, with guided replies.
    """
    if scaffold in ("tools", *OWN_NOTES) and seat.models.guided:
        raise UsageError(
            f"seat {seat.player}: guided replies hold a legal action and nothing else, so the "
            f"scaffold '{scaffold}' has no effect; use --free"
        )
    return SeatTools(seat.game, seat.player) if scaffold == "tools" else None


class SeatTools:
    """Tools of one seat: they compute with the events that the seat has witnessed."""

    def __init__(self, game: Game, player: int) -> None:
        """Raises UsageError for a game without exact knowledge."""
        knowledge = game.analysis.knowledge(player)
        if not isinstance(knowledge, PlacedKnowledge):
            raise UsageError(
                f"seat {player}: the scaffold 'tools' needs exact knowledge, which {game.name} "
                "does not compute; use +none, +notes or +scratchpad"
            )
        self._game = game
        self._knowledge = knowledge
        self._read = 0

    def answer(self, call: ScaffoldCall, observation: Observation, left: int) -> str:
        """Return the answer to a call, and how many are `left`."""
        for event in observation.events_since(self._read):
            self._knowledge.update(event)
        self._read = observation.num_events
        if call.name == POSTERIOR:
            lines = list(self._posterior())
        else:
            lines = list(self._consequences(call.action, observation))
        lines.append(f"You may ask {pluralize(left, 'more time')}, or act." if left else "Now act.")
        return "\n".join(lines)

    def _posterior(self) -> Iterator[str]:
        """Yield the places of all hidden things, with a line for those that are equally likely."""
        placement = self._knowledge.placement()
        yield f"What you cannot know yet: {bits_text(max(0.0, self._knowledge.entropy()))}."
        lines: dict[tuple[str, str], list[str]] = defaultdict(list)
        for thing, kind, row in zip(
            placement.things, placement.kinds, placement.probabilities, strict=False
        ):
            # Rounded, so that a sum of floats that is certain reads so.
            shares = zip(placement.places, (round(share, 9) for share in row), strict=True)
            where = ", ".join(f"{place} {percentage(share)}" for place, share in shares if share)
            if where:
                lines[kind, where].append(thing)
        heading = ""
        for (kind, where), alike in lines.items():
            if kind != heading:
                heading = kind
                yield f"{kind}:"
            yield f"- {', '.join(alike)}: {where}"

    def _consequences(self, text: str, observation: Observation) -> Iterator[str]:
        actions = list(observation.legal_actions)
        if text:
            try:
                actions = [observation.parse(text)]
            except ActionError as error:
                yield f"No consequences of '{shorten(text, 60)}': {error}"
                return
        listed = Counter[str]()
        found = self._game.analysis.consequences(self._knowledge, actions)
        for action, consequence in found.items():
            kind = type(action).__name__
            listed[kind] += 1
            if listed[kind] <= MOST_LISTED:
                yield f"- {action}: {consequence}"
        if not listed:
            yield "Nothing is computed about the consequences of this."
