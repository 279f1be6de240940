"""Transfer of new weights to a server that answers the rollouts, and proof of the transfer."""
