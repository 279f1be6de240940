"""Intervals, confidence sequences, control variates and ratings."""
