"""Cache of completions on disk, so that equal requests are paid for once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from arena.core.errors import ArenaError
from arena.llm.backend import Call, Completion, Layer, Request
from arena.llm.ledger import Tally

VERSION = 6
"""Version of the file and of its keys; raise it when Request or Completion change."""
FIRST_LINE = b"arena-response-cache %d\n" % VERSION

_COMPLETIONS = TypeAdapter(Completion)


class ResponseCache:
    """File to which each completion adds a line: the digest of (SPEC, request), and JSON.

    It holds completions and digests: no prompt, no SPEC, no API key. A request with a temperature
    above 0 and without a seed gets the completion of the first such request. So do not use a cache
    to draw several completions of one request, or where weights change under the same name without
    a policy version.

    Several processes may use one file, which is neither locked nor mapped. If it fails during the
    run, `notify` gets one line and the run goes on without the cache.
    """

    def __init__(self, path: Path, notify: Callable[[str], None]) -> None:
        """Open or create the file. Raises ArenaError if that fails."""
        self._path = path
        self._notify = notify
        self._is_sound = True
        self._places: dict[str, int] = {}
        """Offsets of the lines, by digest."""
        self._end = 0
        """Offset up to which lines were taken in."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                file.seek(0)
                first = file.readline(len(FIRST_LINE))
                if first not in (b"", FIRST_LINE):
                    raise OSError(f"its first line is not {FIRST_LINE.decode().strip()}")
                # An empty line, because the session before may have been killed in one.
                file.write(b"\n" if first else FIRST_LINE)
            # A line is written by one call at the end of the file, whoever else writes there.
            self._file, self._lines = path.open("ab", buffering=0), path.open("rb")
            self._take_in()
        except OSError as error:
            raise ArenaError(
                f"response cache {path}: {error.strerror or error}; if it is not a cache of this "
                "version of arena, name another file, otherwise delete it"
            ) from error

    def get(self, spec: str, request: Request) -> Completion | None:
        """Return the stored completion, marked `cached`, or None."""
        key = key_of(spec, request)
        try:
            if key not in self._places:
                self._take_in()
            if key not in self._places:
                return None
            self._lines.seek(self._places[key])
            _, _, text = self._lines.readline().partition(b" ")
            return replace(_COMPLETIONS.validate_json(text), cached=True)
        except ValidationError:  # The new answer will take its place.
            return None
        except OSError as error:
            self._give_up(error)
            return None

    def put(self, spec: str, request: Request, completion: Completion) -> None:
        """Store a completion; the latest one for a request stays."""
        text = json.dumps(asdict(completion), separators=(",", ":"))
        self._write(key_of(spec, request), text)

    def close(self) -> None:
        self._file.close()
        self._lines.close()

    def _write(self, key: str, text: str) -> None:
        """Add a line, and take it in."""
        if not self._is_sound:
            return
        line = f"{key} {text}\n".encode()
        try:
            if self._file.write(line) != len(line):
                raise OSError("the disk is full")
            self._take_in()
        except OSError as error:
            self._give_up(error)

    def _take_in(self) -> None:
        """Read the lines that were added since the last time, also by other processes."""
        self._lines.seek(self._end)
        # The last line may still be written.
        while (line := self._lines.readline()).endswith(b"\n"):
            key, _, _ = line.partition(b" ")
            self._places[key.decode(errors="replace")] = self._end
            self._end += len(line)

    def _give_up(self, error: OSError) -> None:
        self._is_sound = False
        self._notify(f"response cache {self._path}: {error}; going on without it")


@dataclass(eq=False, slots=True)
class Cached:
    """Layer that answers calls from a cache, and stores the answers to the others."""

    inner: Layer
    spec: str
    cache: ResponseCache
    tally: Tally

    async def complete(self, call: Call) -> Completion:
        if kept := self.cache.get(self.spec, call.request):
            self.tally.cached += 1
            return kept
        completion = await self.inner.complete(call)
        self.cache.put(self.spec, call.request, completion)
        return completion


def key_of(spec: str, request: Request) -> str:
    """Return the SHA-256 of the canonical JSON of the SPEC and the request."""
    # The whole request: each field may change the answer.
    whole = [VERSION, spec, asdict(request)]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Replies may hold lone surrogates, which plain UTF-8 refuses.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
