"""Losses, batching and the update of the weights."""
