"""Worker processes on this machine, connected by pairs of sockets."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import socket
import threading
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from arena.episodes.executors.worker import OUT_OF_MEMORY, serve

LENGTH_BYTES = 8
"""Size of the length before each message."""
SECONDS_TO_END = 10.0
"""Time in which a worker closes its files before it is terminated."""


class SocketChannel:
    """Pickled messages in both directions of a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> SocketChannel:
        """Return the channel of one end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: object) -> None:
        """Send a message. It is buffered: a process that waits until it is read could block."""
        # The other end was closed; games that are being dropped still report.
        if self._writer.is_closing():
            return
        data = pickle.dumps(message)
        self._writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    async def receive(self) -> object | None:
        try:
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            message: object = pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return message

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


class ProcessChannel:
    """A worker process and the channel to it."""

    def __init__(self, process: SpawnProcess, channel: SocketChannel) -> None:
        self._process, self._channel = process, channel
        self.send, self.receive = channel.send, channel.receive

    @classmethod
    async def start(cls) -> ProcessChannel:
        """Start a worker process."""
        ours, theirs = socket.socketpair()
        # "spawn", since a fork would copy locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve_process, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, await SocketChannel.over(ours))

    @property
    def loss(self) -> str:
        """Why the process has ended."""
        code = self._process.exitcode
        if code == OUT_OF_MEMORY:
            return "out of memory"
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            # The kernel's remedy if the memory of the machine is used up.
            return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        return f"with exit code {code}"

    async def end(self) -> None:
        """Close the channel, upon which the worker drops its work and ends."""
        self._channel.close()
        await asyncio.to_thread(self._process.join, SECONDS_TO_END)
        if self._process.is_alive():
            self._process.terminate()


def _serve_process(end: socket.socket) -> None:
    """Work in a process of its own until the other end of the socket is closed."""
    _end_with_parent()

    async def serve_socket() -> None:
        await serve(await SocketChannel.over(end))

    asyncio.run(serve_socket())


def _end_with_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when the parent ends for any reason."""
    # A terminal sends Ctrl-C to all processes of the group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_with_parent() -> None:
        # The sentinel becomes ready when the parent ends, even if it is killed.
        wait([parent.sentinel])
        # `sys.exit` would end only this thread.
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
