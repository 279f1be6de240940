"""The heap of the C library, which keeps memory that was freed."""

from __future__ import annotations

import ctypes
from functools import cache

MOST_FREE = 10**9
"""Bytes that may stay free in the heap. Returning them costs time, since they are soon used again:
an eighth of an update for a model of 1 M parameters, which leaves less free than this."""

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
"""Numbers that glibc gives of its heap; `fordblks` are the free bytes."""


class _HeapInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in FIELDS.split())


@cache
def _glibc() -> ctypes.CDLL | None:
    """Return the C library, if it is glibc 2.33 or newer."""
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _HeapInfo
    except (TypeError, AttributeError):  # Windows; another C library.
        return None
    return library


def return_free_memory() -> None:
    """Return the free parts of the heap to the system if they are larger than `MOST_FREE`.

    Passes of changing sizes leave holes that later ones do not fill. Does nothing without glibc.
    """
    library = _glibc()
    if library is not None and library.mallinfo2().fordblks > MOST_FREE:
        library.malloc_trim(0)
