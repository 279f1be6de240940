"""What a game adds to the prompts of models: examples, and moves that decide a whole turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from arena.core.action import Action
from arena.core.observation import Observation


@dataclass(frozen=True, slots=True)
class PromptExample:
    """A decision of a good player."""

    observation: Observation
    action: Action


@dataclass(frozen=True, slots=True)
class CombinedMove:
    """Move that decides the rest of the turn, too: a model is asked once instead of twice.

    The announced action is played at the next decision without asking.
    """

    instruction: str
    """Sentence of the system message."""
    pattern: re.Pattern[str]
    """The announcement: the end of a reply, behind the action. Its first group is passed on."""
    follow_up: Callable[[Observation, str], Action | None]
    """Returns the announced action from the observation of the next decision and the announcement;
    None if the situation is another one."""

    def split(self, reply: str) -> tuple[str, str]:
        """Return the reply without the announcement, and the announcement; "" if there is none."""
        found = self.pattern.search(reply)
        if found is None:
            return reply, ""
        return reply[: found.start()] + reply[found.end(1) :], found[1]
