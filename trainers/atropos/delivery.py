"""The answer that hands out a batch, and knows whether it arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from trainers.atropos.store import TrajectoryStore


class BatchResponse(Response):
    """A batch, which counts as delivered once its rows were sent on a connection that is open."""

    def __init__(
        self, store: TrajectoryStore, batch: int, in_delivery: set[int], request: Request
    ) -> None:
        groups = ",".join(store.read_batch(batch))
        super().__init__(f'{{"batch":[{groups}]}}', media_type="application/json")
        # Without a length the client has read the answer only when its end is sent.
        del self.headers["content-length"]
        # From now on no other request gets this batch.
        in_delivery.add(batch)
        self._delivery = store, batch, in_delivery, request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        store, batch, in_delivery, request = self._delivery
        try:
            start = {"status": 200, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            body = {"body": bytes(self.body), "more_body": True}
            await send({"type": "http.response.body", **body})
            # Sending waits until the buffer for the body has drained: a client that stopped reading
            # holds the response here, before the batch counts as delivered.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            # Recorded before the end is sent: who has read the end never gets the batch again. A
            # reset may have removed the batch meanwhile.
            if not await request.is_disconnected() and batch in store.undelivered:
                store.delivered(batch)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            in_delivery.discard(batch)
