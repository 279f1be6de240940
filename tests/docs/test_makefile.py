"""The Makefile, with a stand-in for Python and pip."""

from __future__ import annotations
