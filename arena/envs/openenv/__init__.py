"""OpenEnv: any game as an environment that other programs train in, over HTTP and WebSocket.

    host.py         what is served: the game, the opponents, the reward
    environment.py  one session's environment: reset, step, state
    tables.py       episodes, and the sessions that share one
    models.py       observation and state as they are served
    rubric.py       the reward, with its terms
    app.py          the web application
    client.py       client for programs that train
    package.py      `arena openenv package`: a complete environment package

Needs the extra `openenv`; only `host` and `package` can be imported without it.
"""
