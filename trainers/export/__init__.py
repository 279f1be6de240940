"""Replays as data for fine-tuning and offline RL: `arena replay PATH… --export FORMAT`.

seat_replies.py   requests and replies of each model in a replay, with its reward; groups of games
exporter.py       from replays to one file, in any format
json_lines.py     `chat`: conversations, for supervised fine-tuning; `openenv`: training traces
parquet.py        `parquet`: a row for each reply, with tokens and rewards, for offline RL
verifiers.py      `verifiers`: episodes of verifiers 1 with their traces, in MessagePack
"""
