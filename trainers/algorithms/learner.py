"""The trained weights with their optimizer, and one update from a batch of games."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

import torch
from pydantic import JsonValue
from torch import Tensor

from arena.core.errors import ArenaError
from backends.embedded.architecture import (
    ADAPTER,
    BASE,
    AdapterBase,
    adapter_base,
    read_architecture,
    weights_digest,
)
from backends.embedded.layers import (
    StateDict,
    merged,
    read_state_dict,
    torch_threads,
    update_threads,
)
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.checkpoint_files import (
    OPTIMIZER,
    draft_of,
    read_tensors,
    read_weights,
    write_tensors,
)
from trainers.algorithms.lora import Lora, read_adapter, write_adapter
from trainers.algorithms.loss import LossSums, ReferenceLogprobs, policy_loss, sum_following
from trainers.algorithms.muon import Muon
from trainers.algorithms.network import PackedSequences, TokenScores, score_tokens, token_logits
from trainers.config.config import UpdateOptions
from trainers.trajectory import TokenSequence

MAX_GRAD_NORM = 1.0
"""Largest L2 norm of a gradient, as in ART and Atropos."""


class Learner:
    """A checkpoint in training: all its weights, or a LoRA adapter on them."""

    def __init__(
        self, folder: Path, device: str = "cpu", lora: Lora | None = None, muon: float = 0.0
    ) -> None:
        """Read the checkpoint in `folder`; without `lora` all weights are trained.

        `muon` trains the matrices of layers by Muon, at this multiple of the learning rate.
        """
        self.base = folder
        self.device = torch.device(device)
        self.architecture = read_architecture(folder)
        stored = read_state_dict(folder)
        self.architecture.check_shapes({n: tuple(t.shape) for n, t in stored.items()})
        # Trained in float32 for any type of the checkpoint: in bfloat16, with 8 bits of precision,
        # most steps of 1e-4 would round to nothing. Only the architecture's own tensors: some
        # checkpoints of tied models hold the embedding twice. Each is freed once it is converted.
        # With LoRA they do not change, and float32 tensors of a file are used where they are.
        state = {
            name: stored.pop(name).to(self.device, torch.float32, copy=lora is None)
            for name in self.architecture.tensor_shapes()
        }
        self._lora = lora
        # With LoRA the base weights stay as they are; without it they are the trained tensors.
        self._frozen = state if lora else {}
        trained = lora.initial_factors(state) if lora else state
        # Sorted: Adam and the norm of the gradient go through the tensors in this order, and sums
        # of floats depend on it.
        self.trained = {name: trained[name].requires_grad_() for name in sorted(trained)}
        matrices = {n for n, t in self.trained.items() if muon and t.ndim == 2 and "layers" in n}
        others = [tensor for name, tensor in self.trained.items() if name not in matrices]
        # Not fused: fused kernels give the plain ones' sums on some machines only.
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(
            others, betas=(0.9, 0.99), weight_decay=0.0
        )
        self._optimizers = [(optimizer, 1.0)]
        """With their multiples of the learning rate."""
        if matrices:
            self._optimizers.append((Muon([self.trained[name] for name in sorted(matrices)]), muon))

    def weights(self) -> dict[str, Tensor]:
        """Return the weights as the forward pass reads them, with gradients to the trained ones."""
        if self._lora is None:
            return self.trained
        # Anew at every call: a backward pass frees the graph of the scale.
        return self._lora.adapt(self._frozen, self.trained)

    @torch.no_grad()
    def merged(self) -> dict[str, Tensor]:
        """Return all weights under transformers' names; the next update changes some of them."""
        return {name: tensor.detach() for name, tensor in merged(self.weights()).items()}

    def score(
        self, packed: PackedSequences, options: UpdateOptions, weights: StateDict | None = None
    ) -> TokenScores:
        """Return the scores of tokens under the newest weights, with gradients, or under others."""
        return score_tokens(
            self.weights() if weights is None else weights,
            self.architecture,
            packed.to(self.device),
            options.gradient_checkpointing and torch.is_grad_enabled(),
            bf16=options.precision == "bf16",
        )

    @torch.no_grad()
    def logits(self, packed: PackedSequences, options: UpdateOptions) -> Tensor:
        """Return the logits at the trained tokens: [trained, vocabulary], float32."""
        return token_logits(
            self.weights(), self.architecture, packed.to(self.device), options.precision == "bf16"
        )

    def weights_at(self, folder: Path) -> dict[str, Tensor]:
        """Return the weights of a checkpoint of `save` as the forward pass reads them.

        With LoRA they share the base weights. `folder` may be that of the base model.
        """
        if folder == self.base:
            return self._frozen or {n: t.float() for n, t in read_state_dict(folder).items()}
        if self._lora is None:
            return read_weights(folder)
        factors = {name: t.to(self.device) for name, t in read_adapter(folder / ADAPTER).items()}
        return self._lora.adapt(self._frozen, factors)

    def update(
        self,
        sequences: Sequence[TokenSequence],
        options: UpdateOptions,
        reference: Mapping[str, Tensor] | None = None,
    ) -> dict[str, float]:
        """Train on these sequences once: one step of the optimizer per minibatch.

        `reference` are the weights of the policy of the KL penalty, on the learner's device.
        Returns means over the minibatches of `loss`, `entropy`, `kl`, `kl_reference`, `clipped`,
        `ratio` (each a mean over trained tokens; nats where it applies) and `grad_norm`; empty
        without sequences. Raises ArenaError if the gradient is not finite.
        """
        threads = options.threads or update_threads(self.architecture.width)
        with torch_threads(threads):
            plan = minibatches(
                sequences,
                options.minibatches,
                options.tokens_per_batch,
                options.seed,
                options.entropy_coef,
            )
            # One divisor for all minibatches: a token has the same weight in each of them.
            tokens = sum(len(batch.targets) for batches in plan for batch in batches)
            divisor = tokens / max(1, len(plan))
            steps = [self._optimizer_step(each, options, reference, divisor) for each in plan]
        if not steps:
            return {}
        # Each minibatch is one step, so it counts once, whatever its number of tokens.
        return {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}

    def _optimizer_step(
        self,
        batches: Sequence[MicroBatch],
        options: UpdateOptions,
        reference: Mapping[str, Tensor] | None,
        divisor: float,
    ) -> dict[str, float]:
        """Change the weights by one minibatch, and return the means over its trained tokens."""
        count = sum(len(batch.targets) for batch in batches)  # Trained tokens of the minibatch.
        # Sums of each micro-batch over its tokens, which are divided by `count` at the end. They
        # stay on the device until then: to read one would wait for all that was asked of it.
        sums: dict[str, list[Tensor]] = {}
        references = self._reference_logprobs(batches, options, reference)

        def losses() -> Iterator[Tensor]:
            for batch, known in zip(batches, references, strict=True):
                loss, parts = self._micro_batch_loss(batch, options, known)
                for name, value in parts.items():
                    sums.setdefault(name, []).append(value.detach())
                # Each micro-batch is divided by the same number, so the gradients add up.
                yield loss.loss / divisor

        norm = self.descend(losses(), options)
        # `norm` is that of the divided gradient already.
        totals = {name: sum(value.item() for value in values) for name, values in sums.items()}
        return {name: value / count for name, value in totals.items()} | {"grad_norm": norm}

    def descend(self, losses: Iterable[Tensor], options: UpdateOptions) -> float:
        """Do one step of the optimizer on the sum of scalar losses; return the gradient's L2 norm.

        Gradients are accumulated: a loss is asked for when the graph of the one before is freed.
        Raises ArenaError if the gradient is not finite.
        """
        for optimizer, factor in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = factor * options.learning_rate
            # None instead of zeros: a tensor without a gradient keeps its moments and its value.
            optimizer.zero_grad(set_to_none=True)
        for loss in losses:
            # The weights change after the loop only, so all micro-batches see the same p_new.
            loss.backward()  # type: ignore[no-untyped-call]
            return_free_memory()
        # Scale the gradient down to MAX_GRAD_NORM if its L2 norm over all tensors is larger.
        # `norm` is the norm before, in which one NaN or infinity anywhere shows.
        #     grad <- grad min(1, MAX_GRAD_NORM / (norm + 1e-6)).
        parameters = list(self.trained.values())
        norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM).item()
        # Before the step: Adam's moments would carry a NaN into all later steps.
        if not math.isfinite(norm):
            raise ArenaError(
                "the gradient is not finite: the weights were not changed in this step; try a "
                "smaller --learning-rate"
            )
        for optimizer, _ in self._optimizers:
            optimizer.step()
        return norm

    @torch.no_grad()
    def _reference_logprobs(
        self,
        batches: Sequence[MicroBatch],
        options: UpdateOptions,
        reference: Mapping[str, Tensor] | None,
    ) -> Sequence[ReferenceLogprobs | None]:
        """Return for each micro-batch the reference policy's log-probabilities, if it is needed."""
        if reference is None or options.kl_penalty_coef <= 0:
            return [None] * len(batches)
        # The reference is needed only for numbers: no graph is built (`no_grad` above).
        known = [self.score(batch.packed, options, reference).logprobs for batch in batches]
        # One tensor of shape [trained] per micro-batch. If there is one only, `policy_loss` itself
        # takes the mean over the same tokens.
        if len(batches) == 1:
            return [ReferenceLogprobs(known[0])]
        # The penalty is centred by the mean of log p_new - log p_ref over the whole minibatch, so
        # that the cut into micro-batches changes nothing. It must be known before the first
        # gradient, which costs one more forward pass.
        weights = self.weights()
        new = [self.score(batch.packed, options, weights).logprobs for batch in batches]
        # Over all tokens at once: a mean of the micro-batches' means would give tokens of small
        # micro-batches a larger weight. No micro-batch holds a part of an answer.
        gaps = [
            sum_following(ours - theirs, batch.targets.answer_ids.to(self.device))
            for ours, theirs, batch in zip(new, known, batches, strict=True)
        ]
        mean_gap = torch.cat(gaps).mean()
        return [ReferenceLogprobs(logprobs, mean_gap) for logprobs in known]

    def _micro_batch_loss(
        self, batch: MicroBatch, options: UpdateOptions, reference: ReferenceLogprobs | None
    ) -> tuple[LossSums, dict[str, Tensor]]:
        """Return the loss, and sums over the tokens by name, in nats."""
        targets = batch.targets.to(self.device)
        # Log-probabilities with and entropies without gradients, [trained] each.
        scores = self.score(batch.packed, options)
        # The k3 estimator of KL(old || new), never negative: with g = log p_new - log p_old,
        #     k3 = exp(g) - 1 - g      (Schulman 2020, joschu.net/blog/kl-approx.html).
        # Between the weights: p_old is the policy's own probability here, without the temperature
        # and the grammar of the sampler.
        gaps = (scores.logprobs - targets.policy_logprobs).detach()
        loss = policy_loss(scores.logprobs, targets, options, reference)
        return loss, {
            "loss": loss.loss,
            "entropy": scores.entropies.sum(),
            "kl": (gaps.exp() - 1 - gaps).sum(),
            "kl_reference": loss.kl_reference,
            "clipped": loss.clipped,
            "ratio": loss.ratios.sum(),
        }

    def save(self, folder: Path, facts: Mapping[str, JsonValue]) -> None:
        """Write a Hugging Face folder that exists completely or not at all.

        It holds the weights, the optimizer's moments and `training.json` with `facts`. With LoRA
        the weights are the adapter in PEFT's format, and base.json names the base model. An
        existing folder is replaced. Raises ArenaError if a file cannot be written, for example
        because the disk is full.
        """
        with draft_of(folder, self.base) as draft:
            write_tensors(self.moments(), draft / OPTIMIZER)
            if self._lora:
                (draft / ADAPTER).mkdir()
                write_adapter(draft / ADAPTER, self._lora, self.trained, str(self.base))
                base = AdapterBase(folder=self.base, sha256=self._base_digest)
                (draft / BASE).write_text(base.model_dump_json(indent=1) + "\n", "utf-8")
            else:
                on_cpu = {name: tensor.cpu() for name, tensor in self.merged().items()}
                write_tensors(on_cpu, draft / "model.safetensors")
            (draft / "training.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")

    def load(self, folder: Path) -> None:
        """Continue from a checkpoint of `save`; later updates are equal to the bit.

        Raises ArenaError if the checkpoint is broken, or other tensors were trained in it.
        """
        base = adapter_base(folder)
        if base and base.sha256 != self._base_digest:
            raise ArenaError(
                f"{folder}: its adapter was trained on other weights than those in {self.base}; "
                "restore them, or start a run with another --experiment-name"
            )
        moments = read_tensors(folder / OPTIMIZER)
        values = self._trained_values(folder)
        shapes = {name: tensor.shape for name, tensor in self.trained.items()}
        stored = {name: values[name].shape for name in shapes if name in values}
        # NAME/exp_avg to NAME. Adam makes the moments of a tensor at its first gradient, so those
        # of a part of the tensors are enough; those of another tensor would be lost.
        with_moments = {
            name.removesuffix("/exp_avg"): moment.shape
            for name, moment in moments.items()
            if name.endswith("/exp_avg")
        }
        if stored != shapes or not with_moments.items() <= shapes.items():
            trained = f"an adapter of rank {self._lora.rank}" if self._lora else "all weights"
            raise ArenaError(
                f"{folder}: this command trains {trained}, but the optimizer in the checkpoint "
                "trained other tensors; use the --lora-rank and --server with which the run was "
                "started"
            )
        self.restore(values, moments)

    @torch.no_grad()
    def restore(self, values: Mapping[str, Tensor], moments: Mapping[str, Tensor]) -> None:
        """Set the trained tensors, and the optimizers' state as `moments` returns it."""
        for name, tensor in self.trained.items():
            # In place: the optimizer refers to these tensors, which are also the keys of its state.
            tensor.copy_(values[name])
        owners = {
            t: o.state for o, _ in self._optimizers for g in o.param_groups for t in g["params"]
        }
        for key, moment in moments.items():
            name, _, kind = key.rpartition("/")
            if name in self.trained:
                tensor = self.trained[name]
                # AdamW keeps the number of its steps on the CPU.
                where = "cpu" if kind == "step" else self.device
                owners[tensor][tensor][kind] = moment.to(where)

    def _trained_values(self, folder: Path) -> dict[str, Tensor]:
        if self._lora is None:
            # An adapter's checkpoint has none of these tensors, which the caller reports.
            return {} if adapter_base(folder) else read_weights(folder)
        return read_adapter(folder / ADAPTER)

    @cached_property
    def _base_digest(self) -> str:
        return weights_digest(self.base)

    def moments(self) -> dict[str, Tensor]:
        """Return the optimizers' state: Adam's as NAME/step, NAME/exp_avg and NAME/exp_avg_sq."""
        return {
            f"{name}/{moment}": value.detach().cpu().contiguous()
            for name, tensor in self.trained.items()
            for optimizer, _ in self._optimizers
            for moment, value in optimizer.state.get(tensor, {}).items()
        }


FREE_HEAP = 10**9
"""Bytes that may stay free in the heap. Returning them costs time, since they are soon used again:
an eighth of an update for a model of 1 M parameters, which leaves less free than this."""
HEAP_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
"""Numbers that glibc gives of its heap; `fordblks` are the free bytes."""


class _HeapInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in HEAP_FIELDS.split())


@cache
def _glibc() -> ctypes.CDLL | None:
    """Return the C library, if it is glibc 2.33 or newer."""
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _HeapInfo
    except (TypeError, AttributeError):  # Windows; another C library.
        return None
    return library


def return_free_memory() -> None:
    """Return the free parts of the heap to the system if they are larger than `FREE_HEAP`.

    Passes of changing sizes leave holes that later ones do not fill. Does nothing without glibc.
    """
    library = _glibc()
    if library is not None and library.mallinfo2().fordblks > FREE_HEAP:
        library.malloc_trim(0)
