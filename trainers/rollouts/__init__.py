"""Rollouts: full games of a training step, and their trajectories."""
