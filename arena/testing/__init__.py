"""Conformance kit for games."""
