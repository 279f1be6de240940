"""The MCP server of a game: its tools, and its two transports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings

from arena.agents.chat import full_rules
from arena.core.errors import ArenaError
from arena.core.text import shorten
from arena.core.version import __version__
from arena.envs.mcp.tables import ClientTables, JoinedSeat, SeatNews
from arena.http.access import Guard
from arena.http.server import bind_socket, resolve_address, run_server, server_key, server_url

INSTRUCTIONS = (
    "You play a game with hidden information against other players. Call join once and keep the "
    "handle; read rules; call view until its status is 'act'; then call act with the text of one "
    "legal action, and go on until the status is 'over'. Use only these tools: to look for the "
    "cards of other players elsewhere is cheating."
)
MAX_BODY_BYTES = 65_536
DRAIN_SECONDS = 1.0


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn errors of arena into answers that the client reads."""
    try:
        yield
    except ArenaError as error:
        raise ToolError(shorten(str(error), 500)) from None


def make_server(tables: ClientTables) -> MCPServer:
    """Return the server with its tools. The docstrings are what a client reads."""
    server = MCPServer("arena", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR")

    async def join(seat: int | None = None) -> JoinedSeat:
        """Take a seat, by default any that is free, and return its secret handle."""
        with _refusals():
            return tables.join(seat)

    async def rules() -> str:
        """Return the rules of the game and the notation of actions."""
        game = tables.host.game
        return full_rules(game, game.turn_limit(tables.host.max_turns))

    async def view(handle: str, whole: bool = False) -> SeatNews:
        """Wait for your turn and return what is new; with whole=true everything since the start."""
        with _refusals():
            return await tables.find(handle).news(whole)

    async def legal_actions(handle: str) -> list[str]:
        """List the actions that you may choose now."""
        with _refusals():
            return tables.find(handle).legal_actions()

    async def act(handle: str, action: str, turn: int | None = None) -> SeatNews:
        """Play an action, as text, then wait for your next turn and return what is new.

        With turn, the number that view gave, the action counts for that decision only.
        """
        with _refusals():
            return await tables.find(handle).act(action, turn)

    server.add_tool(rules, structured_output=False)
    for tool in (join, view, legal_actions, act):
        server.add_tool(tool)
    return server


async def serve_http(tables: ClientTables, host: str, port: int) -> None:
    """Serve any number of clients over streamable HTTP at `/mcp`, until a signal.

    Clients must send the key as a bearer token; without one only this machine reaches the server.
    """
    address, server = resolve_address(host), make_server(tables)
    key = server_key(host, address)
    # Each request stands for itself, as in the protocol of 2026; the handle names the seat. Host
    # and Origin are checked by `Guard`.
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.router.redirect_slashes = False  # A redirect would name the host that the client sent.
    played = f"seat {' and '.join(map(str, tables.seats))} of {tables.host.game.name}"
    with bind_socket(address, port) as listener:
        url = f"{server_url(listener)}/mcp"
        greeting = f"MCP clients play {played} at {url}; Ctrl-C stops the server"
        async with server.session_manager.run():
            await run_server(Guard(app, key), listener, greeting, drain_seconds=DRAIN_SECONDS)
