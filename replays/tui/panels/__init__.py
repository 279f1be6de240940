"""Panels of the terminal viewer, one module each."""
