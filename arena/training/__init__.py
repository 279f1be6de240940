"""Learning, seen from the core: the words that hosts, trainers and views of a run share.

config.py   TrainConfig: every number that decides a run, with its unit
hosts.py    TrainingHost: who holds the weights, trains and serves them
records.py  StepRecord: a row of metrics.jsonl; the files of a run
art.py      ART's own classes; the one module that imports openpipe-art
"""
