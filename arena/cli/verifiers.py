"""`arena verifiers`: games as environments of verifiers 1."""

from __future__ import annotations

from pathlib import Path

from arena.cli.options import GameSetupOptions, named_seats
from arena.llm.config import argument, setting


class VerifiersPackageOptions(GameSetupOptions):
    """Options of `arena verifiers package`."""

    folder: Path = argument()
    """New folder of the package."""
    seat: list[str] = setting([])
    """N=SPEC, or N=model for a model that verifiers serves. Default: a model at seat 0, the game's
    default opponent at the others."""


def package(options: VerifiersPackageOptions) -> int:
    """Write a Python package that vf-eval and trainers load: taskset, environment, harness.

    arena verifiers package cluedo environments/cluedo --players 4

    pip install -e environments/cluedo && vf-eval arena-cluedo -n 8
    """
    from trainers.verifiers.package import write_package

    game, folder = options.make_game(), options.folder
    name = write_package(game, options.game_options(), named_seats(game, options.seat), folder)
    print(f"Package: {folder}   (pip install -e {folder} && vf-eval {name} -n 8)")
    return 0
