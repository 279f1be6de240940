"""Advice to a person in play: a strong move, from what the person's seat knows.

It counts as help: the replay says for which decision it was asked.
"""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, field

from pydantic import JsonValue

from arena.agents.agent import Seat, act_now
from arena.agents.names import display_names
from arena.agents.seating import level_bot, make_agent
from arena.core.action import Action
from arena.core.analysis import Knowledge
from arena.core.game import Game
from arena.core.observation import Observation
from replays.web.play.documents import HELP_LEVELS, Help, HintJson


@dataclass
class UsedHelp:
    """Help that a person has used since its last decision, for the replay."""

    level: Help = "none"
    """The highest level that was open."""
    advice: dict[str, JsonValue] = field(default_factory=dict)

    def show(self, level: Help) -> None:
        """Add a level of help that is open now."""
        self.level = max(self.level, level, key=HELP_LEVELS.index)

    def take(self, shown: Help) -> dict[str, JsonValue]:
        """Return the details of a decision, and begin the next one with the level that is open."""
        details = self.advice | ({} if self.level == "none" else {"help": self.level})
        self.level, self.advice = shown, {}
        return details


def gives_advice(game: Game) -> bool:
    """Return whether the game has a bot whose moves are worth a look."""
    return level_bot(game, "strong") != "bot:random"


def strong_move(game: Game, spec: str, observation: Observation) -> Action:
    """Return the move of the bot that advises, which knows what this seat knows.

    It may take seconds. Raises ArenaError if the bot fails.
    """
    # A copy, since the notes of an observation grow while the game goes on in another thread.
    seen: Observation = pickle.loads(pickle.dumps(observation))
    rng = random.Random(observation.num_events)  # The same question has the same answer.
    bot = make_agent(spec, Seat(game, observation.player, rng))
    return act_now(bot, seen).action


def hint_json(game: Game, spec: str, action: Action, knowledge: Knowledge | None) -> HintJson:
    """Return a move with what follows from it, as far as the game says that."""
    known = {} if knowledge is None else game.analysis.consequences(knowledge, [action])
    [player] = display_names([spec])
    return {"player": player, "action": str(action), "why": known.get(action, "")}
