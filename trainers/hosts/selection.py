"""Selection of the host: the meaning of `--trainer-host auto` on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from arena.llm.settings import Settings
from trainers.config.config import TrainConfig
from trainers.hosts.art.preflight import cuda_problem, is_hub_id, packages_problem


@dataclass(frozen=True, slots=True)
class HostChoice:
    """A host of the catalog, and the reason in one sentence."""

    name: str
    reason: str


def select_host(config: TrainConfig, settings: Settings) -> HostChoice:
    """Return the requested host, or with `auto` the host that fits.

    `auto` never selects a host that costs money: an API key alone does not authorise spending.
    """
    if config.trainer_host != "auto":
        return HostChoice(
            config.trainer_host, f"--trainer-host {config.trainer_host} was requested."
        )
    objection = _objection_to_local(config)
    if not objection:
        return HostChoice(
            "local",
            f"There is a CUDA device, openpipe-art[backend] is installed, and {config.base_model} "
            "comes from the Hugging Face hub: ART's LocalBackend trains it.",
        )
    reason = f"The weights stay in this process, since {objection}."
    if settings.secret("WANDB_API_KEY") is not None:
        reason += " A WANDB_API_KEY is set; --trainer-host serverless would use it."
    return HostChoice("embedded", reason)


def art_server(settings: Settings) -> str:
    """Return the server of ART_WRAPPER_URL if LLM_BACKEND=ART selects it; empty otherwise.

    `arena play` uses the same variables. Both may be in `.env`.
    """
    backend = settings.secret("LLM_BACKEND")
    is_art = backend is not None and backend.get_secret_value().strip().lower() == "art"
    return settings.art_wrapper_url if is_art else ""


def _objection_to_local(config: TrainConfig) -> str:
    """Return why ART's LocalBackend does not fit; empty if it does. Cheap checks come first."""
    if config.server:
        return f"the server {config.server} answers"
    if not config.base_model:
        return "no --base-model of the Hugging Face hub is named"
    if not is_hub_id(config.base_model):
        return f"{config.base_model} is not a model of the Hugging Face hub"
    if packages_problem():
        return "openpipe-art[backend] is not installed"
    return cuda_problem()
