"""The trainer's side of the trajectory API: `arena atropos train`.

options.py   settings of a run, beside those of `TrainConfig`
batch.py     what a batch teaches: token sequences with advantages, and what is left out
batches.py   the next batch: registration, waiting, checks
trainer.py   the loop: batch, update, transfer of the weights, record
"""
