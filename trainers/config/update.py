"""Settings of one update of the weights: how the loss, the optimizer and the batches are made."""

from __future__ import annotations

from dataclasses import dataclass

from trainers.config.config import LossName, Precision, TrainConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """Settings of an update, under ART's names where it has one; `TrainConfig` explains them."""

    learning_rate: float = 3e-4
    loss_fn: LossName = "cispo"
    epsilon: float | None = None
    epsilon_high: float | None = None
    """Clip range above; this and `epsilon`: None means ART's default."""
    kl_penalty_coef: float = 0.0
    kl_penalty_reference_step: int = 0
    """Step whose weights are the reference of the KL penalty."""
    sampler_kl_coef: float = 0.0
    """Coefficient of a loss term that pulls towards the policy that sampled; not in ART."""
    entropy_coef: float = 0.0
    art_scale: bool = False
    """Weigh games equally and scale the advantages of the call, as ART does."""
    minibatches: int = 2
    tokens_per_batch: int = 4_096
    gradient_checkpointing: bool = False
    precision: Precision = "float32"
    threads: int = 2
    seed: str = "0"
    """Seed of the order of sequences; the trainer sets it for each step."""

    @classmethod
    def of(cls, config: TrainConfig) -> UpdateOptions:
        """Return the settings of each update of a run."""
        return cls(
            learning_rate=config.learning_rate,
            loss_fn=config.loss,
            epsilon=config.clip_eps,
            kl_penalty_coef=config.kl_coef,
            entropy_coef=config.entropy_coef,
            minibatches=config.minibatches,
            tokens_per_batch=config.tokens_per_batch,
            gradient_checkpointing=config.gradient_checkpointing,
            precision=config.precision,
            threads=config.threads,
        )

    @property
    def clip_below(self) -> float:
        """Return e of the lower clip bound 1 - e."""
        # 0.2 is PPO's customary value. With 1.0 the lower bound is 0: CISPO clips from above only.
        default = 0.2 if self.loss_fn == "ppo" else 1.0
        return default if self.epsilon is None else self.epsilon

    @property
    def clip_above(self) -> float:
        """Return e' of the upper clip bound 1 + e'."""
        default = self.clip_below if self.loss_fn == "ppo" else 4.0
        return default if self.epsilon_high is None else self.epsilon_high
