"""Stands in for `python -m arena`: asks the preloaded server, whose socket is the first argument.

It takes the place of the child: passes signals on, ends it when killed and exits as it does. It
imports little, because it is started often.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    order = {"arguments": sys.argv[2:], "folder": str(Path.cwd()), "environment": dict(os.environ)}
    text = json.dumps(order).encode()
    socket.send_fds(connection, [len(text).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(text)
    child = read_number(connection)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    code = read_number(connection)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def read_number(connection: socket.socket) -> int:
    return int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big", signed=True)


if __name__ == "__main__":
    main()
