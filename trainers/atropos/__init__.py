"""Atropos' trajectory API, version 0.4.0 of atroposlib (its last release).

The API is a queue between environments, which push groups of scored token rows, and a trainer,
which takes batches of them. Nothing here imports atroposlib.

wire.py       the bodies of all requests and answers, with the checks of a group
client.py     the calls of an environment and of a trainer
packing.py    the choice of whole groups for a batch
store.py      the queue on disk
delivery.py   the answer that hands out a batch
endpoints.py  the 13 endpoints
app.py        routes, errors and middleware as an ASGI application
queue_status.py  the queue as an environment sees it
server.py     `arena atropos api`: the process
rows.py       groups of token rows from trajectories
group_player.py  the games of an environment
environment.py   `arena atropos serve`: what to play, and when
newest_model.py  the newest adapter of a server, which answers in an environment
process.py    `arena atropos process`: groups into a file
training/     `arena atropos train`: batches into weights
"""
