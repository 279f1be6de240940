"""Measurement of players: schedules, scores, statistics, stored results, reports."""
