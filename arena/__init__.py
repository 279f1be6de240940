"""arena: language models play, are measured at, and are trained on games that hide things.

    import arena

    game = arena.make_game("cluedo", players=3)
    agents = arena.seat_agents(game, ["bot:oracle", "bot:detective", "bot:novice"], seed=7)
    episode = await arena.play(game, agents, seed=7)

Names are imported when they are first used, so that `import arena` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arena.gym_registration import register_when_gymnasium_is_imported
from arena.version import __version__

if TYPE_CHECKING:
    from arena.action import CHANCE as CHANCE
    from arena.action import Action as Action
    from arena.action import ActionSet as ActionSet
    from arena.action import Step as Step
    from arena.action import normalise as normalise
    from arena.agent import Agent as Agent
    from arena.agent import Decision as Decision
    from arena.agent import Seat as Seat
    from arena.agent import make_agent as make_agent
    from arena.assessment import Assessment as Assessment
    from arena.assessment import Assessor as Assessor
    from arena.assessment import Comment as Comment
    from arena.assessment import Measure as Measure
    from arena.assessment import Share as Share
    from arena.backend import Backend as Backend
    from arena.backend import Choice as Choice
    from arena.backend import Completion as Completion
    from arena.backend import Message as Message
    from arena.backend import Request as Request
    from arena.backend import Sampling as Sampling
    from arena.backend import Token as Token
    from arena.backend import Usage as Usage
    from arena.env import MultiAgentEnv as MultiAgentEnv
    from arena.episode import Episode as Episode
    from arena.episode import Header as Header
    from arena.episode import Ply as Ply
    from arena.episode import ReplayWriter as ReplayWriter
    from arena.errors import ActionError as ActionError
    from arena.errors import AmbiguousAction as AmbiguousAction
    from arena.errors import ArenaError as ArenaError
    from arena.errors import BackendError as BackendError
    from arena.errors import ContextOverflow as ContextOverflow
    from arena.errors import IllegalAction as IllegalAction
    from arena.errors import InvalidAction as InvalidAction
    from arena.errors import StopPlaying as StopPlaying
    from arena.errors import UsageError as UsageError
    from arena.game import ChanceOutcome as ChanceOutcome
    from arena.game import Game as Game
    from arena.game import GameOptions as GameOptions
    from arena.game import Outcome as Outcome
    from arena.game import State as State
    from arena.observation import ArraySpec as ArraySpec
    from arena.observation import Event as Event
    from arena.observation import Json as Json
    from arena.observation import Knowledge as Knowledge
    from arena.observation import Notes as Notes
    from arena.observation import Observation as Observation
    from arena.observation import PlacedKnowledge as PlacedKnowledge
    from arena.observation import Placement as Placement
    from arena.observation import TextLevel as TextLevel
    from arena.pettingzoo import to_pettingzoo as to_pettingzoo
    from arena.picture import Picture as Picture
    from arena.playing import Watcher as Watcher
    from arena.playing import play as play
    from arena.playing import play_many as play_many
    from arena.playing import seat_agents as seat_agents
    from arena.prompt import Chat as Chat
    from arena.prompt import ChatOptions as ChatOptions
    from arena.registry import Catalog as Catalog
    from arena.registry import catalog as catalog
    from arena.registry import make_game as make_game
    from arena.replay import Replay as Replay
    from arena.replay import read_replay as read_replay
    from arena.replay import verify as verify
    from arena.reply import read_reply as read_reply
    from arena.scene import Scene as Scene
    from arena.service import LLMService as LLMService
    from arena.settings import Settings as Settings

_HOME = {
    "action": ("CHANCE", "Action", "ActionSet", "Step", "normalise"),
    "assessment": ("Assessment", "Assessor", "Comment", "Measure", "Share"),
    "agent": ("Agent", "Decision", "Seat", "make_agent"),
    "backend": (
        "Backend",
        "Choice",
        "Completion",
        "Message",
        "Request",
        "Sampling",
        "Token",
        "Usage",
    ),
    "env": ("MultiAgentEnv",),
    "episode": ("Episode", "Header", "Ply", "ReplayWriter"),
    "errors": (
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
    "game": ("ChanceOutcome", "Game", "GameOptions", "Outcome", "State"),
    "observation": (
        "ArraySpec",
        "Event",
        "Json",
        "Knowledge",
        "Notes",
        "Observation",
        "PlacedKnowledge",
        "Placement",
        "TextLevel",
    ),
    "pettingzoo": ("to_pettingzoo",),
    "picture": ("Picture",),
    "playing": ("Watcher", "play", "play_many", "seat_agents"),
    "prompt": ("Chat", "ChatOptions"),
    "registry": ("Catalog", "catalog", "make_game"),
    "replay": ("Replay", "read_replay", "verify"),
    "reply": ("read_reply",),
    "scene": ("Scene",),
    "service": ("LLMService",),
    "settings": ("Settings",),
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
