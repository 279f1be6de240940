"""Check a release before it is published: `make release-check PYTHONS="python3.11 python3.13"`.

Builds the source distribution and the wheel, looks inside, and runs commands in new environments:
the wheel alone and with each extra alone, for each Python. The exit code is 1 if anything fails.
The arguments are Pythons (default: the running one) and extras (default: all), in any order.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "release"
LIMITS = {".whl": 8_000_000, ".gz": 10_000_000}
"""Most bytes of an archive, by its suffix."""
PRIVATE = re.compile(rb"(?<![\w.])/(?:home|Users|root|work)/\w+/")
"""A path of one machine."""
TEST = re.compile(r"(^|/)(tests?|conftest\.py|test_[^/]*\.py)(/|$)")
HIDDEN = re.compile(r"(^|/)\.(?!gitignore$)")
PLAYS = "arena play {} --seed 1 --out games && arena replay verify games/*.jsonl"
SMOKE = {
    "": """
arena
arena play kuhn_poker --seed 1 --out games
arena replay verify games/*.jsonl
arena eval cluedo --player bot:detective --baseline bot:novice --games 4 --seed 1 --out result
arena doctor
""",
    "models": """
arena eval kuhn_poker --player openai:gpt-5-mini --games 4 --dry-run
arena list models
""",
    "embedded": """
arena play cluedo --seat 0=embedded:clue-tiny --text-level deductions --seed 1 --max-turns 8
""",
    "web": """
arena eval kuhn_poker --player bot:equilibrium --games 4 --seed 1 --html report.html
test -s report.html
arena play cluedo --seed 1 --out games
arena replay view games/*.jsonl --html game.html
test -s game.html
""",
    "train": """
arena play cluedo --seat 0=embedded:clue-tiny --text-level deductions --seed 1 --max-turns 8
arena train kuhn_poker --steps 1 --groups-per-step 2 --rollouts-per-group 2 --final-eval-games 2
test -s runs/train/kuhn_poker-default/checkpoints/0001/model.safetensors
""",
    "art": """
arena train kuhn_poker --steps 1 --groups-per-step 2 --rollouts-per-group 2 --final-eval-games 2
python -c "from trainers.hosts.art import local, serverless"
""",
    "open-spiel": PLAYS.format("open_spiel/leduc_poker"),
    "pettingzoo": """
python -c "import arena; arena.to_pettingzoo(arena.make_game('kuhn_poker')).reset(seed=1)"
""",
    "textarena": PLAYS.format("textarena/Nim-v0"),
    "verifiers": "python -c 'import trainers.verifiers.environment'",
    "openenv": "python -c 'import arena.envs.openenv'",
    "mcp": "arena mcp kuhn_poker < /dev/null",
    "ray": """
arena eval kuhn_poker --player bot:honest --games 4 --seed 1 --executor ray --out result
""",
}
"""Commands by the extra that they need; `gpu` needs CUDA, so it is not among them."""


def new_environment(python: str, name: str, *packages: str) -> Path:
    """Make an environment in the folder of this check and return its folder of programs."""
    shutil.rmtree(folder := WORK / name, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*pip, "--quiet", *packages], check=True)
    return folder / "bin"


def build() -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from it; return both."""
    shutil.rmtree(dist := WORK / "dist", ignore_errors=True)
    python = str(
        new_environment(sys.executable, "builder", "build", "hatchling", "twine") / "python"
    )
    command = [python, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([python, "-m", "twine", "check", "--strict", *dist.iterdir()], check=True)
    return next(dist.glob("*.tar.gz")), next(dist.glob("*.whl"))


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel or a source distribution, in the latter without its folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(path) as source:
        files = ((member.name, source.extractfile(member)) for member in source)
        return {name.split("/", 1)[1]: file.read() for name, file in files if file is not None}


def archive_faults(path: Path, files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield what must not be in an archive, or is missing there."""
    if path.stat().st_size > (limit := LIMITS[path.suffix]):
        yield f"{path.name} has more than {limit:,} bytes"
    if (ROOT / "LICENSE").read_bytes() not in files.values():
        yield f"{path.name} lacks the file LICENSE"
    for name, content in files.items():
        if HIDDEN.search(name):
            yield f"{path.name}: {name} is a hidden file"
        if path.suffix == ".whl" and TEST.search(name):
            yield f"{path.name}: {name} is a test"
        # Tests and their data may name paths that do not exist.
        if not TEST.search(name) and (found := PRIVATE.search(content)):
            yield f"{path.name}: {name} names {found[0].decode()}"


def smoke_fault(python: str, extra: str, wheel: Path) -> str:
    """Install the wheel with an extra, run its commands and return "" or what failed."""
    place = f"{python} [{extra}]"
    try:
        programs = new_environment(python, "smoke", f"{wheel}[{extra}]" if extra else str(wheel))
    except subprocess.CalledProcessError as error:
        return f"{place}: cannot be installed: {error}"
    (work := programs.parent / "work").mkdir()
    # Only the wheel can be imported: no PYTHONPATH, and none of the user's settings.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "ARENA_"))}
    env = {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(work)}
    command = ["bash", "-euo", "pipefail", "-c", SMOKE[extra]]
    done = subprocess.run(
        command, check=False, cwd=work, env=env, timeout=1200, stdout=-1, stderr=-2, text=True
    )
    print(f"{place}: {'failed' if done.returncode else 'passed'}", flush=True)
    return f"{place}: exit code {done.returncode}\n{done.stdout[-3000:]}" if done.returncode else ""


def main(arguments: Sequence[str]) -> int:
    """Check the archives, then the commands of each Python and extra; return the exit code."""
    extras = [name for name in SMOKE if name in arguments] or list(SMOKE)
    pythons = [name for name in arguments if name not in SMOKE] or [sys.executable]
    archives = build()
    faults = [fault for path in archives for fault in archive_faults(path, read_archive(path))]
    for python in pythons:
        faults += filter(None, (smoke_fault(python, extra, archives[1]) for extra in extras))
    for fault in faults:
        print(f"FAILED {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
