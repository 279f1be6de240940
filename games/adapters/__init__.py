"""Games of other libraries: OpenSpiel, PettingZoo and TextArena, each a family of games."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


FAMILIES = (
    ("open_spiel", "games of OpenSpiel", "open_spiel.family:OPEN_SPIEL"),
    ("pettingzoo", "PettingZoo's classic games", "pettingzoo.family:PETTINGZOO"),
    ("textarena", "TextArena's games of text", "textarena.family:TEXTARENA"),
)
"""Name, summary, and the object in this package."""


CHECKS = (
    ("open_spiel/kuhn_poker", "open_spiel_kuhn_poker"),
    ("textarena/KuhnPoker-v0", "textarena_kuhn_poker"),
)
"""Games that are compared with a game of arena: name and function."""


def register(catalog: Catalog) -> None:
    """Register the families. Their libraries are extras, imported with the first game."""
    for name, title, target in FAMILIES:
        catalog.add("game_family", name, f"games.adapters.{target}", title)
    catalog.add(
        "bot",
        "textarena/*/quoting",
        "games.adapters.textarena.bots:Quoting",
        "writes a bracketed text that it was shown",
    )
    for name, function in CHECKS:
        catalog.add("check", name, f"games.adapters.references:{function}")
