"""Replays as data for fine-tuning and offline RL: `arena replay PATH… --export FORMAT`.

seat_replies.py   requests and replies of each model in a replay, with its reward
exporter.py       from replays to one file, in any format
chat.py           `chat`: conversations, for supervised fine-tuning
parquet.py        `parquet`: a row for each reply, with tokens and rewards, for offline RL
"""
