"""Where the numbers of a training run come from, and in which folder it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena import catalog, make_game
from arena.core.errors import ArenaError, UsageError
from arena.episodes.files import locked
from arena.llm.config import SettingsLayer
from trainers.config.config import TrainConfig, preset_names, read_preset, settled
from trainers.runs.training_run import Plan, alone_in, lock_of, plan_run, run_files


def resolve(game: str, preset: str, layers: list[SettingsLayer]) -> TrainConfig:
    named = SettingsLayer("flag", {"game": game})
    return settled(TrainConfig.of_layers([named, *layers]), preset)


def of_file(text: str, folder: Path, game: str = "cluedo") -> SettingsLayer:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_preset(str(path), game)


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_is_a_config_for_every_game(preset: str) -> None:
    for game in catalog().names("game"):
        config = resolve(game, preset, [read_preset(preset, game)])
        assert (config.game, config.experiment) == (game, f"{game}-{preset}")
        made = make_game(game, **config.options)
        assert game != "cluedo" or preset != "demo" or made.num_players == 4


@pytest.mark.parametrize(
    ("every", "steps", "evaluated"),
    [(4, 10, [0, 4, 8, 10]), (5, 10, [0, 5, 10]), (99, 3, [0, 3]), (1, 2, [0, 1, 2]), (0, 10, [])],
)
def test_the_last_step_is_evaluated_also_between_periods(
    every: int, steps: int, evaluated: list[int]
) -> None:
    config = TrainConfig(steps=steps, eval_every=every, eval_games=7, final_eval_games=2)
    assert [step for step in range(steps + 1) if config.is_evaluated(step)] == evaluated


def test_a_table_of_a_game_holds_for_that_game_only(tmp_path: Path) -> None:
    text = """
        reward = "win=1"
        options = { theme = "us" }
        [cluedo]
        reward = "win=2"
        options = { players = 5 }
    """
    assert of_file(text, tmp_path).values == {
        "reward": "win=2",
        "options": {"theme": "us", "players": 5},
    }
    assert of_file(text, tmp_path, "goofspiel").values["reward"] == "win=1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stepz = 3", "mine.toml: there is no key 'stepz'; did you mean 'steps'?"),
        ("[cluedo]\nstepz = 3", "mine.toml, [cluedo]: there is no key 'stepz'; did you mean"),
        ("[clue]\nsteps = 3", "mine.toml: [clue] is neither a key nor a game"),
        ("game = 'cluedo'", "there is no key 'game'"),
        ("preset = 'demo'", "there is no key 'preset'"),
        ("steps = -3", "mine.toml: steps = -3: give at least 0"),
        ("loss = 'sft'", "mine.toml: loss = 'sft': choose cispo or ppo"),
        ("text_level = 'all'", "text_level = 'all': choose events, notes or"),
        ("kl_coef = inf", "mine.toml: kl_coef = inf: give a finite number"),
        ("options = 3", "mine.toml: options = 3: give names with values"),
        ("\ufeffsteps = 0", ""),
        ("experiment_name = '../x'", "--experiment-name '../x'"),
        ("steps = ", "mine.toml is not TOML"),
    ],
)
def test_a_bad_preset_names_its_file_and_key(text: str, said: str, tmp_path: Path) -> None:
    if not said:
        assert resolve("cluedo", "mine", [of_file(text, tmp_path)]).steps == 0
        return
    with pytest.raises(UsageError) as raised:
        resolve("cluedo", "mine", [of_file(text, tmp_path)])
    assert said in str(raised.value)


def config_in(folder: Path, **values: object) -> TrainConfig:
    return TrainConfig(log_dir=str(folder / "runs"), experiment_name="x", **values)  # type: ignore[arg-type]


def write_run(config: TrainConfig, state: str = '{"step": 3}') -> None:
    files = run_files(config)
    files.folder.mkdir(parents=True, exist_ok=True)
    files.config.write_text(config.model_dump_json(), encoding="utf-8")
    files.state.write_text(state, encoding="utf-8")


def test_a_run_begins_and_goes_on(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    assert plan_run(config) == Plan(run_files(config))
    assert not list(tmp_path.iterdir()), "a plan writes nothing"
    write_run(config)
    assert plan_run(config) == Plan(run_files(config), True, 3)
    longer = config_in(tmp_path, steps=90, eval_every=3)
    assert plan_run(longer).continues, "what decides nothing may change"


def test_other_settings_are_refused_one_by_one(tmp_path: Path) -> None:
    write_run(config_in(tmp_path, options={"players": 4}, learning_rate=0.01))
    with pytest.raises(UsageError) as raised:
        plan_run(config_in(tmp_path, options={"players": 3}, learning_rate=0.02, steps=9))
    message = str(raised.value)
    assert "--learning-rate 0.01, now 0.02; --option players=4, now 3. Use" in message
    assert "another --experiment-name" in message and "--steps" not in message
    with pytest.raises(UsageError, match="cluedo, now goofspiel"):
        plan_run(config_in(tmp_path, game="goofspiel"))


def test_a_run_goes_on_training_what_it_has_trained(tmp_path: Path) -> None:
    """A server takes adapters only, so naming one or leaving it out may change what is trained."""
    served = {"trainer_host": "embedded", "server": "http://localhost:1"}
    write_run(config_in(tmp_path, **served))
    for given in (served, {"trainer_host": "embedded", "lora_rank": 8}, {**served, "lora_rank": 8}):
        assert plan_run(config_in(tmp_path, **given)).continues
    with pytest.raises(UsageError, match="--lora-rank 8, now 0"):
        plan_run(config_in(tmp_path, trainer_host="embedded"))
    write_run(config_in(tmp_path, trainer_host="embedded"))
    with pytest.raises(UsageError, match="--lora-rank 0, now 8"):
        plan_run(config_in(tmp_path, **served))


def test_the_reference_moves_on_every_so_many_steps() -> None:
    assert TrainConfig().reference_step(60) == 0
    assert [TrainConfig(self_play=True).reference_step(n) for n in (24, 25, 60)] == [0, 25, 50]


def test_a_fault_that_is_found_at_once_leaves_everything_as_it_was(tmp_path: Path) -> None:
    folder = run_files(config_in(tmp_path)).folder
    with pytest.raises(UsageError), alone_in(folder, "arena train"):
        raise UsageError("a bad SPEC")
    assert not list(tmp_path.iterdir())


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    folder = run_files(config_in(tmp_path)).folder
    with (
        locked(lock_of(folder)),
        pytest.raises(ArenaError, match="another arena train is writing"),
        alone_in(folder, "arena train"),
    ):
        raise AssertionError("it has begun")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{", "config.json is broken"),
        ("config.json", '{"speed": 3}', "another version of arena: speed"),
        ("config.json", "\udcff", "cannot be read"),
        ("run.json", '{"step": "many"}', "run.json is broken"),
    ],
)
def test_a_broken_run_is_named(name: str, content: str, said: str, tmp_path: Path) -> None:
    config = config_in(tmp_path)
    write_run(config)
    path = run_files(config).folder / name
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=said):
        plan_run(config)


def test_a_strangers_folder_is_left_alone(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    folder = run_files(config).folder
    folder.mkdir(parents=True)
    (folder / ".config.json.part").touch()
    assert not plan_run(config).continues, "a run that was killed at once is as good as none"
    (folder / "thesis.txt").touch()
    with pytest.raises(UsageError, match="is not an experiment of arena"):
        plan_run(config)


def test_settings_of_the_server_do_not_change_the_hash() -> None:
    plain = TrainConfig(game="cluedo", trainer_host="embedded")
    assert plain.model_copy(update={"sync_every": 2}).config_hash != plain.config_hash
    served = plain.model_copy(update={"server": "vllm", "weight_sync": "none"})
    assert served.config_hash == plain.config_hash, "all weights are trained in both"
    assert served.model_copy(update={"weight_sync": "lora_only"}).trained_rank == 8
    assert [served.model_copy(update={"sync_every": 3}).sampling_step(n) for n in range(7)] == [
        0, 0, 0, 3, 3, 3, 6,
    ]  # fmt: skip
