"""Rewards of a finished game for the seat that learns: a weighted sum of named terms.

    rewards = Rewards.parse("win=1,information=0.5", game)
    breakdown = rewards.score(SeatEpisode(game, episode, seat))

terms.py        the generic terms, each a `RewardTerm`; the catalog's kind `reward`
information.py  entropy that each decision removed (potential-based shaping)
scoring.py      from the text of --reward to a number
groups.py       scorers that see all trajectories of a group, for example a judge model
loading.py      user functions by `module:function`
turns.py        the reward of each decision, for trainers that credit single replies
"""

from arena.episodes.measurement import RewardTerm, SeatEpisode
from trainers.rewards.groups import GroupScorer, load_group_scorer, score_group
from trainers.rewards.information import information_gains
from trainers.rewards.scoring import RewardBreakdown, Rewards, TermSummary, default_reward

__all__ = [
    "GroupScorer",
    "RewardBreakdown",
    "RewardTerm",
    "Rewards",
    "SeatEpisode",
    "TermSummary",
    "default_reward",
    "information_gains",
    "load_group_scorer",
    "score_group",
]
