"""OpenSpiel: 126 games, M. Lanctot et al., "OpenSpiel: A framework for reinforcement learning in
games", arXiv 1908.09453."""
