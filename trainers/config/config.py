"""Every number that decides a training run.

A field here is a flag of `arena train`, a key of a preset and of a `[train]` table in arena.toml,
and a line of the README's table. What is later in that list gives way.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from arena.core.json import Json
from arena.core.observation import TextLevel

LossName = Literal["cispo", "ppo"]
ImportanceLevel = Literal["token", "sequence", "average", "geometric_average"]
HostWish = Literal["auto", "embedded", "local", "serverless"]
DEFAULT_LORA_RANK = 8
"""Where all weights cannot be trained, and no rank is named."""


def setting(
    default: Any, about: str, panel: str, *, changeable: bool = False, **limits: Any
) -> Any:
    """A field with its description (which names the unit) and the group it is shown in.

    A run that is continued may differ from its beginning in `changeable` fields only.
    """
    extra: dict[str, Any] = {"panel": panel, "changeable": changeable}
    return Field(default, description=about, json_schema_extra=extra, **limits)


RUN, HOST, GAMES, REWARD, UPDATE, EVAL, STOP, LOG = (
    "Run", "Weights", "Games", "Reward", "Update", "Evaluation", "Early stop", "Logs and health",
)  # fmt: skip


class TrainConfig(BaseModel):
    """What `arena train` does, in numbers. Times are seconds unless a field says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: str = "cluedo"
    options: dict[str, Json] = Field(default_factory=dict)
    text_level: TextLevel = "notes"
    preset: str = "default"

    experiment_name: str = setting(
        "", "Folder of the run in --log-dir. Empty: GAME-PRESET.", RUN)  # fmt: skip
    project: str = setting("arena", "ART's project.", RUN)
    model_name: str = setting("", "ART's name of the model. Empty: the experiment's.", RUN)
    steps: int = setting(
        60, "Training steps. Overrides --epochs.", RUN, changeable=True, ge=0, le=10**6
    )
    epochs: int = setting(
        0,
        "Passes over --dataset-size deals, where --steps is not given; 0: --steps decides.",
        RUN,
        changeable=True,
        ge=0,
    )
    dataset_size: int = setting(
        0, "Training deals; 0: a step never sees a deal again.", RUN, ge=0, le=10**7
    )
    seed: int = setting(0, "Of deals, seats, opponents, answers and minibatches.", RUN, ge=0,
                        le=10**11)  # fmt: skip

    host: HostWish = setting("auto", "Who holds the weights and trains them.", HOST)
    base_model: str = setting(
        "", "Checkpoint to start from: a name, a folder, or on a GPU a Hugging Face id. `scratch`: "
        "a new small model that has only seen random play. Empty: the host's choice.", HOST,
    )  # fmt: skip
    server: str = setting(
        "", "URL of a server (arena serve, vLLM) that answers; each step's adapter is loaded "
        "there.", HOST, changeable=True,
    )  # fmt: skip
    lora_rank: int = setting(
        0, "Train a LoRA adapter of this rank; 0: all weights (embedded), 8 (others, "
        "and with --server).", HOST,
        ge=0, le=512,
    )  # fmt: skip
    lora_alpha: float = setting(16.0, "Scale of the adapter, times its rank.", HOST, gt=0)
    device: str = setting("auto", "cpu, cuda or auto; of the embedded host.", HOST)
    threads: int = setting(
        2, "CPU threads of an update. Sums depend on it, so it is a constant.", HOST, ge=1, le=256
    )

    groups_per_step: int = setting(16, "Deals in a step; a group is one deal.", GAMES, ge=1)
    rollouts_per_group: int = setting(8, "Full games of each deal.", GAMES, ge=2, le=1024)
    max_concurrent: int = setting(
        64, "Games played at once.", GAMES, changeable=True, ge=1, le=10_000
    )
    seats: Literal["one", "all"] = setting(
        "one", "one: the learner sits in one seat of a deal; all: in each (self-play).", GAMES
    )
    opponents: str = setting(
        "", "Weighted mix, e.g. bot:novice=3,past=1: any SPEC, self (the newest weights), past (an "
        "earlier checkpoint). Empty: the game's second bot.", GAMES,
    )  # fmt: skip
    max_turns: int = setting(0, "Turns after which a game is cut off; 0: the game's own.", GAMES,
                             ge=0)  # fmt: skip
    max_context_tokens: int = setting(
        0, "Longest chat in tokens; 0: the model's own context.", GAMES, ge=0
    )
    answer_tokens: int = setting(64, "Longest reply in tokens.", GAMES, ge=1, le=10**5)
    temperature: float = setting(1.0, "Sampling temperature in training.", GAMES, gt=0, le=2)
    guided: bool = setting(False, "Sample legal actions only (embedded, vLLM).", GAMES)
    beliefs: bool = setting(
        False, "Ask at each decision what the learner believes (for the term claims).", GAMES
    )
    prompt: str = setting("rules", "Name of the system prompt.", GAMES)
    rollout_timeout: float = setting(300.0, "Deadline of one game.", GAMES, changeable=True, gt=0)
    rollout_retries: int = setting(
        2, "Further tries for a game that failed.", GAMES, changeable=True, ge=0, le=100
    )

    reward: str = setting(
        "", "Terms and weights, e.g. win=1,format=1; `arena train GAME --dry-run` lists the terms. "
        "Empty: the game's own.", REWARD,
    )  # fmt: skip
    reward_fn: str = setting(
        "", "module:function, a term of your own; NAME=WEIGHT in --reward as `custom`.", REWARD
    )
    group_scorer: str = setting(
        "", "module:function or name: sees all trajectories of a group, may ask a judge.", REWARD
    )
    shuffle_rewards: bool = setting(
        False, "A control that must not learn: deal rewards out at random within a group.", REWARD
    )

    learning_rate: float = setting(3e-4, "Of Adam.", UPDATE, gt=0, le=1)
    learning_rate_end: float | None = setting(
        None, "Of the last step; until then it changes linearly. Default: --learning-rate.", UPDATE,
        gt=0, le=1,
    )  # fmt: skip
    warmup_steps: int = setting(0, "Steps over which the learning rate rises.", UPDATE, ge=0)
    loss: LossName = setting("cispo", "As ART defines it.", UPDATE)
    clip_eps: float | None = setting(
        None, "Clip range below 1 (and above). Default: ART's, 1 for cispo, 0.2 for ppo.", UPDATE,
        gt=0,
    )  # fmt: skip
    clip_eps_high: float | None = setting(
        None, "Clip range above 1. Default: ART's, 4 for cispo, --clip-eps for ppo.", UPDATE, gt=0
    )
    kl_coef: float = setting(0.0, "Penalty on the KL divergence from --kl-reference.", UPDATE, ge=0)
    kl_reference: int = setting(0, "Step whose weights are the reference.", UPDATE, ge=0)
    kl_reference_every: int = setting(
        0, "Steps after which the reference moves on to the newest weights; 0: never.", UPDATE, ge=0
    )
    advantage_balance: float = setting(
        0.0, "-1: only negative advantages count, 1: only positive ones.", UPDATE, ge=-1, le=1
    )
    scale_advantages: bool = setting(
        True, "Divide a group's advantages by their standard deviation.", UPDATE
    )
    importance_level: ImportanceLevel = setting(
        "token", "Over what importance ratios are averaged.", UPDATE
    )
    truncated_importance: float | None = setting(
        None, "Upper bound of truncated importance sampling.", UPDATE, gt=0
    )
    max_negative_weight: float | None = setting(
        None, "Upper bound of importance ratios (ART's max_negative_advantage_…).", UPDATE, gt=0
    )
    mask_prob_ratio: bool = setting(
        False, "Leave out tokens whose ratio is outside of the clip range.", UPDATE
    )
    kimi_k2_tau: float | None = setting(None, "ART's kimi_k2_tau.", UPDATE, ge=0)
    minibatches: int = setting(2, "Optimizer steps per step (embedded).", UPDATE, ge=1, le=1000)
    tokens_per_batch: int = setting(
        4_096, "Tokens computed at once in an update: bounds its memory (embedded).", UPDATE,
        changeable=True, ge=256,
    )  # fmt: skip
    max_grad_norm: float = setting(1.0, "Gradients are clipped to this norm (embedded).", UPDATE,
                                   gt=0)  # fmt: skip
    weight_decay: float = setting(0.0, "Of AdamW (embedded).", UPDATE, ge=0, le=1)

    eval_every: int = setting(
        10, "Steps between evaluations; 0: only at the end.", EVAL, changeable=True, ge=0
    )
    eval_games: int = setting(
        100, "Held-out deals of an evaluation, paired with the starting policy.", EVAL, ge=2
    )
    final_eval_games: int = setting(
        400, "Held-out deals at the end, for the newest and the best checkpoint.", EVAL,
        changeable=True, ge=0,
    )  # fmt: skip
    eval_against: str = setting(
        "", "SPEC[,SPEC…] of the other seats in evaluations. Empty: the game's second bot.", EVAL
    )
    keep_pool: int = setting(
        8, "Earlier checkpoints that are kept, evenly spaced: opponents called past.", EVAL,
        ge=0, le=1000,
    )  # fmt: skip

    stop_entropy: float = setting(
        0.0, "Stop when the mean entropy of a sampled token falls below this, in nats; 0: never.",
        STOP, changeable=True, ge=0,
    )  # fmt: skip
    stop_legality: float = setting(
        0.5, "Stop when the share of legal replies falls below this.", STOP, changeable=True,
        ge=0, le=1,
    )  # fmt: skip
    stop_kl: float = setting(
        5.0, "Stop when the KL divergence from the sampling policy exceeds this, in nats per "
        "token; 0: never.", STOP, changeable=True, ge=0,
    )  # fmt: skip
    stop_reply: float = setting(
        4.0, "Stop when replies of three steps are longer than this many times those of the first "
        "three, and than 24 tokens; 0: never.",
        STOP, changeable=True, ge=0,
    )  # fmt: skip

    log_dir: str = setting("runs/train", "Folder of all experiments.", LOG, changeable=True)
    log_sample_rate: float = setting(
        0.02, "Share of rollouts that are kept as replays.", LOG, changeable=True, ge=0, le=1
    )
    wandb: bool = setting(
        False, "Also log to Weights & Biases (offline without a key).", LOG, changeable=True
    )
    health_every: float = setting(60.0, "Seconds between checks of the machine.", LOG,
                                  changeable=True, gt=0)  # fmt: skip
    health_children: int = setting(
        64, "Warn of more child processes than this.", LOG, changeable=True, ge=0
    )
    health_temp_gb: float = setting(
        10.0, "Warn when temporary files exceed this, in GB.", LOG, changeable=True, gt=0
    )
    health_memory: float = setting(
        0.9, "Warn when this share of memory is used.", LOG, changeable=True, gt=0, le=1
    )
    health_disk_gb: float = setting(
        1.0, "Warn when less than this is free in --log-dir, in GB.", LOG, changeable=True, ge=0
    )
    health_rollout_age: float = setting(
        3600.0, "Warn of a game that has been going on for longer than this.", LOG,
        changeable=True, gt=0,
    )  # fmt: skip

    @property
    def experiment(self) -> str:
        return self.experiment_name or f"{self.game}-{self.preset}"

    @property
    def art_name(self) -> str:
        """What ART calls the model."""
        return self.model_name or self.experiment

    @property
    def trained_rank(self) -> int:
        """The rank of the adapter that is trained; 0: all weights, which no server would take."""
        whole = self.host in ("auto", "embedded") and not self.server
        return self.lora_rank or (0 if whole else DEFAULT_LORA_RANK)

    def reference_step(self, step: int) -> int:
        """The step whose weights the KL penalty refers to in the update after `step`."""
        if not self.kl_reference_every:
            return self.kl_reference
        return max(self.kl_reference, step - step % self.kl_reference_every)

    def learning_rate_at(self, step: int) -> float:
        """Of the update after `step` finished ones; linear in the step."""
        end = self.learning_rate if self.learning_rate_end is None else self.learning_rate_end
        share = min(1.0, step / max(1, self.total_steps - 1))
        return self.learning_rate + (end - self.learning_rate) * share

    @property
    def total_steps(self) -> int:
        """Steps of the whole run; a pass over the deals ends with the deal that completes it."""
        if not self.epochs:
            return self.steps
        deals = max(1, self.dataset_size)
        return -(-self.epochs * deals // self.groups_per_step)

    @property
    def config_hash(self) -> str:
        """Twelve hexadecimal digits that name everything which decides what is learned."""
        text = json.dumps(self._decisive(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: TrainConfig) -> dict[str, tuple[Json, Json]]:
        """The fields in which a continued run may not differ, and does: (ours, theirs)."""
        ours, theirs = self._decisive(), other._decisive()
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def _decisive(self) -> dict[str, Any]:
        """All that decides what is learned; with the rank that is trained, whoever chose it."""
        values = {name: getattr(self, name) for name in sorted(decisive_fields())}
        return values | {"lora_rank": self.trained_rank}


NAMES = frozenset({"experiment_name", "model_name", "project", "preset"})
"""What a run is called decides nothing."""


def decisive_fields() -> frozenset[str]:
    """The fields that decide what is learned."""
    fields = TrainConfig.model_fields.items()
    changeable = {
        name
        for name, field in fields
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("changeable")
    }
    return frozenset(TrainConfig.model_fields) - changeable - NAMES
