"""Choice of the host: what `--host auto` means on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from arena.llm.settings import Settings
from trainers.config.config import TrainConfig
from trainers.hosts.preflight import cuda_missing, is_hub_id, packages_missing


@dataclass(frozen=True, slots=True)
class HostChoice:
    """A host of the catalog, and a sentence for people."""

    name: str
    why: str


def choose_host(config: TrainConfig, settings: Settings) -> HostChoice:
    """The host that was asked for, or with `auto` the one that fits.

    It never chooses what costs money: a key alone is no order.
    """
    if config.host != "auto":
        return HostChoice(config.host, f"--host {config.host} was asked for.")
    against = _against_local(config)
    if not against:
        return HostChoice(
            "local",
            f"There is a CUDA device, openpipe-art[backend] is installed, and {config.base_model} "
            "comes from the Hugging Face hub: ART's LocalBackend trains it.",
        )
    why = f"The weights stay in this process, since {against}."
    if settings.secret("WANDB_API_KEY") is not None:
        why += " A WANDB_API_KEY is set; --host serverless would use it."
    return HostChoice("embedded", why)


def _against_local(config: TrainConfig) -> str:
    """Why ART's LocalBackend is not for this run. What is cheap to find out comes first."""
    if config.server:
        return "--server names who answers"
    if not config.base_model:
        return "no --base-model of the Hugging Face hub is named"
    if not is_hub_id(config.base_model):
        return f"{config.base_model} is no model of the Hugging Face hub"
    if packages_missing():
        return "openpipe-art[backend] is not installed"
    return cuda_missing()
