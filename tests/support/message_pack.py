"""Decoder of MessagePack, for tests: written from the specification, apart from the encoder."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any

NUMBERS = {
    **{0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"},
    **{0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"},
}
SIZES = {
    **{0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I")},
    **{0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I")},
}


def unpack_all(raw: bytes) -> Iterator[Any]:
    """The values in a file, one after another."""
    stream = BytesIO(raw)
    while stream.tell() < len(raw):
        yield unpack(stream)


def unpack(stream: BytesIO) -> Any:
    head = stream.read(1)[0]
    if head < 0x80 or head >= 0xE0:
        return struct.unpack("b", bytes((head,)))[0]
    if head in NUMBERS:
        return _number(stream, NUMBERS[head])
    if head in {0xC0, 0xC2, 0xC3}:
        return {0xC0: None, 0xC2: False, 0xC3: True}[head]
    if head in SIZES:
        kind, form = SIZES[head]
        size = _number(stream, form)
    else:
        kind = "map" if head < 0x90 else "list" if head < 0xA0 else "text"
        size = head & (0x1F if kind == "text" else 0x0F)
    if kind == "text":
        return stream.read(size).decode()
    if kind == "list":
        return [unpack(stream) for _ in range(size)]
    return {unpack(stream): unpack(stream) for _ in range(size)}


def _number(stream: BytesIO, form: str) -> Any:
    return struct.unpack(form, stream.read(struct.calcsize(form)))[0]
