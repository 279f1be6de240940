"""The backend of each mode of --weight-sync."""

from __future__ import annotations

from typing import Any

from trainers.hosts.host import HostRequest
from trainers.hosts.weight_sync.adapter_backend import AdapterBackend
from trainers.hosts.weight_sync.full_weights import CheckpointBackend
from trainers.hosts.weight_sync.remote import RemoteBackend
from trainers.hosts.weight_sync.shared_weights import SharedWeightsBackend


def remote_backend(request: HostRequest, **options: Any) -> RemoteBackend:
    """Return the backend of the request's mode; `options` are those of `EmbeddedArtBackend`."""
    mode = request.config.weight_sync
    if mode == "none":
        return CheckpointBackend(request, **options)
    if mode == "shared_vllm":
        return SharedWeightsBackend(request, **options)
    return AdapterBackend(request, **options)
