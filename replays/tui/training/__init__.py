"""Live view of a training run in the terminal."""
