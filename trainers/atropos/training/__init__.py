"""The trainer's side of the trajectory API: `arena atropos train`.

options.py   settings of a run, beside those of `TrainConfig`
batch.py     what a batch teaches: token sequences with advantages, and what is left out
inbox.py     files of the batch in training, and of refused groups
trainer.py   a step: batch, update, transfer of the weights, record
"""
