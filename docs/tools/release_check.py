"""Check a release before it is published: `make release-check`.

    python docs/tools/release_check.py                          # every extra, every Python found
    python docs/tools/release_check.py --pythons 3.12 core mcp  # these extras with this Python

Builds the source distribution and the wheel, checks what is inside, installs the wheel with each
extra alone in a new environment and runs the command of `release_smoke.toml` there. A row for each
extra is stored at once in `results/extras.json`, for the table of docs/guides/install.md; rows of
other extras stay as they are. The exit code is 1 if anything fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

# Also when a test loads this file by its path.
sys.path.append(str(Path(__file__).parent))
import results

ROOT = results.ROOT
WORK = ROOT / "build" / "release"
SMOKE = Path(__file__).with_name("release_smoke.toml")
MEGABYTE = 1_000_000
LIMITS = {".whl": 8 * MEGABYTE, ".gz": 10 * MEGABYTE}
"""Most bytes of an archive, by its suffix."""
HEADER = ("extra", "packages", "size", "installed in", "passed with Python", "to know")
PRIVATE = re.compile(rb"(?<![\w.])/(?:home|Users|root|work)/\w+/")
"""A path of somebody's machine."""
FOREIGN = re.compile(rb"Copyright \(c\)|Copyright \d{4}|SPDX-License-Identifier|@license|@preserve")
"""The notice of a part that others wrote."""
TEST = re.compile(r"(^|/)(tests?|conftest\.py|test_[^/]*\.py)(/|$)")
HIDDEN = re.compile(r"(^|/)\.(?!gitignore$)")
PRELUDE = """
set -euo pipefail
start() {
  "$@" > server.log 2>&1 &
  trap "kill $! 2> /dev/null || true" EXIT
  for _ in $(seq 240); do
    # A line may have the address twice.
    URL=$(grep -om1 'http://127[^ ;]*' server.log | head -n 1) && return
    kill -0 $! || break
    sleep 0.5
  done
  cat server.log; return 1
}
fetch() {
  python -c 'import sys; from urllib.request import urlopen as get
print(get(sys.argv[1], timeout=60).read().decode())' "$1"
}
"""


@dataclass(frozen=True)
class Trial:
    """An extra in an environment of its own, with one version of Python."""

    python: str
    packages: int
    megabytes: float
    seconds: float
    """Of pip, with what its cache held."""
    fault: str
    """Empty if the installation and the command passed."""


def build() -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from it; return both."""
    dist = WORK / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir()], check=True
    )
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
    if (size := path.stat().st_size) > (limit := LIMITS[path.suffix]):
        yield f"{path.name} has {size / MEGABYTE:.1f} MB, more than {limit / MEGABYTE:.0f}"
    is_wheel = path.suffix == ".whl"
    license_name = next((name for name in files if name.endswith("LICENSE")), None)
    if license_name is None or files[license_name] != (ROOT / "LICENSE").read_bytes():
        yield f"{path.name} lacks the file LICENSE"
    for name, content in files.items():
        if HIDDEN.search(name):
            yield f"{path.name}: {name} is a hidden file"
        if is_wheel and TEST.search(name):
            yield f"{path.name}: {name} is a test"
        # Tests and their data may name paths that do not exist.
        private = None if TEST.search(name) else PRIVATE.search(content)
        own = str(ROOT).encode() in content
        if private or own:
            yield f"{path.name}: {name} names {private[0].decode() if private else ROOT}"
        if FOREIGN.search(content) and not _has_license(name, files):
            yield f"{path.name}: {name} has a notice of copyright, but no file LICENSE beside it"


def _has_license(name: str, files: Mapping[str, bytes]) -> bool:
    folder = name.rpartition("/")[0]
    ours = name == "LICENSE" or name.endswith(("/LICENSE", "release_check.py"))
    return ours or f"{folder}/LICENSE" in files


def citation_faults(root: Path = ROOT) -> Iterator[str]:
    """Yield where CITATION.cff differs from pyproject.toml or from the changelog."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (root / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r'^([\w-]+): *"?([^"\n]+?)"?$', text, flags=re.M))
    for key in ("version", "license"):
        if cited.get(key) != project[key]:
            yield f"CITATION.cff: {key} is {cited.get(key)}, in pyproject.toml {project[key]}"
    names = re.findall(r'^  - name: *"?([^"\n]+?)"?$', text, flags=re.M)
    if names != (authors := [author["name"] for author in project["authors"]]):
        yield f"CITATION.cff: the authors are {names}, in pyproject.toml {authors}"
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = re.search(rf"^## {re.escape(project['version'])} \((.+)\)$", changelog, flags=re.M)
    if entry is None:
        yield f"CHANGELOG.md has no section {project['version']}"
    elif (date := cited.get("date-released", "unreleased")) != entry[1]:
        yield f"CITATION.cff: date-released is {date}, in the changelog {entry[1]}"


def find_pythons() -> dict[str, Path]:
    """Return the interpreters of this machine by version, of those that pyproject.toml names."""
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    found = {}
    for version in classifiers:
        pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        on_path = shutil.which(f"python{version}")
        for python in [*([Path(on_path)] if on_path else []), *pyenv]:
            # The program of a version manager may exist and start nothing.
            probe = subprocess.run([python, "--version"], check=False, capture_output=True)
            if probe.returncode == 0:
                found[version] = python
                break
    return found


def _size(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return sum(path.stat().st_size for path in files) / MEGABYTE


def try_extra(extra: str, run: str, wheel: Path, source: Path, python: Path) -> Trial:
    """Install the wheel with one extra in a new environment and run the extra's command there."""
    folder = WORK / f"extra-{extra}"
    shutil.rmtree(folder, ignore_errors=True)
    (work := folder / "work").mkdir(parents=True)
    subprocess.run([python, "-m", "venv", folder / "env"], check=True)
    program = folder / "env" / "bin" / "python"
    site = next((folder / "env" / "lib").glob("python*/site-packages"))
    before, bare = _size(site), len(list(site.glob("*.dist-info")))
    what = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
    start = time.monotonic()
    with (folder / "pip.log").open("w") as log:
        pip = [program, "-m", "pip", "install", "--disable-pip-version-check", what]
        code = subprocess.run(pip, check=False, stdout=log, stderr=log).returncode
    seconds = time.monotonic() - start
    # Older versions of pip leave out an extra that they do not find, and succeed.
    left_out = "does not provide the extra" in (folder / "pip.log").read_text()
    fault = f"pip: {folder / 'pip.log'}" if code or left_out else _smoke(run, folder, source, work)
    packages = len(list(site.glob("*.dist-info"))) - bare
    version = f"3.{site.parent.name.rpartition('.')[2]}"
    trial = Trial(version, packages, _size(site) - before, seconds, fault)
    if not fault:  # Environments need room; one that failed is kept for a look.
        shutil.rmtree(folder)
    return trial


def _smoke(run: str, folder: Path, source: Path, work: Path) -> str:
    # Only the wheel can be imported: no PYTHONPATH, and none of the user's settings.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "ARENA_"))}
    path = f"{folder / 'env' / 'bin'}:{os.environ['PATH']}"
    env = {**kept, "PATH": path, "HOME": str(work), "SOURCE": str(source), "OLDPWD": str(work)}
    with (folder / "smoke.log").open("w") as log:
        command = ["bash", "-c", PRELUDE + run]
        try:
            done = subprocess.run(
                command, check=False, cwd=work, env=env, stdout=log, stderr=log, timeout=1200
            )
        except subprocess.TimeoutExpired:
            return f"no end within 20 minutes: {log.name}"
    return f"exit code {done.returncode}: {log.name}" if done.returncode else ""


def row(extra: str, note: str, trials: Sequence[Trial]) -> list[str]:
    """Return the cells of an extra; sizes are the largest of its environments."""
    passed = [trial.python for trial in trials if not trial.fault]
    failed = [f"{trial.python} failed" for trial in trials if trial.fault]
    return [
        f"`{extra}`" if extra != "core" else "(the core)",
        str(max(trial.packages for trial in trials)),
        f"{max(trial.megabytes for trial in trials):.0f} MB",
        f"{max(trial.seconds for trial in trials):.0f} s",
        ", ".join(passed + failed),
        note,
    ]


def store(cells: Sequence[str], order: Sequence[str]) -> None:
    """Write the row of one extra to `results/extras.json`."""
    path = ROOT / "results" / "extras.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    by_name = {each["cells"][0].strip("`"): each for each in rows}
    by_name[cells[0].strip("`")] = {
        "cells": list(cells),
        "command": "make release-check",
        "commit": results.commit(ROOT),
        "date": datetime.now(UTC).date().isoformat(),
    }
    names = ["(the core)", *order]
    document = {"header": HEADER, "rows": [by_name[name] for name in names if name in by_name]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parse(words: Sequence[str] | None, smoke: Mapping[str, object]) -> argparse.Namespace:
    """Return the extras and the interpreters of a command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", default=None, metavar="EXTRA")
    parser.add_argument("--pythons", default="", help="versions, such as '3.11 3.13'")
    found = parser.parse_args(words)
    found.extras = found.extras or list(smoke)
    if unknown := set(found.extras) - set(smoke):
        parser.error(f"{', '.join(sorted(unknown))}: the extras are {', '.join(smoke)}")
    here = find_pythons()
    wanted = found.pythons.split() or list(here)
    if missing := set(wanted) - set(here):
        parser.error(f"no Python {', '.join(sorted(missing))} here, only {', '.join(here)}")
    found.pythons = [here[version] for version in wanted]
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Check the archives, then the extras; return the exit code."""
    smoke = tomllib.loads(SMOKE.read_text(encoding="utf-8"))
    chosen = parse(words, smoke)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    faults = [f"{SMOKE.name} lacks {extra}" for extra in extras if extra not in smoke]
    source, wheel = build()
    for archive in (source, wheel):
        files = read_archive(archive)
        print(f"{archive.name}: {len(files)} files, {archive.stat().st_size / MEGABYTE:.1f} MB")
        faults += archive_faults(archive, files)
    faults += citation_faults()
    shutil.rmtree(unpacked := WORK / "source", ignore_errors=True)
    with tarfile.open(source) as archive:
        archive.extractall(unpacked, filter="data")
    for extra in chosen.extras:
        entry, trials = smoke[extra], []
        for python in chosen.pythons:
            trial = try_extra(extra, entry["run"], wheel, next(unpacked.iterdir()), python)
            trials.append(trial)
            size, verdict = f"{trial.megabytes:.0f} MB", trial.fault or "passed"
            line = f"{extra}, Python {trial.python}: {verdict}"
            print(f"{line} ({size}, {trial.seconds:.0f} s)", flush=True)
            faults += [line] if trial.fault else []
        store(row(extra, entry.get("note", ""), trials), list(smoke))
    for fault in faults:
        print(f"FAILED {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
