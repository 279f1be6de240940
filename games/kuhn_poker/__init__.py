"""Kuhn poker: betting with three cards."""
