"""Rollouts: full games of a training step, and their trajectories.

rollouts.py      plays the groups of a step on an executor
rollout_game.py  the rewards of one game
attempts.py      requests and answers of models in a finished game
trajectories.py  a finished game as ART's trajectory of one seat
"""
