"""Atropos' trajectory API, version 0.4.0 of atroposlib (its last release).

The API is a queue between environments, which push groups of scored token rows, and a trainer,
which takes batches of them. Nothing here imports atroposlib.

wire.py       the bodies of all requests and answers, with the checks of a group
client.py     the calls of an environment and of a trainer
packing.py    the choice of whole groups for a batch
store.py      the queue on disk, and as an environment sees it
endpoints.py  the 13 endpoints
app.py        `arena atropos api`: routes, errors and middleware, and the process
group_player.py  the games of an environment, their rows, and the newest model that plays them
environment.py   `arena atropos serve`: what to play, and when
training/     `arena atropos train`: batches into weights
"""
