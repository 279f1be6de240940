"""`arena a2a`: a judge for agents of the Agent2Agent protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import JsonValue

from arena.agents.seating import default_opponent
from arena.cli.experiment import CONCURRENT, ExperimentFlags, ExperimentRun
from arena.cli.flags import Flag, GameFlags, first_seed, flag_groups
from arena.cli.play_flags import MaxConcurrentFlag, ModelFlags
from arena.cli.terminal import unused_path
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import Spec
from arena.core.text import pluralize, shorten
from arena.episodes.files import game_stem
from arena.llm.config import Config, setting
from arena.plugins.catalog import require
from arena.plugins.loader import make_game

if TYPE_CHECKING:
    from arena.envs.a2a_judge import AssessmentRequest, MatchResult, Progress
    from arena.evaluation.records import Slot
    from arena.evaluation.report import Report

BODY_BYTES = 4 << 20
"""Of all requests in progress."""
DRAIN_SECONDS = 1.0
PROGRESS_SECONDS = 5.0
CARD_SECONDS = 30.0


class JudgeFlags(Config):
    """Address of the judge."""

    host: str = setting("127.0.0.1")
    """Where to listen; beyond this machine ARENA_API_KEY is needed, or --open."""
    port: int = setting(9009, ge=0, le=65535)
    """0 takes a free one."""
    card_url: str = setting("")
    """Address in the agent card, if clients reach the judge by another one."""
    open: bool = setting(False, flag="--open")
    """Serve without a key to whoever reaches it, as in a private network of containers."""


@flag_groups
def a2a_command(
    flags: JudgeFlags,
    max_concurrent: MaxConcurrentFlag = CONCURRENT,
    out: Annotated[Path, Flag(help="Folder for results and replays.")] = Path("runs/a2a"),
) -> int:
    """Judge A2A agents: play the match of a request and return its report.

    One participant is evaluated against bots, several play a tournament. A player needs no judge:
    --seat 0=a2a:URL of arena play, --player a2a:URL of arena eval.
    """
    require("arena a2a", ("a2a", "starlette", "sse_starlette", "uvicorn"), "a2a")
    from arena.envs.a2a_judge import make_app
    from arena.http.access import AccessControl, BodyLimit
    from arena.http.server import bind_socket, resolve_address, run_server, server_key, server_url

    async def assess(request: AssessmentRequest, progress: Progress) -> MatchResult:
        return await JudgedMatch(request, out, max_concurrent).play(progress)

    address = resolve_address(flags.host)
    key = None if flags.open else server_key(flags.host, address)
    with bind_socket(address, flags.port) as listener:
        url = server_url(listener)
        app = BodyLimit(make_app(assess, flags.card_url or f"{url}/"), BODY_BYTES)
        served = run_server(
            app if flags.open else AccessControl(app, key),
            listener,
            f"Judging A2A agents at {url}; Ctrl-C stops the server",
            drain_seconds=DRAIN_SECONDS,
            announce_drain=False,
        )
        asyncio.run(served)
    return 0


class JudgedMatch:
    """The games of one request. Raises UsageError for a request that cannot be played."""

    def __init__(self, request: AssessmentRequest, out: Path, max_concurrent: int) -> None:
        config = request.config
        self._game = make_game(config.game, **config.options)
        self._specs, self._bots = participant_specs(request.participants), config.bots
        if wrong := [spec for spec in config.bots if Spec.parse(spec).prefix != "bot"]:
            raise UsageError(f"bots: '{wrong[0]}' is no bot; give SPECs such as bot:random")
        self._players = [*self._specs.values(), *self._bots]
        self._kind: Literal["eval", "tournament"] = "tournament"
        settings: dict[str, JsonValue] = {"tables": None}
        if len(self._specs) == 1:
            self._bots = self._bots or [default_opponent(self._game)]
            settings = {"player": self._players[0], "baseline": None, "against": [*self._bots]}
            self._kind = "eval"
        elif not self._game.return_scale.has_winner:
            raise UsageError(f"{config.game} is not won: name one participant, and bots beside it")
        self._games, seed = config.games, first_seed(config.seed)
        folder = unused_path(out, game_stem(self._game, seed))
        self._run = ExperimentRun(
            self._kind,
            self._game,
            GameFlags(text_level=config.text_level, max_turns=config.max_turns),
            ModelFlags(),
            ExperimentFlags(out=folder, executor="local", max_concurrent=max_concurrent),
            self._players,
            seed,
            settings,
        )
        self._run.check()

    async def play(self, progress: Progress) -> MatchResult:
        """Play all games and return the result. Raises ArenaError if an agent has no card."""
        from arena.envs.a2a_judge import MatchResult
        from arena.evaluation.aggregation import EvaluationAggregator, TournamentAggregator
        from arena.evaluation.verdict import sentences

        for role, spec in self._specs.items():
            await check_card(role, Spec.parse(spec).rest)
        aggregator: EvaluationAggregator | TournamentAggregator
        if self._kind == "tournament":
            aggregator = TournamentAggregator(self._game, self._players)
        else:
            player = self._players[0]
            aggregator = EvaluationAggregator(self._game, player, None, None, self._bots)
        playing = asyncio.ensure_future(self._run.report(self._schedule, aggregator))
        try:
            while not (await asyncio.wait([playing], timeout=PROGRESS_SECONDS))[0]:
                await progress(f"{pluralize(aggregator.games, 'game')}: {aggregator.status()}")
        finally:
            playing.cancel()
            await asyncio.wait([playing])
        report = playing.result()
        scores = {role: _scores(report, spec) for role, spec in self._specs.items()}
        data: dict[str, JsonValue] = {
            "participants": {**self._specs},
            "scores": {**scores},
            "report": report.to_json(),
        }
        return MatchResult(next(iter(sentences(report))), data)

    def _schedule(self, seed: int, _: Sequence[Slot]) -> list[Slot]:
        from arena.evaluation.schedule import evaluation_schedule
        from arena.evaluation.tournament_schedule import tournament_schedule

        seats, players = self._game.num_players, self._players
        if self._kind == "tournament":
            return tournament_schedule(players, seats, self._games, seed)
        return [*evaluation_schedule(seats, players[0], self._bots, None, self._games, seed)]


def participant_specs(participants: Mapping[str, str]) -> dict[str, str]:
    """Return the SPEC of each role. Raises UsageError for a wrong or repeated address."""
    from arena.agents.a2a import checked_url

    roles: dict[str, str] = {}
    for role, url in participants.items():
        place = f"participant '{shorten(role, 40)}'"
        spec = f"a2a:{checked_url(url.rstrip('/'), place)}"
        if other := roles.get(spec):
            raise UsageError(f"participants '{other}' and '{role}' have the same address: {url}")
        roles[spec] = role
    return {role: spec for spec, role in roles.items()}


async def check_card(role: str, url: str) -> None:
    """Raise ArenaError if no agent at the address has a card that can be used."""
    from arena.agents.a2a import agent_errors, fetch_card, open_http

    try:
        async with asyncio.timeout(CARD_SECONDS), open_http() as http:
            with agent_errors():
                await fetch_card(http, url)
    except TimeoutError:
        raise ArenaError(f"participant '{role}': {url}: no card in {CARD_SECONDS:g} s") from None
    except ArenaError as error:
        raise ArenaError(f"participant '{role}': {url}: {error}") from None


def _scores(report: Report, spec: str) -> JsonValue:
    """Return the main results of a player, for tables."""
    player = next(each for each in report.players if each.player == spec)
    return {
        "games": player.games,
        "mean_return": player.mean_return.value,
        "win_rate": player.win_rate.value,
        "rating": player.rating.value,
        "fallback_moves": player.replies.fallbacks,
    }
