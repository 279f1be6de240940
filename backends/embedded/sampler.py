"""The sampler: answers many requests concurrently with one small model in this process.

Requests are batched continuously: each step computes one token of every answer in progress and as
many tokens of waiting prompts as fit beside them. Keys and values of earlier turns of a chat are
reused. The event loop submits requests and receives tokens; a separate thread does the computing.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from arena.core.errors import BackendError, ContextOverflow, UsageError
from arena.core.version import __version__
from arena.llm.backend import Message
from backends.embedded.architecture import default_slots, parse_architecture, read_model_config
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
from backends.embedded.scheduler import (
    HashedPrompt,
    PrefixCache,
    ScheduledSequence,
    SequenceState,
    balance_load,
    schedule_step,
)
from backends.embedded.token_sampling import (
    ConstraintFactory,
    GeneratedToken,
    IncrementalDetokenizer,
    SamplingParams,
    log_softmax,
    sample_token,
    top_logprobs,
    without_end,
)
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
        self._constraints = ConstraintFactory(self.tokenizer, self.end_ids[0])
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
            detokenizer=IncrementalDetokenizer(self.chat_tokenizer.text_of, params.stop),
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


NewToken = tuple[SequenceState, GeneratedToken]
"""A token, with the sequence that waits for it."""
CUDA_PREFILL_SHARES = 8
"""Shares of a step's prompt tokens on CUDA; on a CPU each thread has one."""


class Batcher:
    """Computes requests in a thread of its own, with helper threads within a step.

    The lock of `_wakeup` protects `waiting` and `_closing`. Everything else belongs to the
    batcher's thread.
    """

    def __init__(
        self, model: InferenceModel, tokenizer: ChatTokenizer, slots: int, threads: int | None
    ) -> None:
        self.model = model
        self._tokenizer = tokenizer
        self._slots = slots
        # One thread feeds a GPU; on a CPU several threads share each step.
        # torch's number follows the affinity of the process and OMP_NUM_THREADS.
        on_cpu, cores = model.device.type == "cpu", torch.get_num_threads()
        self._threads = (threads or min(4, cores)) if on_cpu else 1
        # Where a launch costs more than its tokens, a step takes more of a prompt.
        self._prefill_shares = self._threads if on_cpu else CUDA_PREFILL_SHARES
        self._default_torch_threads = torch.get_num_threads()
        self._cache = PrefixCache(model.regions, model.copy_prefix)
        self.waiting: list[SequenceState] = []
        self.running: list[SequenceState] = []
        self._wakeup = threading.Condition()
        self._closing = False
        helpers = max(1, self._threads - 1) if on_cpu else min(8, cores)
        self._helpers = ThreadPoolExecutor(helpers, "sampler")
        # A daemon, so that a forgotten sampler cannot keep the process alive.
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def submit(self, sequence: SequenceState) -> None:
        """Queue a request. Raises BackendError after `close`."""
        with self._wakeup:
            if self._closing:  # Checked under the lock, so that no request is left behind.
                raise _stopped_error()
            self.waiting.append(sequence)
            self._wakeup.notify()

    def close(self) -> None:
        """Fail all unfinished requests and end the threads."""
        with self._wakeup:
            self._closing = True
            self._wakeup.notify()
        # After this no thread uses the model, so its memory may be released.
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._admit()
                # Nothing runs if all waiting requests were cancelled meanwhile.
                if self.running:
                    self._step()
        finally:  # Also after an unexpected error: no client may wait for ever.
            with self._wakeup:
                self._closing = True
                unfinished = [*self.running, *self.waiting]
            self._helpers.shutdown()
            for sequence in unfinished:
                _call_in_loop(sequence.loop, sequence.new_tokens.put_nowait, _stopped_error())

    def _wait_for_work(self) -> bool:
        """Sleep while there is no request; return False when the batcher is closing."""
        with self._wakeup:
            while not (self._closing or self.waiting or self.running):
                # Undo the setting of `_compute` for the rest of the process.
                torch.set_num_threads(self._default_torch_threads)
                self._wakeup.wait()
            return not self._closing

    def _admit(self) -> None:
        """Drop cancelled requests and start waiting ones, in their order, in free slots."""
        for sequence in [sequence for sequence in self.running if sequence.cancelled]:
            self._remove(sequence)
        with self._wakeup:
            waiting = list(self.waiting)
        # A later request may overtake one that waits for the prefix of a running request. A
        # cancelled one has no region yet, so there is nothing to release.
        postponed = [
            sequence
            for sequence in waiting
            if not sequence.cancelled
            and (len(self.running) >= self._slots or not self._start(sequence))
        ]
        with self._wakeup:
            # In front of the requests that were submitted meanwhile.
            self.waiting[: len(waiting)] = postponed

    def _start(self, sequence: SequenceState) -> bool:
        """Start a request; return False if waiting for the prefill of another one is better."""
        sequence.region = self._cache.acquire(sequence.prompt)
        if sequence.region is None:
            return False
        # Prefill continues after the cached tokens.
        sequence.cached_tokens = sequence.computed_tokens = len(sequence.region.tokens)
        self.running.append(sequence)
        return True

    def _remove(self, sequence: SequenceState) -> None:
        assert sequence.region is not None
        self._cache.release(sequence.region)
        self.running.remove(sequence)

    def _step(self) -> None:
        """Compute one step on all threads and deliver the new tokens."""
        scheduled = schedule_step(self.running, self.model.context, self._prefill_shares)
        per_thread = balance_load(scheduled, self._threads)
        futures = [self._helpers.submit(self._compute, items) for items in per_thread[1:] if items]
        new_tokens = self._compute(per_thread[0])  # This thread takes a share too.
        for future in futures:
            new_tokens += future.result()
        # Only after all threads are done: other requests may then copy these keys and values.
        for item in scheduled:
            self._record_progress(item)
        for sequence in [sequence for sequence in self.running if sequence.finished]:
            self._remove(sequence)
        # One call per event loop and step: waking a loop costs more than delivering a token.
        for loop in {sequence.loop for sequence, _ in new_tokens}:
            _call_in_loop(loop, _deliver, [item for item in new_tokens if item[0].loop is loop])

    def _compute(self, items: Sequence[ScheduledSequence]) -> list[NewToken]:
        """Compute the sequences of one thread and sample their next tokens."""
        # More torch threads would only wait for each other: the kernels are too short. The setting
        # holds for this thread and for threads that start now; `_wait_for_work` resets it.
        torch.set_num_threads(1)
        new_tokens = list[NewToken]()
        # Sequences with different weights (adapters) cannot share a matrix product.
        for weights in {item.sequence.prompt.weights for item in items}:
            group = [item for item in items if item.sequence.prompt.weights is weights]
            group.sort(key=lambda item: not item.chunks[0].is_decode)  # Decoding ones first.
            chunks = [chunk for item in group for chunk in item.chunks]
            # Rows [vocabulary] in the order of the chunks. Each tile is computed when its first row
            # is taken, so that the logits of one tile at a time are in memory.
            rows = chain.from_iterable(
                self.model.forward(weights, tile).cpu().numpy()
                for tile in self.model.make_tiles(chunks)
            )
            ends = [(item.sequence, next(rows)) for item in group if item.chunks[-1].has_logits]
            deque(rows, maxlen=0)  # Computes the tiles after the last one with logits.
            # On a CPU the helpers have work of their own. numpy lets threads run side by side.
            draw = map if self.model.device.type == "cpu" else self._helpers.map
            tokens = draw(lambda end: self._sample(*end), ends)
            new_tokens += zip((sequence for sequence, _ in ends), tokens, strict=True)
        return new_tokens

    def _record_progress(self, item: ScheduledSequence) -> None:
        sequence, last = item.sequence, item.chunks[-1]
        sequence.computed_tokens = last.start + len(last.tokens)
        # The prompt is complete.
        if not last.is_decode and sequence.computed_tokens == len(sequence.prompt.tokens):
            assert sequence.region is not None
            self._cache.publish(sequence.region, sequence.prompt)

    def _sample(self, sequence: SequenceState, logits: NDArray[np.float32]) -> GeneratedToken:
        """Sample the next token of a sequence from its logits [vocabulary]."""
        params, constraint = sequence.params, sequence.constraint
        allowed = constraint.allowed() if constraint else None
        if len(sequence.output_ids) < params.min_tokens:
            allowed = without_end(allowed, len(logits), self._tokenizer.end_ids)
        logprobs = log_softmax(logits.astype(np.float64))
        token, sampled_logprob = sample_token(logprobs, params, sequence.uniform(), allowed)
        sequence.output_ids.append(token)
        if constraint is not None:
            constraint.advance(token)
        # The end token counts as a token of the answer but has no text.
        is_end = token in self._tokenizer.end_ids
        text = "" if is_end else sequence.detokenizer.push(token)
        length = len(sequence.prompt.tokens) + len(sequence.output_ids)
        finish_reason: Literal["stop", "length"] | None = None
        if is_end or sequence.detokenizer.stopped:
            finish_reason = "stop"
        elif len(sequence.output_ids) >= params.max_tokens or length >= self.model.context:
            finish_reason = "length"
        if finish_reason is not None:
            sequence.finished = True
            text += sequence.detokenizer.flush()  # Text held back for a possible stop string.
        return GeneratedToken(
            id=token,
            text=text,
            logprob=float(logprobs[token]),
            sampled_logprob=sampled_logprob,
            top=top_logprobs(logprobs, params.top_logprobs, self._tokenizer.token_text),
            finish_reason=finish_reason,
            cached_tokens=sequence.cached_tokens,
        )


def _stopped_error() -> BackendError:
    return BackendError("the sampler has stopped", "server_error")


def _deliver(new_tokens: Sequence[NewToken]) -> None:
    for sequence, token in new_tokens:
        sequence.new_tokens.put_nowait(token)


def _call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object
) -> None:
    # RuntimeError: the loop has been closed, so no client waits for the token.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
