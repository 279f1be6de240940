"""Hanabi: a cooperative card game in which players see all hands but their own."""
