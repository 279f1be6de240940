"""arena: language models play, are measured at, and are trained on games that hide things.

    import arena

    game = arena.make_game("cluedo", players=3)
    match = arena.Match(game, ["bot:oracle", "bot:detective", "bot:novice"], seed=7)
    episode = await arena.play(match)

Names are imported when they are first used, so that `import arena` costs next to nothing. The file
`__init__.pyi` lists them: type checkers read it, and so does this module.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
