"""The bundled games. Each is reached through the catalog, like any third party's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    catalog.add("game", "cluedo", "games.cluedo.game:Cluedo", "who did it, with what, where?")
    catalog.add("picture", "cluedo", "games.cluedo.views.picture:draw", "card grid and board")
    catalog.add("scene", "cluedo", "games.cluedo.views.scene:CluedoScene", "the board or the table")
    for rung, summary in (
        ("random", "any legal move; accuses at random, rarely"),
        ("novice", "crosses off only the cards it was shown"),
        ("detective", "knows everything that logically follows; accuses when sure"),
        ("oracle", "exact probabilities; asks for the most information, accuses when it pays"),
    ):
        catalog.add("bot", f"cluedo/{rung}", f"games.cluedo.bots:{rung.capitalize()}", summary)
    rewards = "games.cluedo.rewards"
    catalog.add("reward", "question", f"{rewards}:QUESTION", "own questions against the best")
    catalog.add("reward", "accusation", f"{rewards}:ACCUSATION", "right or wrong")
    catalog.add("reward", "premature", f"{rewards}:PREMATURE", "accusations that came too early")
    catalog.add("reward", "missed", f"{rewards}:MISSED", "provable, and not accused")
    catalog.add("reward", "leak", f"{rewards}:LEAK", "bits given away needlessly")
    catalog.add("reward", "claims", f"{rewards}:CLAIMS", "stated deductions against provable ones")
    catalog.add("game", "tictactoe", "games.tictactoe.game:TicTacToe", "three in a row")
    catalog.add("scene", "tictactoe", "games.tictactoe.game:TicTacToeScene", "the board")
    catalog.add("game", "kuhn_poker", "games.kuhn_poker.game:KuhnPoker", "poker with three cards")
    catalog.add("scene", "kuhn_poker", "games.kuhn_poker.game:KuhnPokerScene", "cards and chips")
    catalog.add("game", "goofspiel", "games.goofspiel.game:Goofspiel", "sealed bids for prizes")
