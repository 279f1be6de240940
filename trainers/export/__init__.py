"""Replays as data for fine-tuning and offline RL: `arena replay PATH… --export FORMAT`.

reading.py  from a replay to what each model in it was sent, what it said, what that was worth
chat.py     `chat`: JSON lines of conversations, for supervised fine-tuning
parquet.py  `parquet`: a row for each reply, with tokens and rewards, for offline RL
art.py      `art`: ART's trajectory groups as JSON lines, and how to read them back
"""
