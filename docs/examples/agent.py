"""Plays any game at random: arena play GAME --seat "0=agent:python docs/examples/agent.py"."""

import json
import random
import sys

rng = random.Random(1)  # A seed, so that equal commands play equal games.


def choose(message: dict[str, list[str]]) -> str:
    """Return a legal action; a better player reads message["text"] or message["events"]."""
    return rng.choice(message["legal_actions"])


for line in sys.stdin:  # It ends with the game.
    message = json.loads(line)
    if message["type"] == "start":
        print(f"I am {message['names'][message['seat']]}", file=sys.stderr)
        answer = {"name": "random.py"}
    else:
        answer = {"action": choose(message), "comment": "drawn at random"}
    print(json.dumps(answer), flush=True)
