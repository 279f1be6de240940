"""Imitation of bots: how the embedded checkpoint is made from scratch."""
