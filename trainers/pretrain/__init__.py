"""Pretraining by imitation of bots: it makes the embedded checkpoints."""
