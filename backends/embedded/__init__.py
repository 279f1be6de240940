"""`embedded:NAME`: a small transformer that runs in this process, without a key or a network."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import BackendError, UsageError
from arena.llm.backend import BackendTraits, Choice, Completion, Request, Token, Usage
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.llm.backend import Backend
    from arena.llm.settings import Settings
    from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams, SamplingPrecision

CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEFAULT_CHECKPOINT = "clue-tiny"
MIXTURE = "mixture"
"""Name, in a run's folder of checkpoints, of the mixture over them (see `versions`)."""
_shared_samplers: dict[Path, Sampler] = {}
"""One sampler per checkpoint, shared by all its backends; the last one closes it."""
_users: Counter[Path] = Counter()
"""Open backends of each shared sampler."""


def embedded(model: str, settings: Settings) -> Backend:
    """Return the backend of a bundled model, of a checkpoint in a folder, or of `FOLDER/mixture`.

    Raises UsageError for an unknown checkpoint, MissingDependency without the extra "embedded".
    """
    packages = ("torch", "tokenizers", "safetensors")
    if folder := mixture_folder(model):
        require("an embedded model", packages, "embedded")
        return MixtureBackend(folder, settings.embedded_precision)
    folder = find_checkpoint(model)
    require("an embedded model", packages, "embedded")
    return SharedSamplerBackend(folder, settings.embedded_precision)


def bundled_checkpoints() -> dict[str, Path]:
    """Return the folders of bundled models by their names."""
    return {path.parent.name: path.parent for path in sorted(CHECKPOINTS.glob("*/config.json"))}


def find_checkpoint(model: str, source: str = "embedded:") -> Path:
    """Return the folder of a bundled model, or the folder itself; empty: the default.

    Raises UsageError for an unknown name and for a folder without a config.json; `source` precedes
    the name in the message.
    """
    name = model or DEFAULT_CHECKPOINT
    bundled = bundled_checkpoints()
    if name in bundled:
        return bundled[name]
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder.resolve()
    raise UsageError(
        f"{source}{name}: neither a bundled model ({', '.join(bundled)}) nor a folder with a "
        "config.json: a model of the Hugging Face Hub has one once it is downloaded"
    )


def mixture_folder(model: str) -> Path | None:
    """Return the folder of the checkpoints whose mixture this is; None for another model."""
    path = Path(model).expanduser()
    is_mixture = path.name == MIXTURE and not path.exists() and path.parent.is_dir()
    return path.parent.resolve() if is_mixture else None


Weights = tuple[str | None, int | None]
"""Name of an adapter, None for the base weights, and their training step, None if unknown."""


class SamplerBackend:
    """Backend for a sampler that the caller owns and closes.

    `weights` returns those that answer a request, from its `policy_version`.
    """

    def __init__(
        self,
        sampler: Sampler,
        weights: Callable[[int | None], Weights] = lambda _: (None, None),
    ) -> None:
        self.sampler = sampler
        self.model = sampler.name
        self.context_length: int | None = sampler.context_length
        self.traits = BackendTraits(
            takes_thinking=False, takes_tools=False, kept_chats=sampler.kept_chats
        )
        self._weights = weights

    async def complete(self, request: Request) -> Completion:
        """Answer once. Raises BackendError, ContextOverflow for a long chat."""
        started = time.perf_counter()
        # Nothing is awaited from here to the submission of the request, which keeps its weights.
        adapter, version = self._weights(request.policy_version)
        prompt = self.sampler.encode(request.messages)
        # Closing the stream cancels the request in the sampler, also after an exception.
        answer = self.sampler.generate(prompt, _sampling_params(request), adapter)
        try:
            async with aclosing(answer) as stream:
                tokens = [token async for token in stream]
        except UsageError as error:
            raise BackendError(str(error), "bad_request") from None
        return Completion(
            choice=_choice(tokens, request.logprobs),
            model=self.model,
            usage=Usage(len(prompt), len(tokens), tokens[0].cached_tokens),
            cost=0.0,  # Computed on this machine.
            policy_version=version,
            prompt_token_ids=tuple(prompt),
            seconds=time.perf_counter() - started,
            engine=f"{self.model} [{self.sampler.engine}]",
        )

    async def close(self) -> None:
        """Do nothing: the sampler belongs to the caller."""


class SharedSamplerBackend(SamplerBackend):
    """Backend for a checkpoint folder. All backends of one folder share its sampler."""

    def __init__(self, folder: Path, precision: SamplingPrecision = "float32") -> None:
        self._folder = folder
        # Loading costs seconds and memory, and one sampler batches the requests of all seats.
        if folder not in _shared_samplers:
            from backends.embedded.sampler import Sampler

            _shared_samplers[folder] = Sampler(folder, precision=precision)
        _users[folder] += 1
        self._closed = False
        super().__init__(_shared_samplers[folder])

    async def close(self) -> None:
        """Release the sampler; its last user closes it."""
        if self._closed:
            return  # A second call must not release the share of another backend.
        self._closed = True
        _users[self._folder] -= 1
        if _users[self._folder] == 0:
            await _shared_samplers.pop(self._folder).close()


class MixtureBackend(SamplerBackend):
    """Backend of a mixture: its players each draw a checkpoint of a run before every game."""

    def __init__(self, folder: Path, precision: SamplingPrecision = "float32") -> None:
        from backends.embedded.layers import read_state_dict
        from backends.embedded.sampler import Sampler
        from backends.embedded.versions import (
            ServedVersions,
            mixture_checkpoints,
            mixture_weights,
        )

        self._checkpoints = kept = mixture_checkpoints(folder)
        sampler = Sampler(kept[max(kept)], precision=precision)
        self._served = ServedVersions(sampler, MIXTURE, lambda step: read_state_dict(kept[step]))
        super().__init__(sampler, self._drawn)
        self.model = f"{folder.parent.name}/{MIXTURE}"
        self.traits = replace(self.traits, versions=tuple(mixture_weights(kept).items()))

    def _drawn(self, version: int | None) -> Weights:
        """Return the checkpoint that the player has drawn. Raises BackendError."""
        if version not in self._checkpoints:
            raise BackendError(
                f"a mixture answers with one checkpoint a game: policy_version={version} is none "
                f"of {sorted(self._checkpoints)}",
                "bad_request",
            )
        self._served.evict(version)
        return self._served.name(version), version

    async def close(self) -> None:
        """Close the sampler."""
        await self.sampler.close()


def _sampling_params(request: Request) -> SamplingParams:
    from backends.embedded.sampler import SamplingParams

    sampling = request.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        stop=sampling.stop,
        seed=sampling.seed,
        guided_choice=request.guided_choice,
        guided_json=request.guided_json,
    )


def _choice(tokens: Sequence[GeneratedToken], logprobs: bool) -> Choice:
    return Choice(
        text="".join(token.text for token in tokens),
        finish_reason=tokens[-1].finish_reason or "unknown",
        tokens=tuple(Token(t.id, t.text, t.logprob, t.sampled_logprob) for t in tokens)
        if logprobs
        else (),
    )
