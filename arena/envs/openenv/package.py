"""A complete package of OpenEnv for one game, from templates and recorded games of bots."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from arena.agents.action_tools import action_tools
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.version import __version__
from arena.envs.hosting import HostedGame
from arena.envs.recorded import Evidence, check_bots, find_evidence
from arena.envs.templates import filled_templates, write_files
from arena.llm.backend import Tool

FLOOR_MARGIN = 0.1
"""OpenEnv's least distance of a random player from the highest reward."""
MAX_PLAN_ACTIONS = 100
"""OpenEnv's limit on the calls of a runtime plan."""


@dataclass(frozen=True, slots=True)
class PackageOptions:
    """The name of a package, and the reward as text, which its server reads again."""

    name: str = ""
    """A Python name; by default that of the game."""
    reward: str = ""
    """Description of the reward, NAME=WEIGHT,…; empty for the game's return."""
    scoring: tuple[str, str] = ("", "")
    """Source of the reward in the server: the line that imports it, and the `Scoring`."""
    reward_range: tuple[float, float] | None = None
    """Lowest and highest reward; by default those of the game's return."""


@dataclass(frozen=True, slots=True)
class WrittenPackage:
    """The name of a package, its files, and the seed of its recorded games."""

    name: str
    files: list[str]
    seed: int


def write_package(hosted: HostedGame, directory: Path, options: PackageOptions) -> WrittenPackage:
    """Write a package into a new folder.

    Raises:
        UsageError: The folder exists, an opponent is not a bot, or the reward's range is unknown.
        ArenaError: No game shows the highest reward, or the folder cannot be written.
    """
    if directory.exists():
        raise UsageError(f"{directory} exists: name a new folder, nothing is overwritten")
    check_bots(hosted.specs, "a package")
    name = options.name or f"arena_{re.sub(r'[^a-z0-9]+', '_', hosted.game.name.lower())}"
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--name {name}: it must be a Python name, for example arena_cluedo")
    low, high = _reward_range(hosted.game, options)
    evidence = find_evidence(hosted, high, FLOOR_MARGIN)
    values = _values(hosted, name, options, (low, high), evidence)
    contents = filled_templates("arena.envs.openenv", values) | _recordings(evidence)
    write_files(directory, contents)
    (directory / "validation/oracle.sh").chmod(0o755)
    return WrittenPackage(name, sorted(contents), evidence.oracle.seed)


def _reward_range(game: Game, options: PackageOptions) -> tuple[float, float]:
    """Return the range of the reward of any step, which is 0 before the end."""
    if options.reward_range is not None:
        low, high = options.reward_range
    elif options.reward or not game.return_scale.is_bounded:
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


def _recordings(evidence: Evidence) -> dict[str, str]:
    """Return the recorded games, and the plan that OpenEnv's validator follows."""
    oracle = evidence.oracle
    plan = {
        "plan_schema_version": "1",
        "reset": {"episode_id": "validation", "seed": oracle.seed, "options": {"seat": 0}},
        "actions": oracle.calls[:MAX_PLAN_ACTIONS],
    }
    return {
        "validation/oracle.json": _json([oracle.to_json()]),
        "validation/canaries.json": _json([evidence.floor.to_json()]),
        "validation/runtime.json": _json(plan),
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _values(
    hosted: HostedGame,
    name: str,
    options: PackageOptions,
    bounds: tuple[float, float],
    evidence: Evidence,
) -> dict[str, str]:
    """Return the value of each placeholder of the templates."""
    game, tools = hosted.game, action_tools(hosted.game)
    functions = [*map(_function_name, tools), "reply"]
    import_line, scoring = options.scoring
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
        "reward_import": f"{import_line}\n" if import_line else "",
        "score": f"    score={scoring},\n" if scoring else "",
        "reward_text": options.reward or f"the {game.return_scale.name} of the seat",
        "low": repr(float(bounds[0])),
        "high": repr(float(bounds[1])),
        "oracle_tolerance": "0.0",
        "oracle": "    oracle:\n      form: script\n      location: validation/oracle.sh\n",
        "oracle_spec": evidence.oracle.player,
        "oracle_reward": f"{evidence.oracle.reward:g}",
        "seed": str(evidence.oracle.seed),
        "tools": json.dumps([*(tool.name for tool in tools), "reply"]),
        "tool_table": "\n".join(f"| `{each.name}` | {_arguments(each)} |" for each in tools)
        + "\n| `reply` | `text`: an answer in words, from which the action is read |",
        "exports": json.dumps(["GameObservation", "GameState", *functions], indent=4),
        "actions": "\n\n".join([*map(_function, tools), REPLY_FUNCTION]),
        "first_function": functions[0],
    }


REPLY_FUNCTION = '''def reply(text: str, turn: int | None = None) -> CallToolAction:
    """Answer in words; the action is read from the text."""
    return call("reply", turn, text=text)
'''


def _fields(tool: Tool) -> dict[str, list[str]]:
    """Return the values that each argument may have; none for any text."""
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    found: dict[str, list[str]] = {}
    for name, field in properties.items():
        if name != "thoughts" and isinstance(field, dict):
            values = field.get("enum", [])
            found[name] = [str(value) for value in values] if isinstance(values, list) else []
    return found


def _arguments(tool: Tool) -> str:
    return ", ".join(f"`{name}`" for name in _fields(tool)) or "none"


def _function_name(tool: Tool) -> str:
    """Return the name in Python's spelling: `end_turn`, `pass_`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", tool.name).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def _function(tool: Tool) -> str:
    """Return the source of the function of one kind of action."""
    fields = _fields(tool)
    parameters = [f"    {name}: {_type(values)},\n" for name, values in fields.items()]
    given = "".join(f", {name}={name}" for name in fields)
    return (
        f"def {_function_name(tool)}(\n{''.join(parameters)}    turn: int | None = None,\n"
        f') -> CallToolAction:\n    """{tool.description}"""\n'
        f'    return call("{tool.name}", turn{given})\n'
    )


def _type(values: list[str]) -> str:
    """Return the type of an argument in Python."""
    if not values:
        return "str"
    lines = textwrap.wrap(", ".join(json.dumps(value, ensure_ascii=False) for value in values), 88)
    inner = "\n".join(f"        {line}" for line in lines)
    return f"Literal[\n{inner}\n    ]"
