"""PettingZoo's classic environments: J. Terry et al., "PettingZoo: Gym for multi-agent
reinforcement learning", arXiv 2009.14471."""
