"""Transfer of new weights to servers that answer the rollouts, and proof of the transfer."""
