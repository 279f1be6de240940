"""The type of JSON values."""

from __future__ import annotations

from typing import Any

Json = Any
"""A value that the json module can write."""
