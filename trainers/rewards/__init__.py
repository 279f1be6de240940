"""What a game was worth to a seat that learns: a weighted sum of named terms.

    rewards = Rewards.parse("win=1,information=0.5", game)
    scored = rewards.score(Rollout(game, episode, seat))

terms.py        the terms themselves, each a `Term`; the catalog's kind `reward`
information.py  what a seat has found out, decision by decision
scoring.py      from the text of --reward to a number
groups.py       what sees all trajectories of a group at once: a judge
loading.py      functions of one's own, by `module:function`
"""

from arena.episodes.reward import Rollout, Term
from trainers.rewards.groups import GroupScorer, load_group_scorer, score_group
from trainers.rewards.information import information_gains
from trainers.rewards.scoring import Rewards, Scored, TermLine, default_reward

__all__ = [
    "GroupScorer",
    "Rewards",
    "Rollout",
    "Scored",
    "Term",
    "TermLine",
    "default_reward",
    "information_gains",
    "load_group_scorer",
    "score_group",
]
