"""Replays as data for fine-tuning and offline RL: `arena replay export PATH…`.

seat_replies.py   requests and replies of each model in a replay, with its reward
exporter.py       from replays to one file; the format `chat`, for supervised fine-tuning
parquet.py        `parquet`: a row for each reply, with tokens and rewards, for offline RL
"""
