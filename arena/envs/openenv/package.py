"""A complete package of OpenEnv for one game, from templates and recorded games of bots."""

from __future__ import annotations

import asyncio
import json
import keyword
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.agents.action_tools import action_tools, function_call
from arena.agents.agent import Seat, ask
from arena.agents.seating import bot_names, make_agent
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.version import __version__
from arena.envs.hosting import HostedGame
from arena.envs.templates import filled_templates, write_files
from arena.episodes.measurement import SeatEpisode
from arena.llm.backend import Tool

if TYPE_CHECKING:
    from arena.envs.openenv.server import Scoring

SEAT = 0
"""Seat of the recorded games."""
MAX_SEEDS = 200
"""Seeds that are tried for a game in which the strong bot earns the most and bot:random less."""
DRAWS = 8
"""Games of each seed, with other draws of the bot, for games without a strong bot."""
FLOOR_MARGIN = 0.1
"""OpenEnv's least distance of a random player from the highest reward."""
MAX_PLAN_ACTIONS = 100
"""OpenEnv's limit on the calls of a runtime plan."""


@dataclass(frozen=True, slots=True)
class RecordedGame:
    """The actions of one player in one game, as calls of tools, and its reward."""

    player: str
    """The bot, as a SPEC."""
    seed: int
    seat: int
    actions: list[JsonValue]
    reward: float


def write_package(
    hosted: HostedGame,
    directory: Path,
    name: str = "",
    reward: str = "",
    score: Scoring | None = None,
    bounds: tuple[float, float] | None = None,
) -> list[str]:
    """Write a package into a new folder; return its name and the names of its files.

    Args:
        hosted: The game and its opponents.
        directory: The new folder.
        name: A Python name; by default that of the game.
        reward: NAME=WEIGHT,…, which the server of the package reads again; empty: the game's
            return.
        score: The same as a function.
        bounds: Lowest and highest reward; by default those of the game's return.

    Raises:
        UsageError: The folder exists, or the reward's range is unknown.
        ArenaError: No game shows the highest reward, or the folder cannot be written.
    """
    if directory.exists():
        raise UsageError(f"{directory} exists: name a new folder, nothing is overwritten")
    name = name or f"arena_{re.sub(r'[^a-z0-9]+', '_', hosted.game.name.lower())}"
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--name {name}: it must be a Python name, for example arena_cluedo")
    low_high = _bounds(hosted.game, reward, bounds)
    oracle, floor = _evidence(hosted, score, low_high[1])
    values = _values(hosted, name, reward, low_high, oracle)
    plan = {
        "plan_schema_version": "1",
        "reset": {"episode_id": "validation", "seed": oracle.seed, "options": {"seat": SEAT}},
        "actions": oracle.actions[:MAX_PLAN_ACTIONS],
    }
    contents = filled_templates("arena.envs.openenv", values) | {
        "validation/oracle.json": _json([asdict(oracle)]),
        "validation/canaries.json": _json([asdict(floor)]),
        "validation/runtime.json": _json(plan),
    }
    write_files(directory, contents)
    (directory / "validation/oracle.sh").chmod(0o755)
    return [name, *sorted(contents)]


def _values(
    hosted: HostedGame,
    name: str,
    reward: str,
    bounds: tuple[float, float],
    oracle: RecordedGame,
) -> dict[str, str]:
    """Return the value of each placeholder of the templates."""
    game, tools = hosted.game, action_tools(hosted.game)
    scoring = f"Rewards.parse({reward!r}, GAME).score" if reward else "None"
    return {
        "name": name,
        "project": name.replace("_", "-"),
        "class_name": "".join(word.capitalize() for word in name.split("_")),
        "title": game.name,
        "version": __version__,
        "game": repr(game.name),
        "options": repr(game.options.model_dump(mode="json", exclude_defaults=True)),
        "opponents": repr([*hosted.specs]),
        "opponent_text": ", ".join(dict.fromkeys(hosted.specs)),
        "text_level": repr(hosted.text_level),
        "max_turns": repr(hosted.max_turns),
        "reward_import": "from trainers.rewards import Rewards\n" if reward else "",
        "score": scoring,
        "reward_text": reward or f"the {game.return_scale.name} of the seat",
        "low": repr(float(bounds[0])),
        "high": repr(float(bounds[1])),
        "oracle_spec": oracle.player,
        "oracle_reward": f"{oracle.reward:g}",
        "seed": str(oracle.seed),
        "tools": json.dumps([*(tool.name for tool in tools), "reply"]),
        "tool_table": "\n".join(f"| `{tool.name}` | {_arguments(tool)} |" for tool in tools),
    }


def _bounds(game: Game, reward: str, given: tuple[float, float] | None) -> tuple[float, float]:
    """Return the range of the reward of any step, which is 0 before the end."""
    if given is not None:
        low, high = given
    elif reward or not game.return_scale.is_bounded:
        raise UsageError(
            f"the range of the reward of {game.name} is not known: give --reward-range LOW,HIGH"
        )
    else:
        low, high = game.return_scale.bounds
    if not low < high or high <= 0:
        raise UsageError(
            f"the reward's range {low:g},{high:g}: the highest must be above 0 and LOW"
        )
    return min(low, 0.0), high


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _arguments(tool: Tool) -> str:
    """Return the names of a function's arguments; models in training think in their reply."""
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    return ", ".join(f"`{name}`" for name in properties if name != "thoughts") or "none"


def _evidence(
    hosted: HostedGame, score: Scoring | None, least: float
) -> tuple[RecordedGame, RecordedGame]:
    """Return games of the first seed on which a strong bot earns `least`, and bot:random less.

    Raises ArenaError if there is none among the first `MAX_SEEDS` seeds.
    """
    names = bot_names(hosted.game.name)
    own = [name for name in names if name != "random"] or ["random"]
    strong, best = f"bot:{'oracle' if 'oracle' in names else own[-1]}", -float("inf")
    for number in range(MAX_SEEDS * DRAWS):
        seed, draw = divmod(number, DRAWS)
        oracle = asyncio.run(_record(hosted, score, strong, seed, draw))
        best = max(best, oracle.reward)
        if oracle.reward < least:
            continue
        floor = asyncio.run(_record(hosted, score, "bot:random", seed, DRAWS))
        if floor.reward <= least - FLOOR_MARGIN and oracle.actions and floor.actions:
            return oracle, floor
    raise ArenaError(
        f"in {MAX_SEEDS} deals of {hosted.game.name} {strong} earned at most {best:g}, or "
        f"bot:random as much; the range of the reward promises {least:g}: give another "
        "--reward-range, or other opponents"
    )


async def _record(
    hosted: HostedGame, score: Scoring | None, spec: str, seed: int, draw: int
) -> RecordedGame:
    """Play one game with this bot in the learner's seat, whose own draws depend on `draw`."""
    game, session = hosted.game, hosted.start(seed, [SEAT])
    bot = make_agent(spec, Seat(game, SEAT, stream(seed, f"recorded {draw}"), hosted.text_level))
    calls: list[JsonValue] = []
    while not (turn := await session.turn(SEAT)).is_over:
        action = (await ask(bot, turn.observation)).action
        name, arguments = function_call(action)
        call: dict[str, JsonValue] = {"type": "call_tool", "tool_name": name}
        # Each call is for its decision only.
        calls.append({**call, "arguments": {**arguments}, "metadata": {"turn": turn.number}})
        session.act(SEAT, action)
    reward = session.episode.outcome.returns[SEAT]
    if score is not None:
        reward = score(SeatEpisode(game, session.episode, SEAT)).reward
    return RecordedGame(spec, seed, SEAT, calls, float(reward))
