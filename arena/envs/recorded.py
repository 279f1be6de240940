"""Recorded games of bots in seat 0, with which packages and tasks are validated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from arena.agents.action_tools import function_call
from arena.agents.agent import Seat, ask
from arena.agents.seating import bot_names, make_agent
from arena.core.action import Action
from arena.core.errors import ArenaError, UsageError
from arena.core.seeds import stream
from arena.core.spec import Spec, redacted
from arena.envs.hosting import HostedGame
from arena.episodes.measurement import SeatEpisode
from arena.episodes.session import GameSession

SEAT = 0
MAX_SEEDS = 200
"""Seeds that are tried for a game in which the strong bot earns the most and bot:random less."""
DRAWS = 8
"""Games of each seed, with other draws of the bot, for games without a strong bot."""


def check_bots(specs: Sequence[str], written: str) -> None:
    """Raise UsageError for a SPEC that is not a bot; `written` is what needs them: `a package`."""
    for spec in specs:
        if Spec.parse(spec).prefix != "bot":
            raise UsageError(
                f"--opponents {redacted(spec)}: {written} is validated by recorded games, which "
                "need bots; 'arena openenv serve' takes any player"
            )


@dataclass(frozen=True, slots=True)
class RecordedGame:
    """The actions of one player in one game, and its reward."""

    player: str
    """The bot, as a SPEC."""
    seed: int
    actions: tuple[Action, ...]
    reward: float

    @property
    def calls(self) -> list[JsonValue]:
        """The actions as calls of tools, each for its decision only."""
        return [_call(action, turn) for turn, action in enumerate(self.actions)]

    def to_json(self) -> JsonValue:
        """Return the game as a script replays it."""
        return {
            "player": self.player,
            "seed": self.seed,
            "seat": SEAT,
            "actions": self.calls,
            "reward": self.reward,
        }


@dataclass(frozen=True, slots=True)
class Evidence:
    """A game that a strong bot has won as high as possible, and bot:random's of the same seed."""

    oracle: RecordedGame
    floor: RecordedGame


def strong_bot(hosted: HostedGame) -> str:
    """Return the SPEC of the strongest bot: `bot:oracle`, or the last of the game's own bots."""
    names = bot_names(hosted.game.name)
    own = [name for name in names if name != "random"]
    return f"bot:{'oracle' if 'oracle' in names else own[-1] if own else 'random'}"


def find_evidence(hosted: HostedGame, least: float, margin: float) -> Evidence:
    """Return games of the first seed on which the strong bot earns `least`, and random less.

    Args:
        hosted: The game and its opponents, which are bots.
        least: Reward that the strong bot must reach.
        margin: By how much bot:random must stay below it.

    Raises:
        ArenaError: There is none among the first `MAX_SEEDS` seeds.
    """
    strong, best = strong_bot(hosted), -float("inf")
    for number in range(MAX_SEEDS * DRAWS):
        seed, draw = divmod(number, DRAWS)
        oracle = asyncio.run(record_game(hosted, strong, seed, draw))
        best = max(best, oracle.reward)
        if oracle.reward < least:
            continue
        floor = asyncio.run(record_game(hosted, "bot:random", seed, DRAWS))
        if floor.reward <= least - margin and oracle.actions and floor.actions:
            return Evidence(oracle, floor)
    raise ArenaError(
        f"in {MAX_SEEDS} deals of {hosted.game.name} {strong} earned at most {best:g}, or "
        f"bot:random as much; the range of the reward promises {least:g}: give another "
        "--reward-range, or other opponents"
    )


async def record_game(hosted: HostedGame, spec: str, seed: int, draw: int = 0) -> RecordedGame:
    """Play one game with this bot in the learner's seat, whose own draws depend on `draw`."""
    game = hosted.game
    seat = Seat(game, SEAT, stream(seed, f"recorded {draw}"), hosted.text_level)
    bot = make_agent(spec, seat)
    session = GameSession(hosted.match(seed, [SEAT]), [SEAT])
    actions: list[Action] = []
    while not (turn := await session.turn(SEAT)).is_over:
        actions.append((await ask(bot, turn.observation)).action)
        session.act(SEAT, actions[-1])
    reward = hosted.score(SeatEpisode(game, session.episode, SEAT)).reward
    return RecordedGame(spec, seed, tuple(actions), reward)


def _call(action: Action, turn: int) -> JsonValue:
    """Return the call as it is sent, for the decision of this number only."""
    name, arguments = function_call(action)
    return {
        "type": "call_tool",
        "tool_name": name,
        "arguments": {**arguments},
        "metadata": {"turn": turn},
    }
