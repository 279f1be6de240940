"""Replays as data for fine-tuning and offline RL: `arena replay PATH… --export FORMAT`.

seat_replies.py   requests and replies of each model in a replay, with its reward
exporter.py       from replays to one file, in any format
chat.py           `chat`: JSON lines of conversations, for supervised fine-tuning
parquet.py        `parquet`: a row for each reply, with tokens and rewards, for offline RL
art.py            `art`: ART's trajectory groups as JSON lines, and how to read them back
verifiers.py      `verifiers`: episodes of verifiers 1 with their traces, in MessagePack
openenv.py        `openenv`: OpenEnv's TrainingTrace as JSON lines
message_graph.py  the messages of a seat with their tokens, each stored once
deal_groups.py    groups of games that start at one position
msgpack.py        encoder of MessagePack
"""
