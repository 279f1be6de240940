"""The training loop: set-up, steps, evaluation and records."""
