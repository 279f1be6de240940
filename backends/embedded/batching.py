"""Continuous batching: which tokens of which requests each step computes, and what comes of it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from arena.core.errors import BackendError
from backends.embedded.cache import PrefixCache
from backends.embedded.model import BLOCK, Chunk, Model
from backends.embedded.scheduler import Running, Stats
from backends.embedded.token_sampling import Drawn, TopLogprob, pick
from backends.embedded.tokens import ChatTokenizer

PROMPT_ROWS = 256
"""Prompt tokens that one step computes for each thread, so that answers in progress go on."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a step does for one request."""

    running: Running
    chunks: tuple[Chunk, ...]

    @property
    def cost(self) -> int:
        """Roughly in rows: linear layers, and the keys that its queries look at."""
        return sum(len(chunk.tokens) + chunk.start // 128 for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class News:
    """A token for the request that waits for it."""

    running: Running
    drawn: Drawn


class Batcher:
    """Computes requests in a thread of its own (and more threads, within a step)."""

    def __init__(self, model: Model, chat: ChatTokenizer, slots: int, threads: int | None) -> None:
        self.model = model
        self.stats = Stats()
        self._chat = chat
        self._slots = slots
        self._threads = 1 if model.device.type != "cpu" else threads or min(4, os.cpu_count() or 1)
        self._threads_elsewhere = torch.get_num_threads()
        self._cache = PrefixCache(model.regions)
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []
        self._changed = threading.Condition()
        self._closing = False
        self._helpers = ThreadPoolExecutor(max(1, self._threads - 1), "sampler")
        self._thread = threading.Thread(target=self._work, name="sampler", daemon=True)
        self._thread.start()

    def submit(self, request: Running) -> None:
        """Queue a request. Raises BackendError after `close`."""
        with self._changed:
            if self._closing:
                raise _stopped()
            self._waiting.append(request)
            self.stats.waiting += 1
            self.stats.requests += 1
            self._changed.notify()

    def close(self) -> None:
        """Fail what is under way and end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._wait():
                self._admit()
                if self._running:
                    self._step()
        finally:  # Whatever ended this thread, nobody may wait for it for ever.
            with self._changed:
                self._closing = True
                left = [*self._running, *self._waiting]
            self._helpers.shutdown()
            for request in left:
                _call(request.loop, request.put, _stopped())

    def _wait(self) -> bool:
        """Sleep while there is nothing to do; False when it is time to end."""
        with self._changed:
            while not (self._closing or self._waiting or self._running):
                torch.set_num_threads(self._threads_elsewhere)
                self._changed.wait()
            return not self._closing

    def _admit(self) -> None:
        """Drop what was cancelled, and give free slots to those who wait, in their order."""
        for request in [request for request in self._running if request.cancelled]:
            self._leave(request)
        with self._changed:
            waiting, self._waiting = self._waiting, deque()
        left: deque[Running] = deque()
        for request in waiting:
            if request.cancelled:
                continue
            if len(self._running) >= self._slots or not self._enter(request):
                left.append(request)
        with self._changed:
            self._waiting.extendleft(reversed(left))
            self.stats.waiting = len(self._waiting)

    def _enter(self, request: Running) -> bool:
        """Start a request, unless it is better to wait for another one's prompt."""
        lease = self._cache.lend(request.prompt)
        if lease is None:
            return False
        if lease.copied_from is not None:
            self.model.copy(lease.copied_from.number, lease.region.number, lease.cached)
        request.region = lease.region
        request.cached = request.computed = lease.cached
        self._running.append(request)
        self.stats.running += 1
        self.stats.prompt_tokens += len(request.prompt.tokens)
        self.stats.cached_prompt_tokens += lease.cached
        return True

    def _leave(self, request: Running) -> None:
        assert request.region is not None
        self._cache.give_back(request.region)
        self._running.remove(request)
        self.stats.running -= 1

    def _step(self) -> None:
        lots: list[list[Work]] = [[] for _ in range(self._threads)]
        plan = self._plan()
        for work in sorted(plan, key=lambda work: -work.cost):
            min(lots, key=lambda lot: sum(other.cost for other in lot)).append(work)
        others = [self._helpers.submit(self._compute, lot) for lot in lots[1:] if lot]
        news = self._compute(lots[0])
        for other in others:
            news += other.result()
        for work in plan:
            self._advance(work)
        self.stats.steps += 1
        self.stats.generated_tokens += len(news)
        for request in [request for request in self._running if request.finished]:
            self._leave(request)
        for loop in {item.running.loop for item in news}:
            _call(loop, _deliver, [item for item in news if item.running.loop is loop])

    def _plan(self) -> list[Work]:
        """The next token of every answer, and prompts as far as this step goes."""
        left = PROMPT_ROWS * self._threads
        plan = []
        for request in self._running:
            if request.answer:
                plan.append(Work(request, (self._decoding(request),)))
            elif left > 0:
                chunks = tuple(self._prompt(request, left))
                left -= sum(len(chunk.tokens) for chunk in chunks)
                plan.append(Work(request, chunks))
        return plan

    def _decoding(self, request: Running) -> Chunk:
        start = len(request.prompt.tokens) + len(request.answer) - 1
        return Chunk(request.answer[-1:], start, self._region(request), True, True)

    def _prompt(self, request: Running, rows: int) -> Iterator[Chunk]:
        """The prompt's next tokens, cut where blocks end."""
        start, prompt = request.computed, request.prompt.tokens
        last = min(start + rows, len(prompt))
        while start < last:
            end = min(len(prompt), (start // BLOCK + 1) * BLOCK)
            wanted = end == len(prompt)
            yield Chunk(prompt[start:end], start, self._region(request), False, wanted)
            start = end

    def _region(self, request: Running) -> int:
        assert request.region is not None
        return request.region.number * self.model.context

    def _compute(self, lot: Sequence[Work]) -> list[News]:
        """Compute one thread's share of a step, and draw the tokens that follow from it."""
        # More would only wait for each other: the kernels are too short. The number holds for this
        # thread, and for threads that start now, which `_wait` undoes.
        torch.set_num_threads(1)
        news = []
        for weights in {work.running.prompt.weights for work in lot}:
            group = [work for work in lot if work.running.prompt.weights is weights]
            group.sort(key=lambda work: not work.chunks[0].decoding)
            chunks = [chunk for work in group for chunk in work.chunks]
            logits = np.concatenate(
                [
                    self.model.run(weights, tile).cpu().numpy()
                    for tile in self.model.tiles_of(chunks)
                ]
            )
            rows = iter(logits)
            for work in group:
                if work.chunks[-1].wanted:
                    news.append(News(work.running, self._draw(work.running, next(rows))))
        return news

    def _advance(self, work: Work) -> None:
        request, last = work.running, work.chunks[-1]
        request.computed = last.start + len(last.tokens)
        if not last.decoding and last.wanted:
            assert request.region is not None
            self._cache.publish(request.region, request.prompt)

    def _draw(self, request: Running, logits: NDArray[np.float32]) -> Drawn:
        draw, guide = request.draw, request.guide
        picked = pick(logits, draw, request.noise(), guide.allowed() if guide else None)
        request.answer.append(picked.id)
        if guide is not None:
            guide.advance(picked.id)
        ended = picked.id in self._chat.end_ids
        text = "" if ended else request.stream.push(picked.id)
        reason: Literal["stop", "length"] | None = None
        if ended or request.stream.stopped:
            reason = "stop"
        elif len(request.answer) >= draw.max_tokens or self._is_full(request):
            reason = "length"
        if reason is not None:
            request.finished = True
            text += request.stream.flush()
        top = self._top(picked.plain, draw.top_logprobs)
        return Drawn(
            id=picked.id,
            text=text,
            logprob=picked.logprob,
            sampled_logprob=picked.sampled_logprob,
            top=top,
            finish_reason=reason,
            cached_tokens=request.cached,
        )

    def _is_full(self, request: Running) -> bool:
        return len(request.prompt.tokens) + len(request.answer) >= self.model.context

    def _top(self, plain: NDArray[np.float64], count: int) -> tuple[TopLogprob, ...]:
        if count == 0:
            return ()
        ids = np.argsort(-plain, kind="stable")[:count]
        return tuple(TopLogprob(int(i), self._chat.text(int(i)), float(plain[i])) for i in ids)


def _stopped() -> BackendError:
    return BackendError("the sampler has stopped", "server_error")


def _deliver(news: Sequence[News]) -> None:
    for item in news:
        item.running.put(item.drawn)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    # A loop that was closed meanwhile has nobody left who waits for the answer.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
