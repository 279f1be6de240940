"""OpenEnv: any game as an environment that other programs train in, over HTTP and WebSocket.

    environment.py  one session's environment: reset, step, state
    protocol.py     calls, observation, state and reward; the client of programs that train
    app.py          the web application
    package.py      `arena openenv package`: a complete environment package

`arena.envs.hosting` has what is served: the game, the opponents, the reward, shared episodes. All
modules but `package` need the extra `openenv`.
"""
