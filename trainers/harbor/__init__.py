"""Tasks of Harbor, the framework behind Terminal-Bench: `arena harbor task`.

task.py    writes the folder of a task from templates and a recorded game
score.py   runs in the container of the game after the agent, and writes the rewards
"""
