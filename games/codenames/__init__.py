"""Codenames: two teams find their words by clues of one word."""
