"""Atropos' trajectory API, version 0.4.0 of atroposlib (its last release).

The API is a queue between environments, which push groups of scored token rows, and a trainer,
which takes batches of them. Its server is atroposlib's own `run-api`; nothing here imports it.

client.py     the bodies of requests and answers, the checks of a group, and the calls
group_player.py  the games of an environment, their rows, and the newest model that plays them
environment.py   `arena atropos serve`: what to play, and when
options.py    settings of both commands
trainer.py    `arena atropos train`: batch, update, transfer of the weights, record
"""
