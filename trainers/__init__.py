"""Learning. Each trainer is reached through the catalog, like any third party's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    catalog.add("trainer", "imitation", "trainers.imitation.pretrain:pretrain", "imitates bots")
    recipe = "trainers.imitation.recipe:recipe_of"
    catalog.add("trainer", "imitation-recipe", recipe, "what the imitation does, in numbers")
