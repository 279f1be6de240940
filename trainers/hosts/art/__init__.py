"""Everything that knows ART (openpipe-art 0.5.18). The extra `art` installs it.

convert.py     ART's own classes; our trajectories and settings as ART's
art_host.py    what the next two hosts share: training, errors in one line
local.py       ART's LocalBackend: vLLM and unsloth on a GPU
serverless.py  ART's ServerlessBackend: W&B trains

ART has one reward per trajectory and computes advantages itself: advantages of turns have no effect
on these hosts.
"""
