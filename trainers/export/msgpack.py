"""Encoder of MessagePack for JSON values: https://github.com/msgpack/msgpack/blob/master/spec.md

Floats are written as 64 bits, so log-probabilities are exact. Integers, strings, lists and maps
take the shortest form that holds them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

# Prefix byte and struct format of the lengths that do not fit into the prefix itself.
_STRINGS = ((0xD9, "B", 1 << 8), (0xDA, "H", 1 << 16), (0xDB, "I", 1 << 32))
_LISTS = ((0xDC, "H", 1 << 16), (0xDD, "I", 1 << 32))
_MAPS = ((0xDE, "H", 1 << 16), (0xDF, "I", 1 << 32))
_UNSIGNED = ((0xCC, "B", 1 << 8), (0xCD, "H", 1 << 16), (0xCE, "I", 1 << 32), (0xCF, "Q", 1 << 64))
_SIGNED = ((0xD0, "b", 1 << 7), (0xD1, "h", 1 << 15), (0xD2, "i", 1 << 31), (0xD3, "q", 1 << 63))


def pack(value: JsonValue) -> bytes:
    """Return the bytes of a value. Raises OverflowError for an integer of more than 64 bits."""
    return b"".join(_parts(value))


def _parts(value: JsonValue) -> Iterator[bytes]:
    # bool is a subclass of int, so it comes first.
    if value is None:
        yield b"\xc0"
    elif isinstance(value, bool):
        yield b"\xc3" if value else b"\xc2"
    elif isinstance(value, int):
        yield _integer(value)
    elif isinstance(value, float):
        yield b"\xcb" + struct.pack(">d", value)
    elif isinstance(value, str):
        # A reply may hold lone surrogates, which no UTF-8 has.
        raw = value.encode("utf-8", "replace")
        yield _length(len(raw), 0xA0, 32, _STRINGS) + raw
    elif isinstance(value, Mapping):
        yield _length(len(value), 0x80, 16, _MAPS)
        for key, each in value.items():
            yield from _parts(key)
            yield from _parts(each)
    else:
        yield _length(len(value), 0x90, 16, _LISTS)
        for each in value:
            yield from _parts(each)


def _length(length: int, short: int, limit: int, forms: Sequence[tuple[int, str, int]]) -> bytes:
    """Return the prefix of a string, list or map; lengths below `limit` are part of its byte."""
    if length < limit:
        return bytes((short | length,))
    return _sized(length, forms)


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack("b", value)
    return _sized(value, _UNSIGNED if value > 0 else _SIGNED)


def _sized(value: int, forms: Sequence[tuple[int, str, int]]) -> bytes:
    for prefix, form, limit in forms:
        # Signed forms reach one further below zero.
        if -limit <= value < limit:
            return struct.pack(f">B{form}", prefix, value)
    raise OverflowError(f"{value} has more than 64 bits")
