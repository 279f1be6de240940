"""The settings of a training run.

Each field is a flag of `arena train`, an environment variable (`ARENA_TRAIN_…`), a key of presets
and a key of the `[train]` table in arena.toml. The description of a field is its help text.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from arena.core.observation import TextLevel

LossName = Literal["cispo", "ppo"]
ImportanceLevel = Literal["token", "sequence", "average", "geometric_average"]
HostName = Literal["auto", "embedded", "local", "serverless"]
DEFAULT_LORA_RANK = 8
"""Rank of the adapter where training all weights is not possible and no rank is given."""

OLD_NAMES = {
    "host": "trainer_host",
    "answer_tokens": "max_tokens",
    "stop_legality": "stop_legal_rate",
}
"""Former names of fields. They are still read from files, the environment and old run folders."""
HASHED_NAMES = {new: old for old, new in OLD_NAMES.items()}
"""Names under which `config_hash` counts renamed fields, so that old runs keep their hash."""


def setting(
    default: Any, about: str, panel: str, *, changeable: bool = False, **limits: Any
) -> Any:
    """Return a field with its help text and the panel of `--help` that lists it.

    A resumed run may change a field only if it is `changeable`.
    """
    extra: dict[str, JsonValue] = {"panel": panel, "changeable": changeable}
    return Field(default, description=about, json_schema_extra=extra, **limits)


RUN, HOST, GAMES, REWARD, UPDATE, EVAL, STOP, LOG = (
    "Run", "Weights", "Games", "Reward", "Update", "Evaluation", "Early stop", "Logs and health",
)  # fmt: skip


class TrainConfig(BaseModel):
    """Settings of `arena train`. Times are in seconds unless a description names another unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: str = "cluedo"
    options: dict[str, JsonValue] = Field(default_factory=dict)
    text_level: TextLevel = "notes"
    preset: str = "default"

    experiment_name: str = setting(
        "", "Folder of the run in --log-dir. Empty: GAME-PRESET.", RUN)  # fmt: skip
    project: str = setting("arena", "Project name for ART and Weights & Biases.", RUN)
    model_name: str = setting("", "Model name for ART. Empty: the experiment's name.", RUN)
    steps: int = setting(
        60, "Training steps. Overrides --epochs.", RUN, changeable=True, ge=0, le=10**6
    )
    epochs: int = setting(
        0,
        "Passes over the --dataset-size deals, if --steps is not given. 0: use --steps.",
        RUN,
        changeable=True,
        ge=0,
    )
    dataset_size: int = setting(
        0, "Number of training deals. 0: every step plays new deals.", RUN, ge=0, le=10**7
    )
    seed: int = setting(
        0, "Seed of deals, seats, opponents, sampling and minibatches.", RUN, ge=0, le=10**11
    )

    trainer_host: HostName = setting("auto", "Host that holds and trains the weights.", HOST)
    base_model: str = setting(
        "", "Checkpoint to start from: a name, a folder, or on a GPU a Hugging Face id. `scratch`: "
        "a new small model, pretrained on random games only. Empty: the host's default.", HOST,
    )  # fmt: skip
    server: str = setting(
        "", "URL of an inference server (arena serve, vLLM). Each step's adapter is loaded there.",
        HOST, changeable=True,
    )  # fmt: skip
    lora_rank: int = setting(
        0, "Rank of the LoRA adapter. 0: train all weights on the embedded host; rank 8 on other "
        "hosts and with --server.", HOST, ge=0, le=512,
    )  # fmt: skip
    lora_alpha: float = setting(16.0, "LoRA alpha: the adapter is scaled by alpha/rank.", HOST,
                                gt=0)  # fmt: skip
    device: str = setting("auto", "Device of the embedded host: cpu, cuda or auto.", HOST)
    threads: int = setting(
        2, "CPU threads of an update. The order of sums depends on this number.", HOST, ge=1, le=256
    )

    groups_per_step: int = setting(16, "Deals per step. Each deal forms one group.", GAMES, ge=1)
    rollouts_per_group: int = setting(8, "Full games per deal.", GAMES, ge=2, le=1024)
    max_concurrent: int = setting(
        64, "Games played at the same time.", GAMES, changeable=True, ge=1, le=10_000
    )
    seats: Literal["one", "all"] = setting(
        "one", "one: the learner has one seat of a deal. all: it has every seat (self-play).", GAMES
    )
    opponents: str = setting(
        "", "Weighted mix, e.g. bot:novice=3,past=1: any SPEC, self (the newest weights), past (an "
        "earlier checkpoint). Empty: the game's default opponent.", GAMES,
    )  # fmt: skip
    max_turns: int = setting(
        0, "Turns after which a game is cut off. 0: the game's own limit.", GAMES, ge=0
    )
    max_context_tokens: int = setting(
        0, "Longest chat in tokens. 0: the model's context length.", GAMES, ge=0
    )
    max_tokens: int = setting(64, "Longest reply in tokens.", GAMES, ge=1, le=10**5)
    temperature: float = setting(1.0, "Sampling temperature in training.", GAMES, gt=0, le=2)
    guided: bool = setting(
        False, "Constrain sampling to legal actions (embedded host, vLLM).", GAMES
    )
    beliefs: bool = setting(
        False, "Ask the learner for its beliefs at each decision (for the term claims).", GAMES
    )
    prompt: str = setting("rules", "Name of the system prompt.", GAMES)
    rollout_timeout: float = setting(
        300.0, "Time limit of one game in seconds.", GAMES, changeable=True, gt=0
    )
    rollout_retries: int = setting(
        2, "Retries of a failed game.", GAMES, changeable=True, ge=0, le=100
    )

    reward: str = setting(
        "", "Terms and weights, e.g. win=1,format=1. `arena train GAME --dry-run` lists the terms. "
        "Empty: the game's default.", REWARD,
    )  # fmt: skip
    reward_fn: str = setting(
        "", "module:function of a custom term. Weight it in --reward as `custom`.", REWARD
    )
    group_scorer: str = setting(
        "", "Name or module:function that scores all trajectories of a group together.", REWARD
    )
    shuffle_rewards: bool = setting(
        False, "Control experiment: permute the rewards within each group at random.", REWARD
    )

    learning_rate: float = setting(3e-4, "Learning rate of Adam.", UPDATE, gt=0, le=1)
    learning_rate_end: float | None = setting(
        None, "Learning rate of the last step, reached linearly. Default: --learning-rate.", UPDATE,
        gt=0, le=1,
    )  # fmt: skip
    warmup_steps: int = setting(
        0, "Steps over which the learning rate rises to its value.", UPDATE, ge=0
    )
    loss: LossName = setting("cispo", "Policy loss, as ART defines it.", UPDATE)
    clip_eps: float | None = setting(
        None, "Clip range below a ratio of 1. Default: ART's, 1 for cispo, 0.2 for ppo.", UPDATE,
        gt=0,
    )  # fmt: skip
    clip_eps_high: float | None = setting(
        None, "Clip range above a ratio of 1. Default: ART's, 4 for cispo, --clip-eps for ppo.",
        UPDATE, gt=0,
    )  # fmt: skip
    kl_coef: float = setting(
        0.0, "Coefficient of the KL penalty towards --kl-reference.", UPDATE, ge=0
    )
    kl_reference: int = setting(0, "Step whose weights are the KL reference.", UPDATE, ge=0)
    kl_reference_every: int = setting(
        0, "Move the KL reference to the newest weights every N steps. 0: never.", UPDATE, ge=0
    )
    advantage_balance: float = setting(
        0.0, "-1: use negative advantages only. 1: use positive ones only.", UPDATE, ge=-1, le=1
    )
    scale_advantages: bool = setting(
        True, "Divide the advantages of a group by their standard deviation.", UPDATE
    )
    importance_level: ImportanceLevel = setting(
        "token", "Level at which importance ratios are averaged.", UPDATE
    )
    truncated_importance: float | None = setting(
        None, "Upper bound of truncated importance sampling.", UPDATE, gt=0
    )
    max_negative_weight: float | None = setting(
        None, "Upper bound of importance ratios of negative advantages (ART).", UPDATE, gt=0
    )
    mask_prob_ratio: bool = setting(
        False, "Ignore tokens whose importance ratio is outside of the clip range.", UPDATE
    )
    kimi_k2_tau: float | None = setting(None, "ART's kimi_k2_tau.", UPDATE, ge=0)
    minibatches: int = setting(
        2, "Optimizer steps per training step (embedded).", UPDATE, ge=1, le=1000
    )
    tokens_per_batch: int = setting(
        4_096, "Tokens per forward pass of an update. Bounds its memory (embedded).", UPDATE,
        changeable=True, ge=256,
    )  # fmt: skip
    max_grad_norm: float = setting(1.0, "Gradient clipping norm (embedded).", UPDATE, gt=0)
    weight_decay: float = setting(0.0, "Weight decay of AdamW (embedded).", UPDATE, ge=0, le=1)

    eval_every: int = setting(
        10, "Steps between evaluations. 0: evaluate at the end only.", EVAL, changeable=True, ge=0
    )
    eval_games: int = setting(
        100, "Held-out deals of an evaluation, paired with the starting policy.", EVAL, ge=2
    )
    final_eval_games: int = setting(
        400, "Held-out deals of the final evaluation of the newest and the best checkpoint.", EVAL,
        changeable=True, ge=0,
    )  # fmt: skip
    eval_against: str = setting(
        "", "SPEC[,SPEC…] of the other seats in evaluations. Empty: the game's default opponent.",
        EVAL,
    )  # fmt: skip
    keep_pool: int = setting(
        8, "Earlier checkpoints to keep, evenly spaced. Opponents `past` are drawn from them.",
        EVAL, ge=0, le=1000,
    )  # fmt: skip

    stop_entropy: float = setting(
        0.0, "Stop if the mean entropy per sampled token falls below this, in nats. 0: never.",
        STOP, changeable=True, ge=0,
    )  # fmt: skip
    stop_legal_rate: float = setting(
        0.5, "Stop if the share of legal replies falls below this.", STOP, changeable=True,
        ge=0, le=1,
    )  # fmt: skip
    stop_kl: float = setting(
        5.0, "Stop if the KL divergence from the sampling policy exceeds this, in nats per "
        "token. 0: never.", STOP, changeable=True, ge=0,
    )  # fmt: skip
    stop_reply: float = setting(
        4.0, "Stop if the mean reply of the last three steps is this many times as long as in the "
        "first three, and longer than 24 tokens. 0: never.",
        STOP, changeable=True, ge=0,
    )  # fmt: skip

    log_dir: str = setting("runs/train", "Folder of all experiments.", LOG, changeable=True)
    log_sample_rate: float = setting(
        0.02, "Share of rollouts to save as replays.", LOG, changeable=True, ge=0, le=1
    )
    wandb: bool = setting(
        False, "Log to Weights & Biases too (offline without a key).", LOG, changeable=True
    )
    health_every: float = setting(
        60.0, "Seconds between checks of the machine.", LOG, changeable=True, gt=0
    )
    health_children: int = setting(
        64, "Warn if there are more child processes than this.", LOG, changeable=True, ge=0
    )
    health_temp_gb: float = setting(
        10.0, "Warn if temporary files exceed this, in GB.", LOG, changeable=True, gt=0
    )
    health_memory: float = setting(
        0.9, "Warn if more than this share of memory is in use.", LOG, changeable=True, gt=0, le=1
    )
    health_disk_gb: float = setting(
        1.0, "Warn if less than this is free in --log-dir, in GB.", LOG, changeable=True, ge=0
    )
    health_rollout_age: float = setting(
        3600.0, "Warn if a game takes longer than this, in seconds.", LOG, changeable=True, gt=0
    )

    @model_validator(mode="before")
    @classmethod
    def _rename_old_fields(cls, values: Any) -> Any:
        """Accept the former names of fields, as config.json of older runs has them."""
        return with_new_names(values) if isinstance(values, dict) else values

    @property
    def experiment(self) -> str:
        """Name of the run's folder."""
        return self.experiment_name or f"{self.game}-{self.preset}"

    @property
    def art_name(self) -> str:
        """Name of the model in ART."""
        return self.model_name or self.experiment

    @property
    def trained_rank(self) -> int:
        """Rank of the trained adapter; 0: all weights are trained, which no server can load."""
        # Until a host is selected, `auto` counts as the embedded one.
        full = self.trainer_host in ("auto", "embedded") and not self.server
        return self.lora_rank or (0 if full else DEFAULT_LORA_RANK)

    def reference_step(self, step: int) -> int:
        """Return the step whose weights are the KL reference in the update after `step`."""
        if not self.kl_reference_every:
            return self.kl_reference
        # The last multiple of the period, but never before the first reference.
        return max(self.kl_reference, step - step % self.kl_reference_every)

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of the update after `step` finished steps.

        Linear: lr(k) = lr_0 + (lr_end - lr_0) * min(1, k / (steps - 1)).
        """
        # Without --learning-rate-end the rate is constant.
        end = self.learning_rate if self.learning_rate_end is None else self.learning_rate_end
        progress = min(1.0, step / max(1, self.total_steps - 1))
        return self.learning_rate + (end - self.learning_rate) * progress

    @property
    def total_steps(self) -> int:
        """Number of steps of the whole run.

        With epochs: ceil(epochs * deals / groups_per_step), so that the last pass is complete.
        """
        if not self.epochs:
            return self.steps
        # 0 means new deals in every step; epochs are refused then (see presets).
        deals = max(1, self.dataset_size)
        # -(-a // b) is ceil(a / b).
        return -(-self.epochs * deals // self.groups_per_step)

    @property
    def config_hash(self) -> str:
        """Twelve hexadecimal digits that identify all settings that decide what is learned."""
        # Sorted keys: the hash does not depend on the order of the fields.
        values = {HASHED_NAMES.get(name, name): value for name, value in self._decisive().items()}
        text = json.dumps(values, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: TrainConfig) -> dict[str, tuple[JsonValue, JsonValue]]:
        """Return the decisive fields that differ, each with our value and the other's."""
        ours, theirs = self._decisive(), other._decisive()
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def _decisive(self) -> dict[str, JsonValue]:
        """Return the settings that decide what is learned, with the effective adapter rank."""
        values = {name: getattr(self, name) for name in sorted(decisive_fields())}
        return values | {"lora_rank": self.trained_rank}


def with_new_names(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the values with former names of fields replaced. A new name overrides its old one."""
    return {
        OLD_NAMES.get(name, name): value
        for name, value in values.items()
        if OLD_NAMES.get(name, name) == name or OLD_NAMES[name] not in values
    }


LABELS = frozenset({"experiment_name", "model_name", "project", "preset"})
"""Fields that only name a run. They do not influence what is learned."""


def decisive_fields() -> frozenset[str]:
    """Return the names of the fields that decide what is learned."""
    changeable = {
        name
        for name, field in TrainConfig.model_fields.items()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("changeable")
    }
    return frozenset(TrainConfig.model_fields) - changeable - LABELS
