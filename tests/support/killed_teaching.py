"""A process that teaches models and kills itself at some moments: `killed_teaching.py ORDER`.

ORDER is JSON: a list of moments, and runs by their folders with the settings of each. For each
moment a child starts or resumes the run and ends by SIGKILL; the parent prints the signals. A
moment is "step N", or "rename N": the N-th time that the child is about to rename a file. No part
of the product is replaced.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from trainers.pretrain.imitation import teach
from trainers.pretrain.imitation_run import ImitationSettings
from trainers.pretrain.loop import CurvePoint


def run_until(moment: str, settings: ImitationSettings, out: Path, resume: bool) -> None:
    renames = count(1)

    def reach(now: str) -> None:
        if now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, _: tuple[Any, ...]) -> None:
        if event == "os.rename":
            reach(f"rename {next(renames)}")

    def progress(point: CurvePoint) -> None:
        reach(f"step {point.step}")

    sys.addaudithook(audit)
    teach(settings, out, resume, lambda _: None, progress)


def main(order: dict[str, Any]) -> None:
    signals = []
    for out, given in order["runs"].items():
        settings = ImitationSettings.model_validate(given)
        for number, moment in enumerate(order["moments"]):
            child = os.fork()
            if child == 0:
                run_until(moment, settings, Path(out), resume=number > 0)
                os._exit(0)
            signals.append(os.WTERMSIG(os.waitpid(child, 0)[1]))
    print(json.dumps(signals))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
