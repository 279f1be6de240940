"""arena: language models play, are measured at, and are trained on games that hide things.

    import arena

    game = arena.make_game("cluedo", players=3)
    match = arena.Match(game, ["bot:oracle", "bot:detective", "bot:novice"], seed=7)
    episode = await arena.play(match)

Names are imported when they are first used, so that `import arena` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arena.core.version import __version__
from arena.envs.registration import register_when_gymnasium_is_imported

if TYPE_CHECKING:
    from arena.agents.agent import Agent as Agent
    from arena.agents.agent import Seat as Seat
    from arena.agents.prompt import Chat as Chat
    from arena.agents.prompt import ChatOptions as ChatOptions
    from arena.agents.reply.reader import read_reply as read_reply
    from arena.agents.seating import make_agent as make_agent
    from arena.core.action import CHANCE as CHANCE
    from arena.core.action import Action as Action
    from arena.core.action import ActionSet as ActionSet
    from arena.core.action import Step as Step
    from arena.core.action import normalise as normalise
    from arena.core.assessment import Assessment as Assessment
    from arena.core.assessment import Assessor as Assessor
    from arena.core.assessment import Comment as Comment
    from arena.core.assessment import Measure as Measure
    from arena.core.assessment import WeightedSum as WeightedSum
    from arena.core.errors import ActionError as ActionError
    from arena.core.errors import AmbiguousAction as AmbiguousAction
    from arena.core.errors import ArenaError as ArenaError
    from arena.core.errors import BackendError as BackendError
    from arena.core.errors import ContextOverflow as ContextOverflow
    from arena.core.errors import IllegalAction as IllegalAction
    from arena.core.errors import InvalidAction as InvalidAction
    from arena.core.errors import StopPlaying as StopPlaying
    from arena.core.errors import UsageError as UsageError
    from arena.core.event import Event as Event
    from arena.core.game import ChanceOutcome as ChanceOutcome
    from arena.core.game import Game as Game
    from arena.core.game import GameOptions as GameOptions
    from arena.core.game import State as State
    from arena.core.knowledge import Knowledge as Knowledge
    from arena.core.knowledge import PlacedKnowledge as PlacedKnowledge
    from arena.core.knowledge import Placement as Placement
    from arena.core.observation import ArraySpec as ArraySpec
    from arena.core.observation import Notes as Notes
    from arena.core.observation import Observation as Observation
    from arena.core.observation import TextLevel as TextLevel
    from arena.core.outcome import Outcome as Outcome
    from arena.core.ply import Decision as Decision
    from arena.core.ply import Ply as Ply
    from arena.core.view import Picture as Picture
    from arena.core.view import Scene as Scene
    from arena.envs.multi_agent import MultiAgentEnv as MultiAgentEnv
    from arena.envs.pettingzoo import to_parallel_pettingzoo as to_parallel_pettingzoo
    from arena.envs.pettingzoo import to_pettingzoo as to_pettingzoo
    from arena.envs.wrappers import FlatActionMaskEnv as FlatActionMaskEnv
    from arena.episodes.match import Match as Match
    from arena.episodes.record import Episode as Episode
    from arena.episodes.record import Header as Header
    from arena.episodes.replay import Replay as Replay
    from arena.episodes.replay import read_replay as read_replay
    from arena.episodes.replay_writer import ReplayWriter as ReplayWriter
    from arena.episodes.runner import Watcher as Watcher
    from arena.episodes.runner import play as play
    from arena.episodes.runner import play_many as play_many
    from arena.episodes.verify import verify as verify
    from arena.llm.backend import Backend as Backend
    from arena.llm.backend import Choice as Choice
    from arena.llm.backend import Completion as Completion
    from arena.llm.backend import Message as Message
    from arena.llm.backend import Request as Request
    from arena.llm.backend import Sampling as Sampling
    from arena.llm.backend import Token as Token
    from arena.llm.backend import Usage as Usage
    from arena.llm.service import LLMService as LLMService
    from arena.llm.settings import Settings as Settings
    from arena.plugins.catalog import Catalog as Catalog
    from arena.plugins.loader import catalog as catalog
    from arena.plugins.loader import make_game as make_game

_HOME = {
    "agents.agent": (
        "Agent",
        "Seat",
    ),
    "agents.prompt": (
        "Chat",
        "ChatOptions",
    ),
    "agents.reply.reader": ("read_reply",),
    "agents.seating": ("make_agent",),
    "core.action": (
        "CHANCE",
        "Action",
        "ActionSet",
        "Step",
        "normalise",
    ),
    "core.assessment": (
        "Assessment",
        "Assessor",
        "Comment",
        "Measure",
        "WeightedSum",
    ),
    "core.errors": (
        "ActionError",
        "AmbiguousAction",
        "ArenaError",
        "BackendError",
        "ContextOverflow",
        "IllegalAction",
        "InvalidAction",
        "StopPlaying",
        "UsageError",
    ),
    "core.event": ("Event",),
    "core.game": (
        "ChanceOutcome",
        "Game",
        "GameOptions",
        "State",
    ),
    "core.knowledge": (
        "Knowledge",
        "PlacedKnowledge",
        "Placement",
    ),
    "core.observation": (
        "ArraySpec",
        "Notes",
        "Observation",
        "TextLevel",
    ),
    "core.outcome": ("Outcome",),
    "core.ply": (
        "Decision",
        "Ply",
    ),
    "core.view": (
        "Picture",
        "Scene",
    ),
    "envs.multi_agent": ("MultiAgentEnv",),
    "envs.pettingzoo": (
        "to_parallel_pettingzoo",
        "to_pettingzoo",
    ),
    "envs.wrappers": ("FlatActionMaskEnv",),
    "episodes.match": ("Match",),
    "episodes.record": (
        "Episode",
        "Header",
    ),
    "episodes.replay": (
        "Replay",
        "read_replay",
    ),
    "episodes.replay_writer": ("ReplayWriter",),
    "episodes.runner": (
        "Watcher",
        "play",
        "play_many",
    ),
    "episodes.verify": ("verify",),
    "llm.backend": (
        "Backend",
        "Choice",
        "Completion",
        "Message",
        "Request",
        "Sampling",
        "Token",
        "Usage",
    ),
    "llm.service": ("LLMService",),
    "llm.settings": ("Settings",),
    "plugins.catalog": ("Catalog",),
    "plugins.loader": (
        "catalog",
        "make_game",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604 - the names are strings, from one place.


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'arena' has no attribute '{name}'")
    value = getattr(import_module(f"arena.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_gymnasium_is_imported()
