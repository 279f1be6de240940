"""The backend of each mode of --weight-sync."""

from __future__ import annotations

from typing import Any

from trainers.hosts.host import HostRequest
from trainers.hosts.weight_sync.adapter_backend import AdapterTrainer
from trainers.hosts.weight_sync.full_weights import CheckpointTrainer
from trainers.hosts.weight_sync.remote import RemoteTrainer
from trainers.hosts.weight_sync.shared_weights import SharedWeightsTrainer


def remote_trainer(request: HostRequest, **options: Any) -> RemoteTrainer:
    """Return the backend of the request's mode; `options` are those of `EmbeddedTrainer`."""
    mode = request.config.weight_sync
    if mode == "none":
        return CheckpointTrainer(request, **options)
    if mode == "shared_vllm":
        return SharedWeightsTrainer(request, **options)
    return AdapterTrainer(request, **options)
