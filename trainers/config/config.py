"""Settings of a training run.

`TrainConfig` has five parts: run, games, reward, update, evaluation. Each field is a key of
presets, of the table `[train]` in arena.toml and of `arena train --set`, and an environment
variable (`ARENA_TRAIN_…`). Most are flags too. The docstring of a field is its help text. The layer
that decides is the first of flags, environment, arena.toml, preset, default.

A preset is a TOML file in the folder `presets`, or a file of the user with the same keys. In a
file, a table with the name of a game holds for that game only:

    learning_rate = 3e-4

    [cluedo]
    text_level = "deductions"
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from arena.core.errors import UsageError
from arena.core.observation import TextLevel
from arena.core.text import did_you_mean
from arena.episodes.job import ExecutorKind
from arena.llm.config import Config, SettingsLayer, merged, setting, unknown_key
from arena.llm.environment import read_toml
from arena.llm.settings import BudgetLimits, RunLimits

CreditName = Literal["", "game", "judged"]
LossName = Literal["cispo", "ppo"]
Precision = Literal["float32", "bf16"]
HostName = Literal["embedded", "local", "serverless"]
WeightSync = Literal["shared_vllm", "lora_only", "lora_restart", "none"]
FULL_WEIGHTS = ("shared_vllm", "none")
"""Values of --weight-sync whose server gets all weights; the others send a LoRA adapter."""
OWNED_SERVERS = ("vllm", "arena")
"""Values of --server for which the run starts a server of its own, and stops it at its end."""
DEFAULT_LORA_RANK = 8
"""Rank of the adapter where training all weights is not possible and no rank is given."""
LORA_ALPHA = 16.0
"""The adapter is scaled by alpha/rank."""
KL_REFERENCE_EVERY = 25
"""Steps between moves of the KL reference with --self-play. In Kuhn poker, 25 steps ended nearer to
an equilibrium than 50 (one seed)."""
REPLY_TOKENS, NOTEBOOK_TOKENS = 64, 400
"""Longest reply if no setting says so: an action, and a notebook's entry before it."""
SELF_PLAY_MINIBATCHES = 8
"""Optimizer steps of a training step with --self-play: closer to an equilibrium than 2."""
GAMES_AT_ONCE = 64
"""Games played at the same time."""


RUN, HOST, GAMES, REWARD, UPDATE, EVAL = (
    "Run", "Weights", "Games", "Reward", "Update", "Evaluation",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """Settings of an update, under ART's names where it has one; see `TrainConfig`."""

    learning_rate: float = 3e-4
    loss_fn: LossName = "cispo"
    epsilon: float | None = None
    epsilon_high: float | None = None
    """Clip range above; this and `epsilon`: None means ART's default."""
    kl_penalty_coef: float = 0.0
    kl_penalty_reference_step: int = 0
    """Step whose weights are the reference of the KL penalty."""
    entropy_coef: float = 0.0
    minibatches: int = 2
    tokens_per_batch: int = 4_096
    gradient_checkpointing: bool = False
    precision: Precision = "float32"
    threads: int = 0
    """CPU threads of an update, on whose number the order of sums depends; 0: by the model's width,
    see `update_threads`."""
    seed: str = "0"
    """Seed of the order of sequences; the trainer sets it for each step."""

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


class RunSettings(Config):
    """Settings of the run, its files and the holder of its weights."""

    experiment_name: str = setting("", RUN, variable="ART_MODEL_NAME")
    """Folder of the run in --log-dir, and the model's name at its host. Empty: GAME-PRESET."""
    project: str = setting("arena", RUN, flag=False, variable="ART_PROJECT")
    """Project name for ART and Weights & Biases."""
    # In Cluedo a step takes about half a minute on two cores, and an evaluation as long. Most of a
    # small model's gain comes within ten steps.
    steps: int = setting(16, RUN, changeable=True, ge=0, le=10**6)
    """Training steps."""
    seed: int = setting(0, RUN, ge=0, le=10**11)
    """Seed of deals, seats, opponents, sampling and minibatches."""
    log_dir: str = setting("runs/train", RUN, changeable=True)
    """Folder of all experiments."""
    trainer_host: HostName = setting("embedded", HOST, flag="--trainer-host/--host")
    """Holder of the weights: this process, or ART's backend on a GPU (local) or at W&B."""
    base_model: str = setting("", HOST, variable="ART_BASE_MODEL")
    """Checkpoint to start from: a name, a folder, or with the host local a Hugging Face id.
    `scratch`: a new small model, pretrained on random games only. `notebook`: a new one that has
    learned to deduce (`arena pretrain --notebook`). Empty: the host's default; of the embedded host
    clue-tiny for Cluedo, else scratch."""
    server: str = setting("", HOST, changeable=True)
    """Server that answers in place of this process: the URL of one that runs (arena serve, vLLM),
    or `vllm` or `arena` to start one for the run."""
    weight_sync: WeightSync = setting("lora_only", HOST, changeable=True)
    """Transfer of new weights to --server. lora_only: load the adapter. lora_restart: restart the
    run's own server, then load the adapter. none: restart it with the full checkpoint. shared_vllm:
    write into vLLM's memory."""
    sync_every: int = setting(1, HOST, flag=False, ge=1)
    """Steps between transfers of weights to --server. Until then the older weights play."""
    vllm_python: str = setting("", HOST, flag=False, changeable=True, variable="ARENA_VLLM_PYTHON")
    """Python interpreter with vLLM, for --server vllm. Empty: this one."""
    vllm_port: int = setting(0, HOST, flag=False, changeable=True, ge=0, le=65535)
    """Port of the server that --server vllm or arena starts. 0: a free one."""
    vllm_args: str = setting("", HOST, flag=False, changeable=True)
    """Further arguments of the server that --server vllm or arena starts."""
    lora_rank: int = setting(0, HOST, ge=0, le=512)
    """Rank of the LoRA adapter. 0: train all weights on the embedded host; rank 8 on other hosts,
    and where --server gets an adapter."""
    device: str = setting("auto", HOST)
    """Device of the embedded host: cpu, cuda or auto."""


class GameSettings(Config):
    """Settings of the deals of a step, their players, and the replies."""

    text_level: TextLevel = setting("notes", GAMES)
    """Help in the text."""
    groups_per_step: int = setting(16, GAMES, ge=1)
    """Deals per step. Each deal forms one group."""
    rollouts_per_group: int = setting(8, GAMES, ge=2, le=1024)
    """Full games per deal."""
    executor: ExecutorKind = setting("local", GAMES, changeable=True)
    """Place of games: local (this process), processes, or ray. Models answer in this process."""
    workers: int = setting(0, GAMES, changeable=True, ge=0, le=100_000)
    """Workers of --executor processes or ray. 0: one for each core."""
    self_play: bool = setting(False, GAMES)
    """The newest weights play every seat of a deal, and learn from all of them."""
    opponents: str = setting("", GAMES)
    """Weighted mix, e.g. bot:novice=3,past=1: any SPEC, self (the newest weights), past (an earlier
    checkpoint). Empty: the game's default opponent."""
    max_context_tokens: int = setting(0, GAMES, flag=False, ge=0)
    """Longest chat in tokens. 0: the model's context length."""
    max_tokens: int = setting(0, GAMES, ge=0, le=10**5)
    """Longest reply in tokens. 0: 64, or 400 for a base model that keeps a notebook."""
    temperature: float = setting(1.0, GAMES, gt=0, le=2)
    """Sampling temperature in training games."""
    guided: bool = setting(False, GAMES, flag="--guided/--free")
    """Constrain sampling to legal actions (embedded host, vLLM)."""
    prompt: str = setting("rules", GAMES)
    """System message: rules, brief, or a file.txt."""


class RewardSettings(Config):
    """Settings of what the games and their turns are worth."""

    reward: str = setting("", REWARD)
    """Terms and weights, e.g. win=1,format=1. `arena train GAME --dry-run` lists the terms. Empty:
    the game's default."""
    reward_fn: str = setting("", REWARD)
    """module:function of a custom term. Weight it in --reward as `custom`."""
    credit: CreditName = setting("", REWARD)
    """Advantages of turns. game: each turn has that of its game. judged: each decision has also its
    own value by exact knowledge. Empty: judged in Cluedo on the embedded host, else game."""


class UpdateSettings(Config):
    """Settings of the updates of the weights."""

    learning_rate: float = setting(3e-4, UPDATE, gt=0, le=1)
    """Learning rate of Adam."""
    loss: LossName = setting("cispo", UPDATE)
    """Policy loss, as ART defines it."""
    kl_coef: float = setting(0.0, UPDATE, ge=0)
    """Coefficient of the KL penalty towards the starting policy, with --self-play towards one of at
    most 25 steps ago, in units of the reward per nat of an answer."""
    entropy_coef: float = setting(0.0, UPDATE, flag=False, ge=0)
    """Coefficient of the entropy bonus, in units of the reward per nat of an action (embedded)."""
    tokens_per_batch: int = setting(4_096, UPDATE, flag=False, changeable=True, ge=256)
    """Tokens per forward pass of an update. Bounds its memory (embedded)."""
    gradient_checkpointing: bool = setting(False, UPDATE, flag=False, changeable=True)
    """Compute activations twice instead of keeping them: less memory for large models, a third more
    time for an update, the same weights (embedded)."""
    precision: Precision = setting("float32", UPDATE, flag=False)
    """Numbers of sampling and of the forward and backward pass; trained weights and probabilities
    are float32. bf16: half the memory of activations and of the sampler, and faster on a processor
    that multiplies in it (embedded)."""


class EvaluationSettings(Config):
    """Settings of held-out evaluations, and where numbers are logged."""

    eval_every: int = setting(8, EVAL, changeable=True, ge=0)
    """Steps between evaluations. 0: evaluate at the end only."""
    eval_games: int = setting(100, EVAL, ge=2)
    """Held-out deals of an evaluation, paired with the starting policy."""
    final_eval_games: int = setting(400, EVAL, changeable=True, ge=0)
    """Held-out deals of the final evaluation of the newest and the best checkpoint."""
    eval_against: str = setting("", EVAL)
    """SPEC[,SPEC…] of the other seats in evaluations. Empty: the game's default opponent."""
    eval_temperature: float = setting(0.0, EVAL, flag=False, ge=0, le=2)
    """Sampling temperature in held-out games. 0: always the likeliest token."""
    wandb: bool = setting(False, EVAL, changeable=True)
    """Log each step to Weights & Biases too; without a key into the run's folder."""


class TrainConfig(
    RunSettings, GameSettings, RewardSettings, UpdateSettings, EvaluationSettings, BudgetLimits
):
    """Settings of `arena train`. Times are in seconds unless a description names another unit."""

    game: str = "cluedo"
    options: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def limits(self) -> RunLimits:
        """Budget of the models among the opponents, with the default limit of fallback moves."""
        return RunLimits(max_cost=self.max_cost)

    @property
    def update(self) -> UpdateOptions:
        """Settings of each update of the weights."""
        names = UpdateSettings.model_fields.keys() & {each.name for each in fields(UpdateOptions)}
        same = {name: getattr(self, name) for name in names}
        if self.self_play:
            same["minibatches"] = SELF_PLAY_MINIBATCHES
        return UpdateOptions(loss_fn=self.loss, kl_penalty_coef=self.kl_coef, **same)

    @property
    def experiment(self) -> str:
        """Name of the run's folder, and of the model at its host and servers."""
        return self.experiment_name or f"{self.game.replace('/', '-')}-default"

    @property
    def starts_from_scratch(self) -> bool:
        """Whether the run starts from a small model that is made in its folder."""
        base = self.base_model or BUNDLED.get(self.game, SCRATCH)
        return self.trainer_host == "embedded" and base in MADE_BASES

    @property
    def trained_rank(self) -> int:
        """Rank of the trained adapter; 0: all weights are trained."""
        full = self.trainer_host == "embedded" and (
            not self.server or self.weight_sync in FULL_WEIGHTS
        )
        return self.lora_rank or (0 if full else DEFAULT_LORA_RANK)

    def sampling_step(self, step: int) -> int:
        """Return the step whose weights play after `step` finished ones: the last transferred."""
        return step - step % self.sync_every

    def reference_step(self, step: int) -> int:
        """Return the step whose weights are the KL reference in the update after `step`."""
        return step - step % KL_REFERENCE_EVERY if self.self_play else 0

    @property
    def keeps_mixture(self) -> bool:
        """Whether the run keeps checkpoints for the average policy of self-play."""
        return self.self_play and self.trainer_host == "embedded"

    def is_evaluated(self, step: int) -> bool:
        """Return whether the held-out deals are played after this step; 0 is the starting policy.

        The last step always is, unless periodic evaluations are off.
        """
        every = self.eval_every
        return bool(every) and (step % every == 0 or step == self.steps)

    @property
    def config_hash(self) -> str:
        """Twelve hexadecimal digits that identify all settings that decide what is learned."""
        # Sorted keys: the hash does not depend on the order of the fields.
        text = json.dumps(self._decisive(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: TrainConfig) -> dict[str, tuple[JsonValue, JsonValue]]:
        """Return the decisive fields that differ, each with our value and the other's."""
        ours, theirs = self._decisive(), other._decisive()
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def _decisive(self) -> dict[str, JsonValue]:
        """Return the settings that decide what is learned, with the effective adapter rank."""
        names = TrainConfig.model_fields.keys() - CHANGEABLE - LABELS
        return {name: getattr(self, name) for name in sorted(names)} | {
            "lora_rank": self.trained_rank
        }


LABELS = frozenset({"experiment_name", "project"})
"""Fields that only name a run. They do not influence what is learned."""
CHANGEABLE = frozenset(
    name
    for name, field in TrainConfig.model_fields.items()
    if isinstance(field.json_schema_extra, dict) and field.json_schema_extra["changeable"]
)
"""Fields that a resumed run may change."""

SCRATCH, NOTEBOOK = "scratch", "notebook"
MADE_BASES = (SCRATCH, NOTEBOOK)
"""Base models that a run makes in its folder, before it opens the host."""
BUNDLED = {"cluedo": "clue-tiny"}
"""Games with a bundled checkpoint. For other games, a run starts from scratch by default."""


PRESETS = Path(__file__).with_name("presets")
DEFAULT = "default"
"""Name of a run without a preset: all settings are those of TrainConfig."""


def preset_names() -> list[str]:
    """Return the names of the bundled presets."""
    return [DEFAULT, *sorted(path.stem for path in PRESETS.glob("*.toml"))]


def read_preset(preset: str, game: str, source: str = "") -> SettingsLayer:
    """Return the settings of a bundled preset or of a TOML file, with those of the game's table.

    `source` is the place where the preset was chosen, for errors; by default `--preset`. Raises
    UsageError if the preset does not exist, is not TOML, or has an unknown key.
    """
    if preset == DEFAULT:
        return SettingsLayer(DEFAULT, {})
    bundled = preset in preset_names()
    path = PRESETS / f"{preset}.toml" if bundled else Path(preset)
    source = source or f"--preset {preset}"
    if not bundled and path.suffix != ".toml":
        near, known = did_you_mean(preset, preset_names()), ", ".join(preset_names())
        raise UsageError(f"{source}: {near}choose {known}, or name a FILE.toml")
    table = read_toml(path, f"{source}: the file")
    return layer_of(table, game, f"preset {path.stem}", str(path))


def layer_of(table: Mapping[str, JsonValue], game: str, origin: str, file: str) -> SettingsLayer:
    """Return the settings of a file's table for this game. Raises UsageError for an unknown key."""
    from arena.plugins.catalog import catalog

    known, games = TrainConfig.settings().keys() | {"options"}, catalog().names("game")
    tables = {n: v for n, v in table.items() if n != "options" and isinstance(v, dict)}
    values = {name: value for name, value in table.items() if name not in tables}
    # Tables of other games are checked too, so that a typing error is found before that game is
    # trained.
    for name in tables.keys() - games:
        raise UsageError(
            f"{file}: [{name}] is neither a key nor a game; the games are: {', '.join(games)}"
        )
    places = [(file, values), *((f"{file}, [{name}]", own) for name, own in tables.items())]
    for place, keys in places:
        for key in keys:
            if key not in known:
                raise unknown_key(place, key, known)
    # The keys of the file itself hold for all games; the game's own table overrides them.
    return SettingsLayer(origin, merged(values, tables.get(game, {})), file)


def settled(config: TrainConfig, preset: str = DEFAULT) -> TrainConfig:
    """Return a config without the values that others exclude; check what no field can.

    The experiment is named after the preset. Raises UsageError, with the place of a value.
    """
    if preset != DEFAULT and not config.experiment_name:
        # A preset from a file is named after the file.
        name = f"{config.game.replace('/', '-')}-{Path(preset).stem}"
        config = config.model_copy(update={"experiment_name": name})
    for problem in _sync_problems(config):
        raise UsageError(problem)
    _check_folder("--experiment-name", config.experiment, "--log-dir")
    _check_folder("project", config.project, "the run's folder")
    return config


def _sync_problems(config: TrainConfig) -> Iterator[str]:
    """Yield why the weights cannot reach the server in this way."""
    server, mode, every = config.server, config.weight_sync, config.sync_every
    owned, start = server in OWNED_SERVERS, "add --server vllm, which starts one"
    sync = f"--weight-sync {mode}"
    if not server and mode != "lora_only":
        yield f"{sync}: there is no --server; {start}"
    if not server and every > 1:
        yield f"sync_every={every}: there is no --server; {start}"
    if mode in ("lora_restart", "none") and not owned:
        yield f"{sync}: only the run's own server is restarted; {start}"
    if (port := config.vllm_port) and not owned:
        running = f"a server that runs already is --server http://127.0.0.1:{port}"
        yield f"vllm_port={port}: only --server vllm and --server arena take a port; {running}"
    if mode == "shared_vllm" and server == "arena":
        yield f"{sync}: only vLLM shares its memory; {start}"
    if mode == "shared_vllm" and every > 1:
        yield f"{sync}: its weights exist once; leave sync_every={every} out"


def _check_folder(flag: str, name: str, parent: str) -> None:
    if not name or name != Path(name).name or name.startswith((".", "-")) or "\0" in name:
        raise UsageError(f"{flag} {name!r}: this names a folder in {parent}, without slashes")
