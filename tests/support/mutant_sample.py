"""Print the names of a random sample of the changes that `make mutants` has prepared.

make mutants ONLY="$(python tests/support/mutant_sample.py 160)"
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path


def names(folder: Path) -> list[str]:
    """Return the names of all changes below a folder, in alphabetical order."""
    files = [json.loads(path.read_text("utf-8")) for path in folder.rglob("*.meta")]
    return sorted(name for file in files for name in file["exit_code_by_key"])


def main() -> None:
    """Draw without replacement: a seed names one sample of one version of the code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("mutants"))
    given = parser.parse_args()
    every = names(given.folder)
    if len(every) < given.size:
        prepare = "make mutants ONLY='arena.evaluation.paired.*'"
        parser.error(f"{given.folder} has {len(every)} changes; prepare them by {prepare}")
    random.Random(given.seed).shuffle(every)
    print("\n".join(every[: given.size]))


if __name__ == "__main__":
    main()
