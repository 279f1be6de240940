"""OpenEnv: any game as an environment that other programs train in, over HTTP and WebSocket.

    server.py    one session's environment (reset, step, state), and the web application
    protocol.py  calls, observation and state; the client of programs that train
    package.py   `arena openenv package`: a complete environment package

All modules but `package` need the extra `openenv`.
"""
