"""The weights that learn, their optimizer, and one update from a batch of games."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arena.core.errors import ArenaError
from backends.embedded.weights import Shape, read_config, read_shape, read_state
from trainers.algorithms.batching import Batch, minibatches
from trainers.algorithms.lora import Lora, adapter_config
from trainers.algorithms.loss import Anchor, Loss, LossOptions, policy_loss
from trainers.algorithms.network import score
from trainers.algorithms.sequences import TokenSequence

OPTIMIZER = "optimizer.state"
"""In the safetensors format. Files of that ending are taken for weights, here and by vLLM."""
ADAPTER = "adapter"
NOT_COPIED = ("*.safetensors", "*.safetensors.index.json", "pretraining.json", OPTIMIZER, ADAPTER)
"""Of the folder that a run starts from: weights, and what is no longer true of the new ones."""


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """How a call of `update` changes the weights; see `TrainConfig` for units."""

    learning_rate: float = 3e-4
    loss: LossOptions = field(default_factory=LossOptions)
    advantage_balance: float = 0.0
    minibatches: int = 2
    tokens_per_batch: int = 4_096
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0
    threads: int = 2
    seed: str = "0"


class Learner:
    """A Qwen3 checkpoint in training: all its weights, or a LoRA adapter on them."""

    def __init__(self, folder: Path, device: str = "cpu", lora: Lora | None = None) -> None:
        self.base = folder
        self.device = torch.device(device)
        self.shape: Shape = read_shape(read_config(folder))
        state = {n: t.to(self.device, torch.float32) for n, t in read_state(folder).items()}
        if self.shape.tied:
            state.pop("lm_head.weight", None)  # Some checkpoints hold the embedding twice.
        self._lora = lora
        self._frozen = state if lora else {}
        trained = lora.begin(state) if lora else state
        self._trained = {
            name: tensor.clone().float().requires_grad_()
            for name, tensor in sorted(trained.items())
        }
        # Fused kernels are not used: their sums are those of the plain ones only on some machines.
        self._adam = torch.optim.AdamW(self._trained.values(), betas=(0.9, 0.99), weight_decay=0.0)

    def weights(self) -> dict[str, Tensor]:
        """All weights under transformers' names, with gradients where something is trained."""
        if self._lora is None:
            return self._trained
        return self._lora.merged(self._frozen, self._trained)

    def state(self) -> dict[str, Tensor]:
        """A copy of all weights, on the CPU."""
        with torch.no_grad():
            return {name: t.detach().cpu().clone() for name, t in self.weights().items()}

    def update(
        self,
        sequences: Sequence[TokenSequence],
        options: UpdateOptions,
        reference: Mapping[str, Tensor] | None = None,
    ) -> dict[str, float]:
        """Train on these sequences once; what is to be logged of it, as numbers."""
        with _threads(options.threads):
            plan = minibatches(
                sequences,
                options.minibatches,
                options.tokens_per_batch,
                options.advantage_balance,
                options.seed,
            )
            for group in self._adam.param_groups:
                group |= {"lr": options.learning_rate, "weight_decay": options.weight_decay}
            told = [self._step(batches, options, reference) for batches in plan]
        count = max(1, len(told))
        return {name: sum(one[name] for one in told) / count for name in (told[0] if told else ())}

    def _step(
        self,
        batches: Sequence[Batch],
        options: UpdateOptions,
        reference: Mapping[str, Tensor] | None,
    ) -> dict[str, float]:
        """One step of the optimizer."""
        count = sum(len(batch.targets) for batch in batches)
        sums = dict.fromkeys(("loss", "entropy", "kl", "kl_reference", "clipped", "ratio"), 0.0)
        self._adam.zero_grad(set_to_none=True)
        for batch, anchor in zip(
            batches, self._anchors(batches, options.loss, reference), strict=True
        ):
            loss, entropy, kl = self._loss(batch, options.loss, anchor)
            (loss.policy / count).backward()  # type: ignore[no-untyped-call]
            sums["loss"] += loss.policy.item()
            sums["entropy"] += entropy
            sums["kl"] += kl
            sums["kl_reference"] += loss.kl_reference.item()
            sums["clipped"] += float(loss.clipped)
            sums["ratio"] += loss.ratios.sum().item()
        parameters = list(self._trained.values())
        norm = torch.nn.utils.clip_grad_norm_(parameters, options.max_grad_norm)
        if not torch.isfinite(norm):
            raise ArenaError(
                "the gradient is not finite: nothing was changed in this step; try a smaller "
                "--learning-rate"
            )
        self._adam.step()
        return {name: value / count for name, value in sums.items()} | {"grad_norm": norm.item()}

    @torch.no_grad()
    def _anchors(
        self,
        batches: Sequence[Batch],
        options: LossOptions,
        reference: Mapping[str, Tensor] | None,
    ) -> Sequence[Anchor | None]:
        """What the penalty on divergence needs to know of each batch.

        A mean over the whole minibatch is a part of it, however it is cut into batches; for that
        all but a single batch are scored once more.
        """
        if reference is None or options.kl_penalty_coef <= 0:
            return [None] * len(batches)
        every = [batch.rows.to(self.device) for batch in batches]
        known = [score(reference, self.shape, rows).logprobs for rows in every]
        if len(every) == 1:
            return [Anchor(known[0])]
        weights = self.weights()
        new = [score(weights, self.shape, rows).logprobs for rows in every]
        mean = (torch.cat(new) - torch.cat(known)).mean()
        return [Anchor(logprobs, mean) for logprobs in known]

    def _loss(
        self, batch: Batch, options: LossOptions, anchor: Anchor | None
    ) -> tuple[Loss, float, float]:
        rows, targets = batch.rows.to(self.device), batch.targets.to(self.device)
        scores = score(self.weights(), self.shape, rows)
        # An estimate of KL(old || new) that is never negative (Schulman 2020, "k3"); between the
        # weights, whatever temperature or guide chose the tokens.
        gaps = (scores.logprobs - targets.policy).detach()
        divergence = (gaps.exp() - 1 - gaps).sum().item()
        loss = policy_loss(scores.logprobs, targets, options, anchor)
        return loss, scores.entropies.sum().item(), divergence

    def save(self, folder: Path, facts: Mapping[str, object]) -> None:
        """Write a Hugging Face folder that is there entirely or not at all.

        Beside the weights lie the optimizer's moments, `training.json` with `facts`, and with LoRA
        the adapter in PEFT's format.
        """
        draft = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(self.base, draft, ignore=shutil.ignore_patterns(*NOT_COPIED))
        # transformers would load the weights in the type of the base model.
        config = read_config(draft) | {"dtype": "float32", "torch_dtype": "float32"}
        (draft / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
        _write(self.state(), draft / "model.safetensors")
        _write(self._moments(), draft / OPTIMIZER)
        if self._lora:
            (draft / ADAPTER).mkdir()
            self.save_adapter(draft / ADAPTER)
        (draft / "training.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        for path in [*sorted(draft.rglob("*")), draft]:
            _flush(path)
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
        _flush(folder.parent)

    def save_adapter(self, folder: Path) -> None:
        """The adapter as PEFT writes it."""
        assert self._lora is not None
        named = {f"base_model.model.{n}.weight": t.detach().cpu().contiguous()
                 for n, t in self._trained.items()}  # fmt: skip
        _write(named, folder / "adapter_model.safetensors")
        config = adapter_config(self._lora, str(self.base))
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1), "utf-8")

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint that `save` wrote, to the bit.

        Raises ArenaError for one that is broken, or in which something else was trained.
        """
        moments = _read(folder / OPTIMIZER)
        values = self._values(folder)
        self._check(folder, moments, values)
        with torch.no_grad():
            for name, tensor in self._trained.items():
                tensor.copy_(values[name])
        for name in self._trained:
            if f"{name}/exp_avg" not in moments:
                continue
            self._adam.state[self._trained[name]] = {
                "step": moments[f"{name}/step"],
                "exp_avg": moments[f"{name}/exp_avg"].to(self.device),
                "exp_avg_sq": moments[f"{name}/exp_avg_sq"].to(self.device),
            }

    def _check(
        self, folder: Path, moments: Mapping[str, Tensor], values: Mapping[str, Tensor]
    ) -> None:
        """Going on with other tensors than those that were trained would begin Adam anew."""
        found = {
            name.rpartition("/")[0]: tensor.shape
            for name, tensor in moments.items()
            if name.endswith("/exp_avg")
        }
        ours = {name: tensor.shape for name, tensor in self._trained.items()}
        stored = {name: values[name].shape for name in ours if name in values}
        if stored != ours or not found.items() <= ours.items():
            trained = f"an adapter of rank {self._lora.rank}" if self._lora else "all weights"
            raise ArenaError(
                f"{folder}: this command trains {trained}, and the checkpoint's optimizer has "
                "trained something else; use the --lora-rank and --server that the run was begun "
                "with"
            )

    def _values(self, folder: Path) -> dict[str, Tensor]:
        if self._lora is None:
            return read_weights(folder)
        stored = _read(folder / ADAPTER / "adapter_model.safetensors")
        return {
            name.removeprefix("base_model.model.").removesuffix(".weight"): tensor
            for name, tensor in stored.items()
        }

    def _moments(self) -> dict[str, Tensor]:
        return {
            f"{name}/{moment}": value.detach().cpu().contiguous()
            for name, tensor in self._trained.items()
            for moment, value in self._adam.state.get(tensor, {}).items()
        }


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint that `Learner.save` wrote."""
    return _read(folder / "model.safetensors")


def _read(path: Path) -> dict[str, Tensor]:
    """Raises ArenaError for a file of a checkpoint that is missing or broken."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArenaError(
            f"the checkpoint {path.parent} cannot be read: {path.name}: {error}; --fresh moves the "
            "run aside and begins anew"
        ) from None


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Compute with so many threads: sums are the same only for the same number."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _write(tensors: dict[str, Tensor], path: Path) -> None:
    """Raises ArenaError for a disk that is full."""
    try:
        save_file(tensors, path, {"format": "pt"})
    except SafetensorError as error:
        raise ArenaError(f"cannot write {path}: {error}") from None


def _flush(path: Path) -> None:
    """Make sure that a file, or what a folder names, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
