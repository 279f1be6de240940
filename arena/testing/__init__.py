"""Conformance kit: checks that every game must pass, above all that it leaks nothing."""

from arena.testing.conformance import check_game

__all__ = ["check_game"]
