"""`embedded:NAME`: a small transformer that runs in this process, without a key or a network."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
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
    from backends.embedded.layers import StateDict
    from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams, SamplingPrecision

CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEFAULT_CHECKPOINT = "clue-tiny"
MIXTURE = "mixture"
"""Name, in a run's folder of checkpoints, of the mixture over them (see `MixtureBackend`)."""
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
    """Backend of a mixture: its players each draw a checkpoint of a run before every game.

    A player that draws step t with a probability in proportion to t, and plays all of the game with
    it, plays the average policy of the run, of which self-play brings the exploitability down where
    the newest weights go in circles (M. Zinkevich et al., "Regret minimization in games with
    incomplete information", NIPS 2007; the linear weights are those of CFR+, O. Tammelin 2014).
    """

    def __init__(self, folder: Path, precision: SamplingPrecision = "float32") -> None:
        from backends.embedded.layers import read_state_dict
        from backends.embedded.sampler import Sampler

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
    )


def _choice(tokens: Sequence[GeneratedToken], logprobs: bool) -> Choice:
    return Choice(
        text="".join(token.text for token in tokens),
        finish_reason=tokens[-1].finish_reason or "unknown",
        tokens=tuple(Token(t.id, t.text, t.logprob, t.sampled_logprob) for t in tokens)
        if logprobs
        else (),
    )


# Several versions of one model's weights in one sampler

SERVED_BYTES = 2**30
"""Weights of versions that stay loaded for answers; the least recently used one goes first, and two
stay whatever their size."""


class ServedVersions:
    """Versions that are loaded into a sampler when they are asked for, as `NAME@VERSION`."""

    def __init__(self, sampler: Sampler, name: str, read: Callable[[int], StateDict]) -> None:
        """Prepare; `read` returns the weights of a version, or raises UsageError."""
        self._sampler, self._name, self._read = sampler, name, read
        self._last_requests: dict[int, float] = {}
        """Time of the last request for each loaded version."""
        self._most = 2

    def name(self, version: int) -> str:
        """Return the adapter of a version; load it if necessary. Raises UsageError."""
        if version not in self._last_requests:
            self.load(version, self._read(version))
        self._last_requests[version] = time.monotonic()
        return f"{self._name}@{version}"

    def load(self, version: int, state: StateDict) -> None:
        """Load the weights of a version, or replace them."""
        from backends.embedded.layers import merged

        state = merged(state)
        self._sampler.load_adapter_weights(f"{self._name}@{version}", state)
        self._last_requests[version] = time.monotonic()
        self._most = max(2, SERVED_BYTES // sum(tensor.nbytes for tensor in state.values()))

    def evict(self, newest: int) -> None:
        """Unload the least recently used versions above the limit; `newest` always stays."""
        others = self._last_requests.keys() - {newest}
        recent = sorted(others, key=self._last_requests.__getitem__, reverse=True)
        # One of the places belongs to the newest version.
        self._unload(recent[self._most - 1 :])

    def keep(self, versions: Collection[int]) -> None:
        """Unload all other versions; the next request for one reads it again."""
        self._unload(self._last_requests.keys() - set(versions))

    def _unload(self, versions: Collection[int]) -> None:
        for version in versions:
            del self._last_requests[version]
            self._sampler.unload_adapter(f"{self._name}@{version}")


def mixture_weights(steps: Collection[int]) -> dict[int, float]:
    """Return the probability of each kept checkpoint, in proportion to the steps it stands for.

    Step t has the weight t. A checkpoint stands for itself and for the steps since the kept one
    before it, which were deleted: so the weights are those of all steps, however many are kept.
    """
    weights, before = dict[int, float](), 0
    for step in sorted(steps):
        # The sum of t over before < t <= step.
        weights[step] = (step * (step + 1) - before * (before + 1)) / 2
        before = step
    return {step: weight / sum(weights.values()) for step, weight in weights.items()}


def mixture_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the kept checkpoints by step; `folder` is their folder. Raises UsageError."""
    found = {int(path.parent.name): path.parent for path in folder.glob("[0-9]*/training.json")}
    if not found:
        raise UsageError(f"{folder} has no checkpoints; a mixture is that of a run's")
    return found
