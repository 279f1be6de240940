"""HTTP servers that withstand hostile clients: for `arena serve`, the viewer and the Atropos API.

uvicorn limits idle connections only. This package adds a deadline for each phase of a connection,
limits for connections, bodies and log messages, checks of key, host and origin, and draining.
"""
