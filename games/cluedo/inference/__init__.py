"""Exact knowledge: constraints, counting of the consistent deals, and probabilities."""
