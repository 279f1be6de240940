"""Print the requirements of a wheel of vLLM, without the torch packages.

    python vllm_requirements.py FOLDER

The CPU build of vLLM names torchaudio, torchvision and torchcodec too, of which the index has no
CPU builds; texts do not need them. FOLDER contains the wheel.
"""

from __future__ import annotations

import re
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

LEFT_OUT = {"torch", "torchaudio", "torchcodec", "torchvision"}


def requirements(wheel: Path) -> list[str]:
    """Return the requirements in the wheel's metadata that belong to no extra."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    return [
        line
        for line in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in line and re.split(r"[^\w.-]", line)[0].lower() not in LEFT_OUT
    ]


if __name__ == "__main__":
    print("\n".join(requirements(next(Path(sys.argv[1]).glob("*.whl")))))
