"""Flags, seating and reports that several commands share."""
