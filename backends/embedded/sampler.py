"""The sampler: answers many requests concurrently with one small model in this process.

Requests are batched continuously: each step computes one token of every answer in progress and as
many tokens of waiting prompts as fit beside them. Keys and values of earlier turns of a chat are
reused. The event loop submits requests and receives tokens; a separate thread does the computing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal

import torch

from arena.core.errors import BackendError, ContextOverflow, UsageError
from arena.core.version import __version__
from arena.llm.backend import Message
from backends.embedded.architecture import default_slots, parse_architecture, read_model_config
from backends.embedded.batching import Batcher
from backends.embedded.constrained_decoding import ConstraintFactory
from backends.embedded.layers import (
    ModelWeights,
    StateDict,
    adapt,
    chosen_device,
    fuse_weights,
    merged,
    read_state_dict,
    torch_threads,
)
from backends.embedded.model import CUDA_TILE_SIZES, InferenceModel, batch_invariant_tiles
from backends.embedded.scheduler import HashedPrompt, SequenceState
from backends.embedded.token_sampling import GeneratedToken, SamplingParams
from backends.embedded.tokenizer import ChatTokenizer

__all__ = ["GeneratedToken", "Sampler", "SamplingParams"]

SamplingPrecision = Literal["float32", "bf16"]
RESERVED_SHARE = 1 / 4
"""Most of the context that is kept free for an answer."""


class Sampler:
    """A checkpoint, loaded for sampling. Usable from any event loop; close it after use.

    Args:
        folder: The checkpoint, in the Hugging Face format.
        device: "auto", "cpu" or "cuda".
        slots: Requests that run concurrently; by default 32, on CUDA 64.
        context_length: Tokens of prompt and answer; by default the model's, at most 8192.
        max_queue: Further requests that may wait.
        threads: Threads that compute; by default those that torch may use, at most four.
        precision: Type of the matrices. bf16 needs half the memory for them and about half the
            time on a processor that multiplies in it; probabilities move.

    Raises UsageError if the folder has no checkpoint of a supported family.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        slots: int | None = None,
        context_length: int | None = None,
        max_queue: int = 1024,
        threads: int | None = None,
        precision: SamplingPrecision = "float32",
    ) -> None:
        config = read_model_config(folder)
        architecture = parse_architecture(config, str(folder))
        torch_device = chosen_device(device)
        self.name = folder.name
        self.context_length = architecture.chat_tokens(context_length or 0)
        self.chat_tokenizer = ChatTokenizer(folder, config)
        self.tokenizer = self.chat_tokenizer.tokenizer
        self.end_ids = self.chat_tokenizer.end_ids
        self._state = read_state_dict(folder)
        with torch_threads(1):
            self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            self._base = fuse_weights(self._state, architecture, torch_device, self._dtype)
        self._adapters: dict[str, ModelWeights] = {}
        self._constraints = ConstraintFactory(self.tokenizer, architecture.vocabulary, self.end_ids)
        cuda_memory = 0
        if torch_device.type == "cuda":
            cuda_memory = torch.cuda.get_device_properties(torch_device).total_memory
        slots = slots or default_slots(cuda_memory)
        # Each running request is a chat in the cache, so there are never more slots than chats.
        self.kept_chats = architecture.cache_chats(self.context_length, cuda_memory, slots)
        model = InferenceModel(
            architecture,
            torch_device,
            self.context_length,
            self.kept_chats,
            batch_invariant_tiles(self._base) if torch_device.type == "cpu" else CUDA_TILE_SIZES,
        )
        self._batcher = Batcher(model, self.chat_tokenizer, min(slots, self.kept_chats), threads)
        self._max_queue = max_queue
        # Also runs when the sampler is garbage-collected and at exit: threads that compute while
        # the interpreter shuts down would crash.
        self._finalizer = weakref.finalize(self, self._batcher.close)

    @property
    def device(self) -> str:
        """Return the device: `cpu` or `cuda`."""
        return str(self._batcher.model.device)

    @property
    def engine(self) -> str:
        """Return what samples: `arena 0.1.0, float32, cpu`."""
        dtype = str(self._dtype).removeprefix("torch.")
        return f"arena {__version__}, {dtype}, {self.device}"

    @property
    def adapters(self) -> tuple[str, ...]:
        """Return the names of the loaded adapters."""
        return tuple(self._adapters)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt tokens for an answer to this chat."""
        return self.chat_tokenizer.encode(messages)

    async def generate(
        self, prompt: Sequence[int], params: SamplingParams, adapter: str | None = None
    ) -> AsyncGenerator[GeneratedToken, None]:
        """Sample an answer, token by token; the last token has a finish reason.

        An answer that reaches the end of the context finishes with "length". Closing the iterator
        cancels the request.

        Args:
            prompt: Token ids.
            params: Sampling parameters.
            adapter: Name of a loaded adapter; None for the base weights.

        Raises:
            ContextOverflow: The answer may not fit after the prompt (see RESERVED_SHARE).
            UsageError: Unknown adapter, invalid prompt or invalid parameters.
            BackendError: Too many requests are waiting, or the sampler was closed.
        """
        sequence = self._make_sequence(list(prompt), params, adapter)
        self._batcher.submit(sequence)
        try:
            finish_reason = None
            while finish_reason is None:
                token = await sequence.new_tokens.get()
                if isinstance(token, BackendError):
                    raise token
                yield token
                finish_reason = token.finish_reason
        finally:  # Also when the caller closes the iterator or is cancelled.
            sequence.cancelled = True

    def _make_sequence(
        self, prompt: list[int], params: SamplingParams, adapter: str | None
    ) -> SequenceState:
        params.validate()
        if adapter is not None and adapter not in self._adapters:
            raise UsageError(f"adapter '{adapter}' is not loaded")
        vocabulary = self._batcher.model.architecture.vocabulary
        if not prompt or not all(0 <= token < vocabulary for token in prompt):
            raise UsageError("the prompt is empty, or contains ids outside the vocabulary")
        # The end of the context must not cut an answer off.
        room = max(1, min(params.max_tokens, int(RESERVED_SHARE * self.context_length)))
        if len(prompt) + room > self.context_length:
            raise ContextOverflow(
                f"the prompt has {len(prompt)} tokens and the answer needs {room}; the context of "
                f"{self.name} is {self.context_length} tokens"
            )
        # Checked before the request is hashed and tokenized for its constraint.
        if (waiting := len(self._batcher.waiting)) >= self._max_queue:
            message = f"the queue is full: {waiting} requests are waiting"
            raise BackendError(message, "rate_limit", retryable=True, retry_after=1.0)
        weights = self._base if adapter is None else self._adapters[adapter]
        return SequenceState(
            prompt=HashedPrompt.of(prompt, weights),
            params=params,
            constraint=self._constraints.create(params),
            detokenizer=self.chat_tokenizer.make_detokenizer(params.stop),
            loop=asyncio.get_running_loop(),
            uniform=params.make_rng().random,
        )

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load a PEFT LoRA adapter, or replace the one of that name. Raises UsageError.

        Running requests finish with the weights with which they started.
        """
        self.load_adapter_weights(name, merged(adapt(self._state, folder)))

    def load_adapter_weights(self, name: str, state: StateDict) -> None:
        """Load the complete weights of a model under the name of an adapter.

        Tensor names are those of transformers. Raises UsageError for a missing tensor.
        """
        model = self._batcher.model
        weights = fuse_weights(state, model.architecture, model.device, self._dtype)
        # One operation, since this may be a thread beside the event loop that reads them.
        self._adapters[name] = weights

    def unload_adapter(self, name: str) -> None:
        """Remove an adapter. Raises UsageError if it is not loaded."""
        if self._adapters.pop(name, None) is None:
            raise UsageError(f"adapter '{name}' is not loaded")

    async def close(self) -> None:
        """Fail running requests with a BackendError and release threads and memory."""
        await asyncio.get_running_loop().run_in_executor(None, self._finalizer)
