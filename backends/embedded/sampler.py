"""The sampler: answers many requests at once from one small model in this process.

Requests are batched continuously: each step computes one token of every answer in progress, and
as much of the waiting prompts as fits beside them. What a chat's earlier turns left in the cache is
not computed again. The event loop hands requests in and takes tokens out; all computing happens
in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from arena.core.errors import BackendError, ContextOverflow, UsageError
from arena.llm.backend import Message
from backends.embedded.batching import Batcher
from backends.embedded.cache import Prompt
from backends.embedded.constrained_decoding import GuideMaker
from backends.embedded.model import Model, agreeing_tiles, one_thread
from backends.embedded.scheduler import Running, Stats
from backends.embedded.token_sampling import Draw, Drawn, TopLogprob
from backends.embedded.tokens import ChatTokenizer
from backends.embedded.weights import (
    Shape,
    Weights,
    fuse,
    merge_lora,
    read_config,
    read_shape,
    read_state,
)

__all__ = ["Draw", "Drawn", "QueueFull", "Sampler", "Stats", "TopLogprob"]

LONGEST_CONTEXT = 8192
"""Without a wish, no context is longer than this: memory is set aside for whole contexts."""
POOL_BYTES = 2**30
"""Memory for the keys and values of chats, of which only what is used is taken."""
CHATS_PER_SLOT = 8
"""Chats that are remembered, for each request that may run."""


class QueueFull(BackendError):
    """More requests are waiting than the sampler takes."""

    def __init__(self, waiting: int) -> None:
        super().__init__(
            f"{waiting} requests are waiting already", "rate_limit", retryable=True, retry_after=1.0
        )


class Sampler:
    """A Qwen3 checkpoint, ready to answer. Used from any event loop; close it when done.

    `slots` requests run at once and up to `max_queue` more wait. `threads` compute (by default one
    per processor, at most four). Raises UsageError if the folder holds no such checkpoint.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        slots: int = 32,
        context_length: int | None = None,
        max_queue: int = 1024,
        threads: int | None = None,
    ) -> None:
        config = read_config(folder)
        shape = read_shape(config)
        chosen = torch.device(_device(device))
        self.name = folder.name
        self.context_length = min(context_length or LONGEST_CONTEXT, shape.context)
        self.chat = ChatTokenizer(folder, config)
        self.tokenizer = self.chat.tokenizer
        self.end_ids = self.chat.end_ids
        self._state = read_state(folder)
        with one_thread():
            self._base = fuse(self._state, shape, chosen)
        self._adapters: dict[str, Weights] = {}
        self._folders: dict[str, Path] = {}
        self._guides = GuideMaker(self.tokenizer, shape.vocabulary, self.end_ids)
        regions = _regions(slots, self.context_length, shape)
        model = Model(shape, chosen, self.context_length, regions, agreeing_tiles(self._base))
        self._batcher = Batcher(model, self.chat, min(slots, regions), threads)
        self._max_queue = max_queue
        self._lock = threading.Lock()
        self.stats = self._batcher.stats
        # Also when it is forgotten, and at exit: threads that compute then would crash.
        self._finish = weakref.finalize(self, self._batcher.close)

    @property
    def device(self) -> str:
        """Where it computes: `cpu` or `cuda`."""
        return str(self._batcher.model.device)

    @property
    def adapters(self) -> tuple[str, ...]:
        """The names of the adapters that are loaded."""
        return tuple(self._adapters)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The prompt for an answer to this chat."""
        return self.chat.encode(messages)

    async def generate(
        self, prompt: Sequence[int], draw: Draw, adapter: str | None = None
    ) -> AsyncGenerator[Drawn, None]:
        """Sample an answer, token by token; the last one has a finish reason.

        An answer that reaches the end of the context is finished by "length". Closing the
        iterator ends the request. Raises ContextOverflow if not even one token fits behind the
        prompt, QueueFull, and UsageError for an unknown adapter or a bad `draw`.
        """
        running = self._admit(list(prompt), draw, adapter)
        self._batcher.submit(running)
        try:
            while True:
                drawn = await running.next()
                yield drawn
                if drawn.finish_reason is not None:
                    return
        finally:
            running.cancelled = True

    def _admit(self, prompt: list[int], draw: Draw, adapter: str | None) -> Running:
        draw.check()
        if adapter is not None and adapter not in self._adapters:
            raise UsageError(f"no adapter '{adapter}' is loaded")
        if not prompt or not all(
            0 <= token < self._batcher.model.shape.vocabulary for token in prompt
        ):
            raise UsageError("the prompt is empty, or has ids that are not in the vocabulary")
        if len(prompt) >= self.context_length:
            raise ContextOverflow(
                f"the prompt has {len(prompt)} tokens; {self.name} takes {self.context_length}, "
                "the answer included"
            )
        if self.stats.waiting >= self._max_queue:
            raise QueueFull(self.stats.waiting)
        weights = self._base if adapter is None else self._adapters[adapter]
        hashed = Prompt.of(prompt, weights)
        loop = asyncio.get_running_loop()
        guide = self._guides.make(draw)
        return Running(hashed, draw, guide, self.chat.stream(draw.stop), loop)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Make a PEFT LoRA adapter available; one of that name is replaced. Raises UsageError.

        Requests under way finish with what they began with.
        """
        merged = merge_lora(self._state, folder)
        weights = fuse(merged, self._batcher.model.shape, self._batcher.model.device)
        with self._lock:
            self._adapters[name], self._folders[name] = weights, folder

    def load_named(self, name: str, state: Mapping[str, Tensor]) -> None:
        """Answer with these weights for whoever asks for the adapter `name`.

        Names as in transformers, all of them; `unload_adapter` forgets them.
        """
        weights = fuse(state, self._batcher.model.shape, self._batcher.model.device)
        with self._lock:
            self._adapters[name] = weights
            self._folders.pop(name, None)

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Raises UsageError if it is not loaded."""
        with self._lock:
            if self._adapters.pop(name, None) is None:
                raise UsageError(f"no adapter '{name}' is loaded")
            self._folders.pop(name, None)

    def load_weights(self, state: Mapping[str, Tensor]) -> None:
        """Answer with these weights from now on (names as in transformers, all of them).

        Nothing cached under the old ones is used again; adapters are merged anew. Requests under
        way finish with what they began with.
        """
        shape, device = self._batcher.model.shape, self._batcher.model.device
        base = fuse(state, shape, device)
        kept = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
        with self._lock:
            self._state, self._base = kept, base
            for name, folder in self._folders.items():
                self._adapters[name] = fuse(merge_lora(kept, folder), shape, device)

    async def close(self) -> None:
        """End the requests under way (with a BackendError) and give back thread and memory."""
        await asyncio.get_running_loop().run_in_executor(None, self._finish)


def _device(wish: str) -> str:
    if wish != "auto":
        return wish
    return "cuda" if torch.cuda.is_available() else "cpu"


def _regions(slots: int, context: int, shape: Shape) -> int:
    """How many chats fit into the pool; at least one, however large."""
    bytes_each = 2 * shape.layers * shape.kv_heads * shape.head_dim * 4 * context
    return max(1, min(slots * CHATS_PER_SLOT, POOL_BYTES // bytes_each))
