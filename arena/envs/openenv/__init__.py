"""OpenEnv: any game as an environment that other programs train in, over HTTP and WebSocket.

    host.py         what is served: the game, the opponents, the reward, shared episodes
    environment.py  one session's environment: reset, step, state
    protocol.py     calls, observation, state and reward; the client of programs that train
    app.py          the web application
    package.py      `arena openenv package`: a complete environment package
    validation.py   `arena openenv validate`: OpenEnv's checks of a package

Needs the extra `openenv`; only `host` and `package` can be imported without it.
"""
