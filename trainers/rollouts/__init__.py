"""Rollouts: full games of a training step, and their trajectories.

rollouts.py      plays the groups of a step on an executor
trajectories.py  a finished game: attempts, rewards, and the trajectory of a seat
opponents.py     seeds of deals, and the mix of opponents
expert.py        what a stronger player would have done at the learner's decisions
step_games.py    the tables of each step, and games of later steps ahead of time
"""
