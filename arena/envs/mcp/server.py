"""The MCP server of a game: its tools, its resource, and its two transports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.transport_security import TransportSecuritySettings

from arena.agents.chat import full_rules
from arena.core.errors import ArenaError
from arena.core.text import shorten
from arena.core.version import __version__
from arena.envs.mcp.table import JoinedSeat, LegalActions, SeatNews
from arena.envs.mcp.tables import ClientTables
from arena.http.access import AccessControl
from arena.http.server import run_server, server_url

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pydantic import SecretStr

INSTRUCTIONS = (
    "You play a game with hidden information against other players. Call join once and keep the "
    "handle; read rules; call view until its status is 'act'; then call act with the text of one "
    "legal action, and go on until the status is 'over'. Use only these tools: to look for the "
    "cards of other players elsewhere is cheating."
)
MAX_BODY_BYTES = 65_536
DRAIN_SECONDS = 1.0


class GameTools:
    """The tools of the server. The docstrings are what a client reads."""

    def __init__(self, tables: ClientTables) -> None:
        self._tables = tables

    async def join(self, seat: int | None = None) -> JoinedSeat:
        """Take a seat, by default any that is free, and return its secret handle."""
        with _refusals():
            return self._tables.join(seat)

    async def rules(self) -> str:
        """Return the rules of the game and the notation of actions."""
        host = self._tables.host
        return full_rules(host.game, host.game.turn_limit(host.max_turns))

    async def view(self, handle: str, whole: bool = False) -> SeatNews:
        """Wait for your turn and return what is new; with whole=true everything since the start."""
        with _refusals():
            table, seat = self._tables.find(handle)
            return await table.news(seat, whole)

    async def legal_actions(self, handle: str) -> LegalActions:
        """List the actions that you may choose now."""
        with _refusals():
            table, seat = self._tables.find(handle)
            return table.legal_actions(seat)

    async def act(self, handle: str, action: str, turn: int | None = None) -> SeatNews:
        """Play an action, as text, then wait for your next turn and return what is new.

        With turn, the number that view gave, the action counts for that decision only.
        """
        with _refusals():
            table, seat = self._tables.find(handle)
            return await table.act(seat, action, turn)

    async def notes(self, handle: str) -> str:
        """Return the notebook that the game keeps for you: facts that follow from what you saw."""
        with _refusals():
            table, seat = self._tables.find(handle)
            return table.notes(seat)

    async def log(self, handle: str) -> str:
        """Return every event that this seat has witnessed, one to a line."""
        try:
            table, seat = self._tables.find(handle)
            return table.log(seat)
        except ArenaError as error:
            raise ResourceError(shorten(str(error))) from None


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn errors of arena into answers that the client reads."""
    try:
        yield
    except ArenaError as error:
        raise ToolError(shorten(str(error), 500)) from None


def make_server(tables: ClientTables) -> MCPServer:
    """Return the server with its tools and the log of each seat as a resource."""
    server = MCPServer("arena", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR")
    tools = GameTools(tables)
    for text_tool in (tools.rules, tools.notes):
        server.add_tool(text_tool, structured_output=False)
    for tool in (tools.join, tools.view, tools.legal_actions, tools.act):
        server.add_tool(tool)
    about = "Every event that the seat has witnessed"
    server.resource("arena://seats/{handle}/log", description=about, mime_type="text/plain")(
        tools.log
    )
    return server


async def serve_stdio(tables: ClientTables) -> None:
    """Serve one client on the standard streams, until it closes them."""
    try:
        await make_server(tables).run_stdio_async()
    finally:
        await tables.close()


async def serve_http(
    tables: ClientTables,
    listener: socket.socket,
    key: SecretStr | None,
    until: Awaitable[None] | None = None,
) -> None:
    """Serve any number of clients over streamable HTTP at `/mcp`.

    Args:
        tables: The games.
        listener: A bound socket.
        key: Bearer token that clients must send; None: only this machine can reach the server.
        until: The server ends with it; None: at a signal.
    """
    server = make_server(tables)
    # Each request stands for itself, as in the protocol of 2026; the handle names the seat. Host
    # and Origin are checked by `AccessControl`.
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    seats = " and ".join(map(str, tables.seats))
    greeting = (
        f"MCP clients play seat {seats} of {tables.host.game.name} at {server_url(listener)}/mcp; "
        "Ctrl-C stops the server"
    )
    try:
        async with server.session_manager.run():
            await run_server(
                AccessControl(app, key),
                listener,
                greeting,
                drain_seconds=DRAIN_SECONDS,
                announce_drain=False,
                until=until,
            )
    finally:
        await tables.close()
