"""`arena openenv`: games as environments of OpenEnv."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr

from arena.cli.flags import Flag, GameFlags, GameName, JsonFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.play_flags import ModelFlags, has_models
from arena.cli.terminal import print_result, settle_accounts
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import split_specs
from arena.core.text import pluralize
from arena.llm.config import Config, setting
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.envs.hosting import HostedGame, Scoring
    from arena.episodes.match import Match, Watcher
    from arena.llm.service import LLMService


app = typer.Typer(help="Serve games as environments of OpenEnv 0.10.0.", no_args_is_help=True)

DRAIN_SECONDS = 5.0
"""Time for running calls after the first signal; a client may play on elsewhere."""
BODIES = 64
"""Bodies of the largest size that may be in progress at once."""


class HostFlags(Config):
    """The other seats and the reward of an environment."""

    opponents: list[str] = setting([])
    """SPEC[,SPEC…] of the other seats; too few are repeated. Default: the game's default bot."""
    reward: str = setting("")
    """Terms and weights, e.g. win=1,entropy_removed=0.5. Default: the return."""
    reward_fn: str = setting("")
    """module:function of a custom term."""

    @property
    def specs(self) -> list[str]:
        """The SPECs of the opponents."""
        return [spec for text in self.opponents for spec in split_specs(text)]

    def scoring(self, game: Game) -> Scoring:
        """Return the function of the reward. Raises UsageError for an unknown term."""
        from arena.envs.hosting import game_return
        from trainers.rewards import Rewards

        if self.reward:
            return Rewards.parse(self.reward, game, self.reward_fn).score
        if self.reward_fn:
            raise UsageError(f"--reward-fn {self.reward_fn} has no weight: add --reward custom=1")
        return game_return

    @property
    def scoring_source(self) -> tuple[str, str]:
        """Source of `scoring` in a package: the line that imports it, and the expression."""
        if not self.reward:
            return "", ""
        expression = f"Rewards.parse({self.reward!r}, GAME, {self.reward_fn!r}).score"
        return "from trainers.rewards import Rewards", expression


class ServerFlags(Config):
    """Address of a server, and limits of its sessions."""

    host: str = setting("127.0.0.1")
    """Where to listen; beyond this machine a token is needed."""
    port: int = setting(8000, ge=0, le=65535)
    """0 takes a free one."""
    token: str = setting("")
    """Bearer token that clients must send. Others on this machine can read the flag; the variable
    ARENA_API_KEY, also in .env, keeps it from them."""
    max_sessions: int = setting(64, ge=1)
    """Sessions at the same time; one more is refused."""
    session_timeout: float = setting(1800.0, ge=1)
    """Seconds without a call after which a session ends."""
    turn_seconds: float | None = setting(None, ge=0.01)
    """Time for a decision; then a fallback move is played. Default: none."""
    join_seconds: float = setting(30.0, ge=0.01)
    """Time for all sessions of an episode to join it."""
    max_message_bytes: int = setting(262_144, ge=1024)
    """Largest message or body; a larger one is refused."""


@app.command("serve", cls=ArenaCommand)
@flag_groups
def serve_command(
    game: GameName,
    game_flags: GameFlags,
    hosting: HostFlags,
    model_flags: ModelFlags,
    server: ServerFlags,
    out: Annotated[Path | None, Flag(help="Folder for replays. Default: none are kept.")] = None,
) -> int:
    """Serve a game: a client plays one seat, the opponents the others."""
    require("arena openenv", ("openenv",), "openenv")
    from arena.envs.hosting import HostedGame
    from arena.episodes.files import ReplayWriter, game_stem

    played = game_flags.make(game)
    specs = hosting.specs
    llm = model_flags.service() if has_models(specs) else None

    def watchers(match: Match) -> list[Watcher]:
        return [] if out is None else [ReplayWriter(out, game_stem(played, match.seed))]

    hosted = HostedGame(
        played,
        specs,
        game_flags.text_level,
        game_flags.max_turns,
        model_flags.options(played, specs, game_flags.max_turns, llm) if llm else None,
        llm,
        hosting.scoring(played),
        watchers,
        server.turn_seconds,
        server.join_seconds,
    )
    code = serve_game(hosted, server, llm)
    settle_accounts(llm, out, "run")
    return code


@app.command("package", cls=ArenaCommand)
@flag_groups
def package_command(
    game: GameName,
    directory: Annotated[Path, typer.Argument(help="A new folder for the package.")],
    game_flags: GameFlags,
    hosting: HostFlags,
    name: Annotated[str, Flag(help="Name of the package. Default: arena_GAME.")] = "",
    reward_range: Annotated[
        str, Flag(help="LOW,HIGH of --reward. Default: the range of the game's return.")
    ] = "",
    as_json: JsonFlag = False,
) -> int:
    """Write a complete environment package: server, client, Dockerfile, validation.

    The opponents are bots. Its validation holds a game of bot:oracle and one of bot:random.
    """
    require("arena openenv", ("openenv",), "openenv")
    from arena.envs.hosting import HostedGame
    from arena.envs.openenv.package import PackageOptions, write_package
    from arena.envs.recorded import check_bots

    played = game_flags.make(game)
    check_bots(hosting.specs, "a package")
    hosted = HostedGame(
        played,
        hosting.specs,
        game_flags.text_level,
        game_flags.max_turns,
        score=hosting.scoring(played),
    )
    bounds = _bounds(reward_range)
    options = PackageOptions(name, hosting.reward, hosting.scoring_source, bounds)
    written = write_package(hosted, directory, options)
    text = (
        f"{directory}: the package {written.name}, {len(written.files)} files\n"
        f"Check it: openenv validate {directory}   Serve it: "
        f"python -m {written.name}.server.app, after pip install {directory}"
    )
    fields = {"package": written.name, "files": written.files, "seed": written.seed}
    print_result(as_json, fields, text)
    return 0


def _bounds(text: str) -> tuple[float, float] | None:
    """Return the range of --reward-range. Raises UsageError."""
    if not text:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise UsageError(f"--reward-range {text}: give LOW,HIGH, for example 0,1.5") from None
    return low, high


def serve_game(hosted: HostedGame, flags: ServerFlags, llm: LLMService | None) -> int:
    """Serve until a signal, close the service and return the exit code.

    Raises ArenaError if the address cannot be used, UsageError for a public one without a token.
    """
    # FastAPI and uvicorn are in the extra `openenv`.
    from arena.envs.openenv.app import make_app
    from arena.http.access import AccessControl, BodyLimit
    from arena.http.server import bind_socket, resolve_address, run_server, server_key, server_url

    ip = resolve_address(flags.host)
    key = SecretStr(flags.token) if flags.token else server_key(flags.host, ip)
    app = make_app(hosted, max_sessions=flags.max_sessions, session_timeout=flags.session_timeout)
    guarded = AccessControl(BodyLimit(app, BODIES * flags.max_message_bytes), key)
    with bind_socket(ip, flags.port) as listener:
        url = server_url(listener)
        others = ", ".join(hosted.specs) if hosted.game.num_players > 1 else "none"
        greeting = (
            f"Serving {hosted.game.name} on {url} ({pluralize(hosted.game.num_players, 'seat')}; "
            f"opponents: {others}; at most {pluralize(flags.max_sessions, 'session')})"
        )

        async def serve() -> None:
            try:
                await run_server(
                    guarded,
                    listener,
                    greeting,
                    drain_seconds=DRAIN_SECONDS,
                    announce_drain=False,
                    websocket_bytes=flags.max_message_bytes,
                )
            finally:
                if llm is not None:
                    await llm.close()

        try:
            asyncio.run(serve())
        except OSError as error:
            raise ArenaError(f"cannot serve on {url}: {error.strerror}") from error
    return 0
