"""Agent that is a program of its own: `agent:COMMAND`, in any language.

One process plays one seat of one game. It reads messages on its standard input and answers each
with one line on its standard output, all of them JSON objects, which docs/guides/connect.md
specifies. They hold what the seat may know and nothing else.

An illegal action costs a fallback move. A program that breaks the protocol or exceeds a limit of
time is stopped with its process group, and fallback moves play its seat to the end of the game.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from pydantic import JsonValue

from arena.agents.agent import Seat
from arena.agents.chat import full_rules
from arena.core.action import Action
from arena.core.errors import ActionError, ArenaError, InvalidAction, UsageError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.core.text import shorten
from arena.llm.environment import program_environment, redact_keys
from arena.llm.settings import Settings

PROTOCOL = 1
_ERROR = re.compile(r"\w*(Error|Exception|panic)\b")
"""The beginning of a line that says why a program has ended."""
MAX_LISTED = 1_000
"""Legal actions in a message; negotiation may have tens of thousands."""
MAX_FAILURE = 500
"""Characters of the reason for a fallback move."""
MAX_COMMENT = 2_000
"""Characters of the comment and the name that a replay keeps."""
MAX_LINE = 65_536
"""Bytes of an answer."""
MAX_STDERR = 4_000
"""Characters of standard error that a decision keeps: its end."""
EXIT_SECONDS = 0.2
"""Time between the end of the standard output and the end of a process."""
CLOSE_SECONDS = 1.0
"""Time for a program to end after the game, before it is killed."""


class ProgramAgent:
    """Plays one seat with the program of a command line."""

    decision_seconds = None
    """The match sets no timer: a program that is late is stopped, too."""

    def __init__(self, rest: str, seat: Seat) -> None:
        """Check the command; the program starts at its first decision. Raises UsageError."""
        self._command = split_command(rest, seat.player)
        self._seat = seat
        self._limits = Settings.load().agent
        own = self._limits.decision_seconds
        self._seconds = own if seat.decision_seconds is None else min(own, seat.decision_seconds)
        self._program: Program | None = None
        self._stopped = ""
        """Reason for the stop of the program before the end of the game."""
        self._read = 0
        self._asked = 0

    async def act(self, observation: Observation) -> Decision:
        details: dict[str, JsonValue] = {}
        try:
            return Decision(await self._ask(observation, details), details=details)
        except ArenaError as error:
            failure, is_broken = str(error), not isinstance(error, ActionError)
        if is_broken:
            await self.close()
        failure = shorten(failure + self._add_output(details), MAX_FAILURE)
        if is_broken:
            self._stopped = failure
        choices = observation.game.fallback_actions(observation)
        return Decision(self._seat.rng.choice(choices), failure, details)

    async def close(self) -> None:
        """Stop the program and its children."""
        if self._program is not None:
            await self._program.close()

    async def _ask(self, observation: Observation, details: dict[str, JsonValue]) -> Action:
        """Return the action of the program's answer, and add to the details of the decision."""
        if self._stopped:
            raise ArenaError(self._stopped)
        if self._program is None:
            limit = self._limits.start_seconds
            async with _time_limit(limit, "did not answer the first message"):
                self._program = await Program.start(self._command, self._limits.memory_gb)
                name = (await self._program.exchange(self._start_message())).get("name")
            if isinstance(name, str):
                details["program"] = redact_keys(name)[:MAX_COMMENT]
        async with _time_limit(self._seconds, "gave no answer"):
            answer = await self._program.exchange(self._question(observation))
        if isinstance(comment := answer.get("comment"), str):
            details["comment"] = redact_keys(comment)[:MAX_COMMENT]
        action = answer.get("action")
        if not isinstance(action, str):
            raise InvalidAction('the answer has no text "action"')
        chosen = observation.parse(action)
        self._add_output(details)
        return chosen

    def _add_output(self, details: dict[str, JsonValue]) -> str:
        """Add the standard error since the decision before; return the end of a failure's text."""
        if self._program is None or not self._program.messages:
            return ""
        details["stderr"], self._program.messages = self._program.messages, ""
        lines = str(details["stderr"]).strip().splitlines()
        # Some interpreters print more below the error.
        errors = [line for line in lines if _ERROR.match(line)]
        return f"; its standard error says: {(errors or lines)[-1]}" if lines else ""

    def _start_message(self) -> dict[str, JsonValue]:
        game = self._seat.game
        return {
            "type": "start",
            "protocol": PROTOCOL,
            "game": game.name,
            "options": game.options.model_dump(mode="json"),
            "seat": self._seat.player,
            "names": list(game.seat_names),
            "rules": full_rules(game, self._seat.turn_limit),
        }

    def _question(self, observation: Observation) -> dict[str, JsonValue]:
        """Return the message of a decision: what is new for the seat, and what it may do."""
        legal, read = observation.legal_actions, self._read
        self._read, self._asked = observation.num_events, self._asked + 1
        return {
            "type": "act",
            "turn": self._asked - 1,
            "text": observation.text(self._seat.text_level, read),
            "events": [event.to_json() for event in observation.events_since(read)],
            "legal_actions": [str(action) for action in legal[:MAX_LISTED]],
            "left_out": max(0, len(legal) - MAX_LISTED),
            "speech": [offer.kind.notation() for offer in legal.speech],
        }


@asynccontextmanager
async def _time_limit(seconds: float, failure: str) -> AsyncIterator[None]:
    """Raise ArenaError with this text if the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise ArenaError(f"the program {failure} within {seconds:g} seconds") from None


def split_command(rest: str, player: int) -> list[str]:
    """Return the words of a command. Raises UsageError if it names no program."""
    try:
        command = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"seat {player}: 'agent:{rest}': {error}") from None
    if not command:
        raise UsageError(f"seat {player}: name a program, for example 'agent:python bot.py'")
    if shutil.which(command[0]) is None:
        raise UsageError(f"seat {player}: 'agent:{rest}': there is no program '{command[0]}'")
    return command


class Program(asyncio.subprocess.SubprocessStreamProtocol):
    """Process of a program in a process group of its own, and its streams."""

    @classmethod
    async def start(cls, command: Sequence[str], memory_gb: float) -> Program:
        """Start the process. Raises ArenaError."""
        loop = asyncio.get_running_loop()
        try:
            # A session of its own: Ctrl-C in the terminal reaches arena only.
            transport, program = await loop.subprocess_exec(
                lambda: cls(limit=MAX_LINE, loop=loop),
                *command,
                start_new_session=True,
                env=program_environment(),
            )
        except OSError as error:
            raise ArenaError(f"the program cannot be started: {error.strerror}") from None
        # Linux only; children inherit the limit.
        with suppress(ImportError, AttributeError, ProcessLookupError, ValueError):
            import resource

            most = int(memory_gb * 2**30)
            resource.prlimit(transport.get_pid(), resource.RLIMIT_AS, (most, most))
        return program

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.messages = ""
        """The end of what the program has written to its standard error."""
        self._has_exited = asyncio.Event()
        self._is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._process = transport
        self._reading = asyncio.get_running_loop().create_task(self._read_stderr())

    def process_exited(self) -> None:
        super().process_exited()
        self._has_exited.set()
        # A child would hold the streams open, and the end would not be noticed.
        self._kill_group()

    async def exchange(self, message: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Send a message and return the answer. Raises ArenaError."""
        assert self.stdin is not None and self.stdout is not None
        # Of a program that has ended, reading gives the better message.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(json.dumps(message).encode() + b"\n")
            await self.stdin.drain()
        try:
            line = await self.stdout.readuntil()
        except asyncio.LimitOverrunError:
            raise ArenaError(f"the program wrote a line of more than {MAX_LINE:,} bytes") from None
        except (asyncio.IncompleteReadError, ConnectionResetError):
            raise ArenaError(await self._obituary()) from None
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            text = shorten(redact_keys(line.decode(errors="replace").strip()), 80)
            raise ArenaError(
                f"the program wrote '{text}' instead of a line with a JSON object; messages for "
                "people belong to standard error"
            )
        return answer

    async def close(self) -> None:
        """Close its input, wait for its end for a moment, and kill the whole process group."""
        if self._is_closed:
            return
        self._is_closed = True
        assert self.stdin is not None
        try:
            self.stdin.close()
            await self._wait_for_end(CLOSE_SECONDS)
        finally:
            self._kill_group()
            self._process.close()
            self._reading.cancel()
        # The exit status is collected, so that no zombie remains.
        await self._wait_for_end(CLOSE_SECONDS)

    async def _wait_for_end(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_exited.wait()
                await asyncio.wait([self._reading])

    async def _obituary(self) -> str:
        """Return how the program has ended, once it has closed its standard output."""
        await self._wait_for_end(EXIT_SECONDS)
        code = self._process.get_returncode()
        if code is None:
            return "the program has closed its standard output"
        if code < 0:
            return f"the program was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"the program has ended with exit code {code}"

    async def _read_stderr(self) -> None:
        assert self.stderr is not None
        while chunk := await self.stderr.read(MAX_LINE):
            # Keys go before a cut could leave a part of one.
            messages = redact_keys(self.messages + chunk.decode(errors="replace"))
            self.messages = messages[-MAX_STDERR:]

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(self._process.get_pid(), signal.SIGKILL)
            else:
                self._process.kill()
