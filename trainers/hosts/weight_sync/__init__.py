"""Updates of the weights of a server that answers the rollouts."""
