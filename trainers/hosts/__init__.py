"""Hosts: who holds the weights that are trained, and who serves them."""
