"""The MCP server of a game: its tools, and its two transports."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from arena.agents.chat import full_rules
from arena.core.errors import ArenaError, UsageError
from arena.core.text import shorten
from arena.core.version import __version__
from arena.envs.mcp.tables import ClientTables, JoinedSeat, SeatNews
from arena.http.access import Guard
from arena.http.server import ListeningSocket, run_server

INSTRUCTIONS = (
    "You play a game with hidden information against other players. Call join once and keep the "
    "handle; read rules; call view until its status is 'act'; then call act with the text of one "
    "legal action, and go on until the status is 'over'. Use only these tools: to look for the "
    "cards of other players elsewhere is cheating."
)
MAX_BODY_BYTES = 65_536
PATH = "/mcp"
SEAT_HEADER = b"x-arena-seat"
"""Set by this server, never by a client: the seat of the address that a request was sent to."""


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

    async def join(context: Context, seat: int | None = None) -> JoinedSeat:
        """Take a seat, by default any that is free, and return its secret handle."""
        with _refusals():
            return tables.join(_own_seat(tables, context.headers or {}, seat))

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


def _own_seat(tables: ClientTables, headers: Mapping[str, str], seat: int | None) -> int | None:
    """Return the seat that a client may take: with several, a client has one, not all of them.

    Raises UsageError if the client asks for the seat of another.
    """
    if len(tables.seats) == 1:
        return seat
    own = headers.get(SEAT_HEADER.decode())
    if own is None:
        raise UsageError("each seat has an address of its own: the server's terminal shows them")
    if seat not in (None, int(own)):
        raise UsageError(f"this address is for seat {own}; seat {seat} is for another client")
    return int(own)


class SeatAddresses:
    """ASGI middleware that tells an application for which seat a secret address is."""

    def __init__(self, app: ASGIApp, seats: Mapping[str, int]) -> None:
        self.app = app
        self.seats = seats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = scope["path"].encode()
        headers = [(name, value) for name, value in scope["headers"] if name != SEAT_HEADER]
        for path, seat in self.seats.items():
            # Compared in constant time, so that a search by timing finds no address.
            if secrets.compare_digest(path.encode(), given):
                headers.append((SEAT_HEADER, b"%d" % seat))
                scope = {**scope, "path": PATH, "raw_path": PATH.encode()}
        await self.app({**scope, "headers": headers}, receive, send)


async def serve_http(tables: ClientTables, host: str, port: int) -> None:
    """Serve any number of clients over streamable HTTP at `/mcp`, until a signal.

    With several seats of clients each has an address of its own: requests have no session, and a
    client that could take two seats would see the cards of both. Clients must send the key as a
    bearer token; without one only this machine reaches the server.
    """
    server = make_server(tables)
    # Each request stands for itself, as in the protocol of 2026; the handle names the seat. Host
    # and Origin are checked by `Guard`.
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.router.redirect_slashes = False  # A redirect would name the host that the client sent.
    name = tables.host.game.name
    seats = {f"{PATH}/{secrets.token_urlsafe(16)}": seat for seat in tables.seats}
    with ListeningSocket(host, port) as listener:
        base = listener.url
        if len(seats) == 1:
            greeting = f"MCP clients play seat {tables.seats[0]} of {name} at {base}{PATH}"
        else:
            lines = (f"\n  seat {seat}: {base}{path}" for path, seat in seats.items())
            greeting = f"MCP clients play {name}, each at the address of its seat:{''.join(lines)}"
        greeting += "; Ctrl-C stops the server"
        guarded = Guard(SeatAddresses(app, seats), listener.key)
        async with server.session_manager.run():
            await run_server(guarded, listener, greeting)
