"""How flags are declared."""

from functools import partial

import typer

Flag = partial(typer.Option, show_envvar=False)
"""An option whose help leaves out its environment variable: the README tells the rule once."""
