"""Extension of griffe: a section "Example:" with a doctest is read like "Examples:".

griffe knows the plural only. The singular becomes a note whose doctest is read as Markdown, so that
a list in its output looks like a link.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

SINGULAR = re.compile(r"^(\s*)Example:$", flags=re.M)


class ExamplesExtension(Extension):
    """Rename the section in each docstring."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring of one loaded object."""
        if obj.docstring:
            obj.docstring.value = SINGULAR.sub(r"\1Examples:", obj.docstring.value)
